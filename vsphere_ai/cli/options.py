"""Options that several commands share."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from vsphere_ai.errors import UsageError
from vsphere_ai.security.asking import asking

F = TypeVar("F", bound=Callable[..., int | None])
FILE = click.Path(path_type=Path, dir_okay=False)
"""A file that may be absent: what reads it says so."""
ALLOWS_SSH = "Allow to start a stopped SSH service for reading (stopped again)."

inventory_option = click.option("-i", "--inventory", type=FILE, help="Inventory file.")
vcenter_option = click.option("--vcenter", default="", metavar="NAME", help="Which vCenter of the inventory.")
start_ssh_option = click.option("--start-ssh", is_flag=True, help=ALLOWS_SSH)
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
login_option = click.option(
    "--no-ssh-login", is_flag=True, help="Do not try the SSH logins the plan needs. [default: one login per such host]"
)
lock_option = click.option(
    "--lock",
    type=click.Choice(("none", "local", "vcenter")),
    help="Keep other runs away: on this machine, also on others, or not at all. [default: local]",
)
moved_inventory_option = click.option(
    "-i",
    "--inventory",
    type=FILE,
    help="Inventory file, where the run's own has moved; it has to lead to the same vCenter.",
)
_ESTATE = (
    inventory_option,
    vcenter_option,
    click.option("--limit", default="", metavar="PATTERN", help="Only these datacenters, hosts or VMs."),
    start_ssh_option,
    click.option("--parallel", type=click.IntRange(1, 64), default=8, show_default=True, help="Hosts at a time."),
)


def estate_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add the options of a command that reads the estate, `login_option` included; it gets them as `estate`."""

    @wraps(function)
    def command(**given: Any) -> int:
        from vsphere_ai.app.session import EstateRequest

        login = not given.pop("no_ssh_login", False)
        named = {name: given.pop(name) for name in ("inventory", "vcenter", "limit", "start_ssh", "parallel")}
        return function(estate=EstateRequest(**named, ssh_login=login), **given)

    for option in reversed(_ESTATE):
        command = option(command)
    return command


def format_option(*choices: str) -> Callable[[F], F]:
    """Add ``--format`` with the given choices, text or JSON by default; the first is the default."""
    known = choices or ("text", "json")
    return click.option("--format", "form", type=click.Choice(known), default=known[0], help="Output format.")


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
    return max(40, min(160, shutil.get_terminal_size((100, 24)).columns))
