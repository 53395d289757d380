"""Options that several commands share."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import reduce, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from vsphere_ai.cli.console import streams
from vsphere_ai.cli.console.defaults import EachTime, InventoryOption
from vsphere_ai.errors import UsageError
from vsphere_ai.model.text import counted
from vsphere_ai.security.asking import asking

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from vsphere_ai.app import EstateRequest
    from vsphere_ai.app.runs.approval import ConfirmedCounts

F = TypeVar("F", bound=Callable[..., int | None])
T = TypeVar("T")
FILE = click.Path(path_type=Path, dir_okay=False)
"""A file that may be absent: what reads it says so."""
STREAM = click.Path(path_type=Path, dir_okay=False, allow_dash=True)
"""The same; - is standard input."""
MOVED = "Inventory file, where the run's own has moved; it has to lead to the same vCenter."
SHORTEST_INTERVAL = 5
"""Seconds between two readings: what vCenter and hosts are asked at most."""
ALLOWS_SSH = "Allow to start a stopped SSH service for reading (stopped again)."

inventory_option = click.option("-i", "--inventory", cls=InventoryOption, type=FILE, help="Inventory file.")
vcenter_option = click.option("--vcenter", default="", metavar="NAME", help="Which vCenter of the inventory.")
start_ssh_option = click.option("--start-ssh", is_flag=True, help=ALLOWS_SSH)


def yes_to(what: str) -> Callable[[F], F]:
    """Add ``--yes``, which answers the questions of this one call; `what` it does."""
    return click.option("--yes", cls=EachTime, is_flag=True, help=what)


yes_option = yes_to("Do not ask.")
force_option = click.option("--force", cls=EachTime, is_flag=True, help="Power off guests that cannot be shut down.")
DRY_RUN = "vsphere_ai.dry_run"
"""Where click keeps for a command whether it is a dry run."""


def _keep_dry_run(context: click.Context, _option: click.Parameter, dry_run: bool) -> None:
    context.meta[DRY_RUN] = dry_run


dry_run_option = click.option(
    "--dry-run",
    is_flag=True,
    expose_value=False,
    callback=_keep_dry_run,
    help="Show what would be changed; change nothing, and do not ask.",
)


def changes_nothing(function: F) -> F:
    """Declare that a command only reads, beside files that an argument or an option names: it needs no ``--dry-run``.

    What runs in guests for a measurement, and ends with it, is no change. Each command declares this or has the option.
    """
    function.__dict__["changes_nothing"] = True
    return function


def prints_only(words: str) -> Callable[[F], F]:
    """Declare that a command prints no document of the tool, but `words`: it has no ``-o``."""

    def declare(function: F) -> F:
        function.__dict__["prints_only"] = words
        return function

    return declare


def previewed_by(words: str) -> Callable[[F], F]:
    """Declare that what a command changes is shown by another command, as the worker's is by its coordinator."""

    def declare(function: F) -> F:
        function.__dict__["previewed_by"] = words
        return function

    return declare


def is_dry_run() -> bool:
    """Return whether this command only shows what it would change."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(DRY_RUN))


def show_all(what: str) -> Callable[[F], F]:
    """Add ``--full``, which shows what is grouped without it; `what` it does."""
    return click.option("--full", is_flag=True, help=what)


full_option = show_all("Do not group identical targets.")
verbose_option = click.option("-v", "--verbose", is_flag=True, help="Show each step of the run in a line of its own.")
quiet_option = click.option(
    "-q",
    "--quiet",
    is_flag=True,
    expose_value=False,
    callback=lambda _context, _option, quiet: streams.be_quiet(quiet=quiet),
    help="Print only results, questions and errors.",
)
destroy_option = click.option(
    "--destroy",
    cls=EachTime,
    type=click.IntRange(0),
    metavar="N",
    help="Confirm that the plan destroys N VMs, with all their disks.",
)
reboot_option = click.option(
    "--reboot",
    cls=EachTime,
    type=click.IntRange(0),
    metavar="N",
    help="Confirm that the plan reboots N hosts; another number is refused.",
)
login_option = click.option(
    "--no-ssh-login",
    "ssh_login",
    is_flag=True,
    flag_value=False,
    default=True,
    help="Do not try the SSH logins the plan needs. [default: one login per such host]",
)


def to_option(text: str, path: click.Path = FILE, *, metavar: str = "FILE") -> Callable[[F], F]:
    """Add ``--to``, the option of every command that writes its document to a file or folder; `text` is its help."""
    return click.option("--to", type=path, metavar=metavar, help=text)


def check_option(text: str) -> Callable[[F], F]:
    """Add ``--check FILE``, the option of every command that checks a file instead of writing one; several times."""
    return click.option("--check", "checked", type=STREAM, metavar="FILE", multiple=True, help=text)


def one_of(patterns: Sequence[str], checked: Sequence[Path]) -> None:
    """`UsageError` unless either VMs are named, to write files for, or files to check."""
    if bool(patterns) == bool(checked):
        wrong = "files to check and VMs are both given" if checked else "neither VMs nor a file to check are given"
        raise UsageError(wrong, "name VMs to write for, or give --check FILE, once for each file")


lock_option = click.option(
    "--lock",
    type=click.Choice(("none", "local", "vcenter")),
    help="Keep other runs away: on this machine, also on others, or not at all. [default: local]",
)


def interval_option(when: str = "") -> Callable[[F], F]:
    """Add ``--interval``: seconds between two readings of a command that goes on; `when` it does."""
    return click.option(
        "--interval",
        type=click.FloatRange(SHORTEST_INTERVAL),
        default=60.0,
        show_default=True,
        metavar="SECONDS",
        help=f"{when}Seconds between two readings.",
    )


moved_inventory_option = click.option("-i", "--inventory", cls=EachTime, type=FILE, help=MOVED)
limit_option = click.option("--limit", default="", metavar="PATTERN", help="Only these datacenters, hosts or VMs.")


def comma_list(_context: click.Context, _option: click.Parameter, text: str) -> tuple[str, ...]:
    """Return the names of an option whose value is ``NAME[,NAME]``, each once."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _kinds(_context: click.Context, _option: click.Parameter, begun: str) -> list[CompletionItem]:
    from importlib import resources

    from click.shell_completion import CompletionItem

    done, comma, last = begun.rpartition(",")
    pages = (resources.files("vsphere_ai") / "docs" / "kinds").iterdir()  # quicker than to import the kinds
    known = sorted(page.name.removesuffix(".md") for page in pages)
    return [CompletionItem(f"{done}{comma}{name}") for name in known if name.startswith(last)]


def kinds_option(name: str, what: str) -> Callable[[F], F]:
    """Add ``--kind``, which a command gets by a name as a tuple; `what` it leaves."""
    metavar = "KIND[,KIND]"
    return click.option(
        "--kind", name, metavar=metavar, default="", callback=comma_list, shell_complete=_kinds, help=what
    )


kind_option = kinds_option("only_kinds", "Only these resource types of the playbook.")
parallel_option = click.option(
    "--parallel", type=click.IntRange(1, 64), default=8, show_default=True, help="Hosts at a time."
)


def gathering(name: str, load: Callable[[], type[T]], *options: Callable[[F], F]) -> Callable[[F], F]:
    """Add options that are fields of a request, a dataclass that `load` returns; a command gets it by that name."""

    def add(function: F) -> F:
        @wraps(function)
        def command(**given: Any) -> int | None:
            request = load()
            own = {f.name: given.pop(f.name) for f in fields(request) if f.name in given}  # type: ignore[arg-type]
            return function(**{name: request(**own)}, **given)

        return reduce(lambda done, option: option(done), reversed(options), cast(F, command))

    return add


def _estate_options(*options: Callable[[F], F]) -> Callable[[F], F]:
    def load() -> type[EstateRequest]:
        from vsphere_ai.app.estate.scope import EstateRequest

        return EstateRequest

    return gathering("estate", load, *options)


var_option = click.option(
    "--var",
    "variables",
    multiple=True,
    metavar="NAME=VALUE",
    help="A value of a variable of the playbook. Several times for several.",
)
vars_file_option = click.option(
    "--vars-file",
    "vars_files",
    multiple=True,
    type=FILE,
    help="File with values of variables of the playbook. Of several the later one wins.",
)
inventory_options = _estate_options(inventory_option)
vcenter_options = _estate_options(inventory_option, vcenter_option)
"""Add the options that name a vCenter; a command gets them as `estate`, as with those above and below."""
moved_options = _estate_options(moved_inventory_option, vcenter_option)
"""The same for a run that was recorded with its inventory."""
host_options = _estate_options(inventory_option, vcenter_option, start_ssh_option)
estate_options = _estate_options(inventory_option, vcenter_option, limit_option, start_ssh_option, parallel_option)
playbook_options = _estate_options(
    *(inventory_option, vcenter_option, limit_option, kind_option, var_option, vars_file_option),
    *(start_ssh_option, parallel_option),
)
fleet_options = _estate_options(
    *(inventory_option, limit_option, kind_option, var_option, vars_file_option, start_ssh_option, parallel_option)
)
variable_options = _estate_options(inventory_option, vcenter_option, var_option, vars_file_option)
"""Add the options of a command that takes a playbook as it is, here and in the two below."""
variable_run_options = _estate_options(
    inventory_option, vcenter_option, var_option, vars_file_option, start_ssh_option, parallel_option
)
variable_estate_options = _estate_options(
    inventory_option, vcenter_option, limit_option, var_option, vars_file_option, start_ssh_option, parallel_option
)


def number_options(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Add options with the numbers that confirm what a plan disrupts; a command gets them as `numbers`."""

    def load() -> type[ConfirmedCounts]:
        from vsphere_ai.app.runs.approval import ConfirmedCounts

        return ConfirmedCounts

    return gathering("numbers", load, *options)


def agreed(question: str, *, yes: bool, instead: str = "give --yes", wanted: str = "yes") -> bool:
    """Ask a question that only one word answers; `UsageError` without a terminal. `yes`: it is not asked.

    In a dry run the answer is no.
    """
    if is_dry_run():
        return False
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask on", instead, rule="usage.no-terminal")
    return says_yes(question, wanted)


def destroyed(number: int) -> str:
    """Return how many VMs are destroyed, as a question says it: ``3 VMs are destroyed``."""
    return f"{counted(number, 'VM')} {'is' if number == 1 else 'are'} destroyed"


def rebooted(number: int) -> str:
    """Return how many hosts reboot, as a question says it: ``4 hosts reboot``."""
    return f"{counted(number, 'host')} reboot{'s' if number == 1 else ''}"


def says_yes(question: str, wanted: str = "yes") -> bool:
    """Ask a question; return whether the answer is the word 'yes', or another wanted one."""
    with asking():
        answer = click.prompt(question, default="", show_default=False, err=True)
    return bool(answer.strip() == wanted)


def width() -> int:
    """Return how many columns text may take."""
    return max(40, min(160, shutil.get_terminal_size((100, 24)).columns))
