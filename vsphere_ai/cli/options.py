"""Options that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from vsphere_ai.cli import signals, streams

if TYPE_CHECKING:
    from vsphere_ai.model.facts import Estate
    from vsphere_ai.model.state import Problem

F = TypeVar("F", bound=Callable[..., Any])

_SHARED = (
    click.option("-i", "--inventory", type=click.Path(path_type=Path, dir_okay=False), help="Inventory file."),
    click.option("--vcenter", default="", metavar="NAME", help="Which vCenter of the inventory."),
    click.option("--limit", default="", metavar="PATTERN", help="Only these datacenters, hosts or VMs."),
    click.option("--start-ssh", is_flag=True, help="Allow to start a stopped SSH service for reading (stopped again)."),
    click.option("--parallel", type=click.IntRange(1, 64), default=8, show_default=True, help="Hosts at a time."),
)


def estate_options(function: F) -> F:
    """Add the options of a command that reads the estate; they arrive in `shared`, a mapping."""
    for option in reversed(_SHARED):
        function = option(function)
    return function


def format_option(*choices: str) -> Callable[[F], F]:
    """Add ``--format`` with the given choices, the first being the default."""
    return click.option("--format", "form", type=click.Choice(choices), default=choices[0], help="Output format.")


def login_option(function: F) -> F:
    """Add ``--no-ssh-login``; it arrives in `shared`."""
    words = "Do not try the SSH logins the plan needs. [default: one login per such host]"
    return click.option("--no-ssh-login", is_flag=True, help=words)(function)


def lock_option(function: F) -> F:
    """Add ``--lock``; None leaves it to the inventory, or to the run that goes on."""
    words = "Keep other runs away: on this machine, also on others, or not at all. [default: local]"
    return click.option("--lock", type=click.Choice(("none", "local", "vcenter")), help=words)(function)


@contextmanager
def held(session: Any, run: Any, lock: Any) -> Iterator[Any]:
    """Hold the locks of the bench's vCenter for a run (a journal, or what a new one is about)."""
    from vsphere_ai.runs.locks import Hold, hold

    locks: Hold | None = None

    def let_go() -> None:
        if locks is not None:
            locks.let_go()

    try:
        with (
            signals.farewell(let_go),
            hold(session.vcenter, run, mode=lock or session.settings.lock, lost=_lost) as locks,
        ):
            yield locks
    finally:
        if locks is not None and locks.left:
            from vsphere_ai.model.text import safe

            streams.say(f"The lock in vCenter could not be removed: {safe(locks.left)}", "lock.not-removed")
            click.echo("  It lapses by itself. Look at it, or remove it, with: vsphere-ai unlock", err=True)


def _lost(why: str) -> None:
    """The lock in vCenter is somebody else's now: stop as an operator would."""
    from vsphere_ai.model.text import safe

    streams.say(f"The lock in vCenter is lost, so this run stops: {safe(why)}", "lock.lost")
    signals.stop()


def open_session(shared: dict[str, Any], playbook: Any = None) -> Any:
    """Return the workbench for the shared options."""
    from vsphere_ai.app.session import Options, Session
    from vsphere_ai.language.inventory_search import find_inventory

    logs_in = not shared.get("no_ssh_login")
    options = Options(shared["vcenter"], shared["limit"], shared["start_ssh"], shared["parallel"], status_line, logs_in)
    session = Session(find_inventory(shared["inventory"]), playbook, options)
    signals.remember(session.__exit__)  # logged out also when the process leaves at once
    return session


def code_of(problems: Iterable[Problem]) -> int:
    """Return the exit code of a plan with problems: 4 when it was not accepted who we are, 5 when it was not reached.

    5 only where that is all there is: any other problem is one of the playbook's, and stays when the host answers.
    """
    rules = {p.rule for p in problems}
    if rules & {"ssh.denied", "ssh.host-key", "account.privileges"}:
        return 4
    return 5 if rules == {"ssh.unreachable"} else 1


def read_playbook(path: Path) -> Any:
    """Load a playbook with every kind there is; `UsageError` when there is no such file."""
    from vsphere_ai.language.document import require
    from vsphere_ai.language.playbook import load_playbook
    from vsphere_ai.resources import kinds

    require(path, "playbook")
    return load_playbook(path, kinds())


def say_left_out(estate: Estate) -> None:
    """Say which values are not as vSphere defines them, and were left out of what a command tells."""
    from vsphere_ai.model.text import safe
    from vsphere_ai.planning.needed_facts import left_out

    for line in left_out(estate):
        streams.say(f"note: {safe(line)}", "vcenter.malformed")


def status_line(line: str) -> None:
    """Say what is going on, on the terminal only: standard output is for data."""
    streams.doing(line)
    if streams.is_screen(sys.stderr):
        click.echo(f"{streams.CLEAR}{line}", err=True, nl=False)


def pause_status() -> None:
    """Clear the line `status_line` left."""
    streams.doing("")
    if streams.is_screen(sys.stderr):
        click.echo(streams.CLEAR, err=True, nl=False)


def width() -> int:
    """Return how many columns text may take."""
    import shutil

    return max(40, min(160, shutil.get_terminal_size((100, 24)).columns))
