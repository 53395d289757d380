"""`vsphere-ai completion`: what a shell offers when the Tab key is pressed.

An answer takes one process, so nothing is imported for it that is not needed, and nothing is asked over the network:
names of hosts and VMs are those that the last commands saw.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

from vsphere_ai.cli.console.forms import output_option, show_document
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import changes_nothing, dry_run_option, is_dry_run, prints_only
from vsphere_ai.errors import Storage, UsageError
from vsphere_ai.security.files import make_private_folder, write_private

if TYPE_CHECKING:
    from vsphere_ai.security.known_names import NameKind

HELP_ENTRY = "Set up", 60, "Print or install the completion of words by the Tab key."
VARIABLE = "_VSPHERE_AI_COMPLETE"
PROGRAM = "vsphere-ai"
SHELLS: Mapping[str, type[ShellComplete]] = {"bash": BashComplete, "fish": FishComplete, "zsh": ZshComplete}
MOST = 500
"""A shell gets no more names at once than these."""

Offer = Callable[[str], list[CompletionItem]]


def _names(*kinds: NameKind, files: bool = False) -> Offer:
    """Return what completes names of these kinds; `files`: of files as well."""

    def offer(begun: str) -> list[CompletionItem]:
        from vsphere_ai.security.known_names import names_of

        path = [CompletionItem(begun, type="file")] if files else []
        return [*path, *_beginning(names_of(*kinds), begun)]

    return offer


def _runs(begun: str) -> list[CompletionItem]:
    """Complete the id of a run, the newest first."""
    from vsphere_ai.security.known_names import run_ids

    return _beginning(run_ids(), begun)


def _boards(begun: str) -> list[CompletionItem]:
    """Complete the key of a GPU board."""
    from vsphere_ai.report.gpus.vgpu_text import board_types

    return _beginning((each.board for each in board_types(None)), begun)


def _variables(context: click.Context, begun: str) -> list[CompletionItem]:
    """Complete the name of a variable of the playbook that is already on the line."""
    from vsphere_ai.app.estate.variable_names import variable_names

    # where an option still lacks its value, click leaves arguments as they are typed
    names = [name for each in context.args for name in variable_names(Path(each))]
    return [] if "=" in begun else _beginning((f"{name}=" for name in names), begun)


_ANY = _names("datacenter", "host", "vm")
_BY_WORD: dict[str, Offer] = {
    "BOARD": _boards,
    "HOST": _names("host"),
    "PATTERN": _ANY,
    "PLAYBOOK|PATTERN": _names("vm", files=True),
    "RUN": _runs,
    "VM": _names("vm"),
}
"""What completes an argument or an option, by the word that stands for it in the help."""


def offering(command: click.Command) -> click.Command:
    """Let a command, with its subcommands, complete names, runs and boards."""
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        offering(each)
    for parameter in command.params:
        if parameter.name == "variables":
            parameter.shell_complete = _variables  # type: ignore[method-assign,assignment]
        word = (parameter.metavar or (parameter.human_readable_name)).strip(".[]").upper().replace("...", "")
        offer = _BY_WORD.get(word)
        if offer and (isinstance(parameter, click.Argument) or parameter.metavar):
            parameter.shell_complete = partial(_offered, offer)  # type: ignore[method-assign]
    return command


def _offered(offer: Offer, _context: click.Context, begun: str) -> list[CompletionItem]:
    return offer(begun)


def _beginning(found: Iterable[str], begun: str) -> list[CompletionItem]:
    from vsphere_ai.model.names.written_names import is_one_word

    plain = (name for name in found if name.startswith(begun) and is_one_word(name))
    return [CompletionItem(name) for name, _ in zip(plain, range(MOST), strict=False)]


def answer(command: click.Command, instruction: str) -> int:
    """Answer a shell; where that fails nothing is offered, and nothing is written over the line that is being typed."""
    shell, _, what = instruction.partition("_")
    try:
        text = _script(command, shell) if what == "source" else _offers(command, shell)
        os.write(1, text.encode())  # not through the streams of a command: a name here is typed, not shown
    except Exception:
        return 1
    return 0


def _offers(command: click.Command, shell: str) -> str:
    text = SHELLS[shell](command, {}, PROGRAM, VARIABLE).complete()
    return f"{text}\n" if text else ""


def _script(command: click.Command, shell: str) -> str:
    return SHELLS[shell](command, {}, PROGRAM, VARIABLE).source()


@click.group("completion")
def command() -> None:
    """Print or install the completion of commands, options, names and runs by the Tab key."""


def _printed(shell: str) -> click.Command:
    @command.command(shell, help=f"Print the completion script for {shell}.\n\nExits 0.")
    @click.pass_context
    @prints_only("a script of the shell")
    @changes_nothing
    @example(f"completion {shell}")
    def printed(context: click.Context) -> None:
        click.echo(_script(context.find_root().command, shell).rstrip("\n"))

    return printed


for _shell in SHELLS:
    _printed(_shell)


@command.command("install")
@click.argument("shell", metavar="[bash|zsh|fish]", required=False, type=click.Choice(tuple(SHELLS)))
@output_option()
@dry_run_option
@click.pass_context
@example("completion install bash")
def install(context: click.Context, shell: str | None, form: str) -> None:
    """Write the completion script to the folder where the shell looks for it; your own shell ($SHELL) by default.

    Exits 0, and 8 when the file cannot be written.
    """
    from vsphere_ai.documents.setup.files import written_files

    chosen = shell or Path(os.environ.get("SHELL", "")).name
    if chosen not in SHELLS:
        raise UsageError(f"completion is there for {', '.join(SHELLS)}, not for {chosen or 'an unknown shell'}",
                         "name the shell: vsphere-ai completion install bash")  # fmt: skip
    path = _place(chosen)
    if is_dry_run():
        would = "replaced" if path.exists() else "written"
        show_document(form, written_files(("would-be-written", path)), f"{path} would be {would}. Nothing was changed.")
        return
    try:
        make_private_folder(path.parent)
        write_private(path, _script(context.find_root().command, chosen).encode())
    except OSError as error:
        raise Storage(f"{path}: {error.strerror}", f"print it instead: vsphere-ai completion {chosen}") from error
    needs = {
        "zsh": f"zsh looks there if ~/.zshrc has: fpath=({path.parent} $fpath); autoload -Uz compinit; compinit",
        "bash": "bash looks there if the package bash-completion is installed.",
    }
    more = [needs[chosen]] if chosen in needs else []
    show_document(form, written_files(("written", path)), f"{path} is written. New shells complete {PROGRAM}.", *more)


def _place(shell: str) -> Path:
    home = Path.home()
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    return {
        "bash": data / "bash-completion" / "completions" / PROGRAM,
        "zsh": data / "zsh" / "site-functions" / f"_{PROGRAM}",
        "fish": config / "fish" / "completions" / f"{PROGRAM}.fish",
    }[shell]
