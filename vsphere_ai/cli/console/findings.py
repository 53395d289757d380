"""Findings of a command: printed in one of the forms, with the exit code that follows of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict, TypeVar

import click

from vsphere_ai.cli.console.options import width

if TYPE_CHECKING:
    from vsphere_ai.documents.findings import FindingsDocument
    from vsphere_ai.model.finding import FailOn, Finding

F = TypeVar("F", bound=Callable[..., int | None])


def failing_on(default: FailOn) -> Callable[[F], F]:
    """Add ``--fail-on`` with a default."""
    return click.option(
        "--fail-on",
        type=click.Choice(("warn", "unknown", "fail", "never")),
        default=default,
        show_default=True,
        help="Least verdict that the exit code reports: 1 for unknown, 2 for warn and fail.",
    )


fail_on_option = failing_on("unknown")


@dataclass(frozen=True)
class Look:
    """How findings are shown: below a `title`, with those that passed, and `full`, without grouping identical ones.

    `full` is None where the command has no option for it.
    `wraps`: lines are as long as the terminal takes; else they stay whole, so that paths in them can be copied.
    `figures` is what was measured, as text above the findings.
    """

    title: str = ""
    passes: bool = True
    full: bool | None = None
    wraps: bool = True
    figures: str = ""


DEFAULT = Look()


class ShownAs(TypedDict):
    """The options of a command with findings: the form of the output, and the least verdict that its code reports."""

    form: str
    fail_on: FailOn


def show_findings(
    findings: Iterable[Finding],
    form: str,
    fail_on: FailOn,
    document: Callable[[Iterable[Finding]], FindingsDocument],
    look: Look = DEFAULT,
) -> int:
    """Print findings as text, or in the `document` that is made of them as JSON, and return the exit code."""
    from vsphere_ai.model.finding import exit_code
    from vsphere_ai.report.findings_text import findings_text
    from vsphere_ai.report.folding import fitted
    from vsphere_ai.report.json_text import json_text

    every = tuple(findings)
    if form == "json":
        shown = every if look.passes else [f for f in every if f.verdict != "pass"]
        click.echo(json_text(document(shown)))
    else:
        columns = width() if look.wraps else sys.maxsize
        if look.figures:
            click.echo(f"{fitted(look.figures, columns)}\n")
        click.echo(findings_text(every, look.title, passes=look.passes, full=look.full, width=columns))
    return exit_code(every, fail_on)
