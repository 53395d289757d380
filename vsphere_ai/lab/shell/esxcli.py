"""`esxcli`: finds the command of a namespace, reads its options, and refuses what it does not know as ESXi does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.shell import esxcli_hardware, esxcli_network, esxcli_system
from vsphere_ai.lab.shell.esxcli_command import EsxcliCommand, EsxcliError
from vsphere_ai.lab.shell.result import ShellResult

COMMANDS: Mapping[str, EsxcliCommand] = {
    **esxcli_hardware.COMMANDS,
    **esxcli_network.COMMANDS,
    **esxcli_system.COMMANDS,
}
"""Every esxcli command of the lab, by its namespaces and name."""


def main(host: LabHost, argv: Sequence[str]) -> ShellResult:
    """Run ``esxcli ARGV``; errors go to standard output with status 1, as on ESXi."""
    words: list[str] = []
    rest = list(argv)
    while rest and not rest[0].startswith("-"):
        words.append(rest.pop(0))
    name = " ".join(words)
    command = COMMANDS.get(name)
    if command is None:
        return _unknown(words)
    try:
        return ShellResult(0, command.run(host, command.read(rest)))
    except EsxcliError as error:
        return ShellResult(1, f"{error}\n")


def _unknown(words: list[str]) -> ShellResult:
    """Name the first word no namespace knows; a namespace alone is not a command."""
    for count in range(1, len(words) + 1):
        prefix = " ".join(words[:count])
        if not any(f"{known} ".startswith(f"{prefix} ") for known in COMMANDS):
            return ShellResult(1, f"Error: Unknown command or namespace {prefix}\n")
    below = sorted({known.split()[len(words)] for known in COMMANDS if known.split()[: len(words)] == words})
    return ShellResult(
        1, f"Usage: esxcli {' '.join([*words, ''])}{{cmd}} [cmd options]\n\nAvailable: {', '.join(below)}\n"
    )
