"""Runs one line of the ESXi Shell: words, `;`, `&&`, `||` and a pipe into `grep`, found and not found commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping

from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.shell import basics, esxcli, nv_hostengine, nvidia_smi, vim_cmd
from vsphere_ai.lab.shell.result import Command, ShellResult

COMMANDS: Mapping[str, Command] = {
    **basics.COMMANDS,
    "esxcli": esxcli.main,
    "nvidia-smi": nvidia_smi.main,
    "nv-hostengine": nv_hostengine.main,
    "vim-cmd": vim_cmd.main,
}
"""Every command of the lab's shell; real ESXi has more."""

_NEED_DRIVER = ("nvidia-smi", "nv-hostengine")
_CONNECTORS = (";", "&&", "||")
_PUNCTUATION = ";&|<>"


def run_line(host: LabHost, line: str) -> ShellResult:
    """Run a command line on a host and return its result; a line the shell cannot read gives status 2."""
    try:
        return run_words(line, lambda argv: _command(host, argv))
    except ValueError as error:
        return ShellResult(2, "", f"sh: syntax error: {error}\n")


def run_words(line: str, command: Callable[[list[str]], ShellResult]) -> ShellResult:
    """Run the commands of a line, each by `command`; `ValueError` for a line that the shell cannot read."""
    status, out, err = 0, "", ""
    for connector, pipeline in _pipelines(_words(line)):
        if (connector == "&&" and status) or (connector == "||" and not status):
            continue
        result = _pipe(command, pipeline)
        status, out, err = result.status, out + result.stdout, err + result.stderr
    return ShellResult(status, out, err)


def _words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=_PUNCTUATION)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words = list(lexer)
    for word in words:
        if not set(word) - set(_PUNCTUATION) and word not in (*_CONNECTORS, "|", ""):
            raise ValueError(f"the lab's shell has no '{word}'")
    return words


def _pipelines(words: list[str]) -> list[tuple[str, list[list[str]]]]:
    found: list[tuple[str, list[list[str]]]] = [(";", [[]])]
    for word in words:
        if word in _CONNECTORS:
            found.append((word, [[]]))
        elif word == "|":
            found[-1][1].append([])
        else:
            found[-1][1][-1].append(word)
    return [(connector, parts) for connector, parts in found if parts != [[]]]


def _pipe(command: Callable[[list[str]], ShellResult], commands: list[list[str]]) -> ShellResult:
    result = command(commands[0])
    for argv in commands[1:]:
        if argv[:1] != ["grep"]:
            return ShellResult(127, "", f"sh: {argv[0] if argv else ''}: not found\n")
        result = _grep(argv[1:], result)
    return result


def _command(host: LabHost, argv: list[str]) -> ShellResult:
    if not argv:
        return ShellResult()
    name = argv[0].rsplit("/", 1)[-1]
    if argv[:2] == ["sh", "-c"] and len(argv) == 3:
        return run_line(host, argv[2])
    command = COMMANDS.get(name)
    if command is None or (name in _NEED_DRIVER and host.driver_vib is None):
        return ShellResult(127, "", f"sh: {argv[0]}: not found\n")
    return command(host, argv[1:])


def _grep(argv: list[str], given: ShellResult) -> ShellResult:
    flags = "".join(a[1:] for a in argv if a.startswith("-"))
    patterns = [a for a in argv if not a.startswith("-")]
    if not patterns:
        return ShellResult(2, "", "BusyBox v1.29.3 () multi-call binary.\n")
    pattern = re.compile(patterns[0], re.IGNORECASE if "i" in flags else 0)
    kept = [line for line in given.stdout.splitlines() if bool(pattern.search(line)) != ("v" in flags)]
    text = f"{len(kept)}\n" if "c" in flags else "".join(f"{line}\n" for line in kept)
    return ShellResult(0 if kept else 1, text, given.stderr)
