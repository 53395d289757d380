"""Options that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from vsphere_ai.cli import streams
from vsphere_ai.cli.events import show_event
from vsphere_ai.errors import UsageError
from vsphere_ai.security.asking import asking

if TYPE_CHECKING:
    from vsphere_ai.app.session import EstateRequest

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


def moved_inventory_option(function: F) -> F:
    """Add ``-i`` to a command that goes on from a recorded run."""
    words = "Inventory file, where the run's own has moved; it has to lead to the same vCenter."
    file = click.Path(path_type=Path, dir_okay=False)
    return click.option("-i", "--inventory", type=file, help=words)(function)


def estate_request(shared: Mapping[str, Any]) -> EstateRequest:
    """Return what the shared options ask for."""
    from vsphere_ai.app.session import EstateRequest

    given = {k: v for k, v in shared.items() if k != "no_ssh_login"}
    return EstateRequest(**given, ssh_login=not shared.get("no_ssh_login"))


def open_session(shared: dict[str, Any], playbook: Any = None) -> Any:
    """Return a session for the shared options."""
    from vsphere_ai.app import session

    return session.open_session(estate_request(shared), playbook, show_event)


def pause_status() -> None:
    """Clear the status line."""
    streams.status("")


def agreed(question: str, *, yes: bool, instead: str = "give --yes") -> bool:
    """Ask a question that only 'yes' answers; `UsageError` without a terminal. `yes`: it is not asked."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask on", instead, rule="usage.no-terminal")
    return says_yes(question)


def says_yes(question: str) -> bool:
    """Ask a question; return whether the answer is the word 'yes'."""
    with asking():
        answer = click.prompt(question, default="", show_default=False, err=True)
    return bool(answer.strip() == "yes")


def width() -> int:
    """Return how many columns text may take."""
    import shutil

    return max(40, min(160, shutil.get_terminal_size((100, 24)).columns))
