"""Options that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from vsphere_ai.state import Problem

F = TypeVar("F", bound=Callable[..., Any])

_SHARED = (
    click.option("-i", "--inventory", type=click.Path(path_type=Path, dir_okay=False), help="Inventory file."),
    click.option("--vcenter", default="", metavar="NAME", help="Which vCenter of the inventory."),
    click.option("--limit", default="", metavar="PATTERN", help="Only these hosts or VMs."),
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


def open_bench(shared: dict[str, Any], playbook: Any = None) -> Any:
    """Return the workbench for the shared options."""
    from vsphere_ai.workbench import Options, Workbench, find_inventory

    options = Options(shared["vcenter"], shared["limit"], shared["start_ssh"], shared["parallel"], talk)
    return Workbench(find_inventory(shared["inventory"]), playbook, options)


def code_of(problems: Iterable[Problem]) -> int:
    """Return the exit code of a plan with problems: 4 when a host did not accept who we are, else 1."""
    return 4 if any(p.rule == "ssh.denied" for p in problems) else 1


def read_playbook(path: Path) -> Any:
    """Load a playbook with every kind there is."""
    from vsphere_ai.playbook import load_playbook
    from vsphere_ai.resources import kinds

    return load_playbook(path, kinds())


def talk(line: str) -> None:
    """Say what is going on, on the terminal only: standard output is for data."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[2K{line}", err=True, nl=False)


def hush() -> None:
    """Clear the line `talk` left."""
    if sys.stderr.isatty():
        click.echo("\r\x1b[2K", err=True, nl=False)


def width() -> int:
    """Return how many columns text may take."""
    import shutil

    return max(40, min(160, shutil.get_terminal_size((100, 24)).columns))
