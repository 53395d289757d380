"""Files of reports, and what they are of: a plan, a certificate or JSON of a command, from its file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from vsphere_ai.errors import UsageError
from vsphere_ai.fleet.plan import fleet_plan_of
from vsphere_ai.language.yaml_files.document import content_of
from vsphere_ai.model.bounded import json_value
from vsphere_ai.model.records.printed import COMMANDS, PrintedDocument, printed
from vsphere_ai.planning.document import PlanDocument, is_saved, open_saved
from vsphere_ai.runs.journal_files import is_named
from vsphere_ai.security.files import DOCUMENT, make_private_folder, not_written, write_output

if TYPE_CHECKING:
    from vsphere_ai.health.certificate import Certificate


def report_source(what: str) -> PlanDocument | Certificate | PrintedDocument:
    """Return a plan, a certificate, or what a command printed as JSON, from a file. Asks no vCenter.

    `UsageError` where it is none of these; `Conflict` for a saved plan that was edited.
    """
    path = Path(what)
    if not path.exists() and is_named(what):
        text = f"{what} is a run, and no file"
        raise UsageError(text, f"vsphere-ai run report {what}", rule="usage.report")
    text = content_of(path, "file", DOCUMENT).decode("utf-8", "replace")
    if is_saved(text):
        return open_saved(text, what)
    from vsphere_ai.health.certificate import opened

    try:
        values = json_value(text)
        if isinstance(values, dict) and "fleet_version" in values:
            fleet_plan_of(text, path)
        if plan := _plan(values):
            return plan
        is_accepted = isinstance(values, dict) and "gates" in values  # a certificate has findings, as JSON of check has
        return (None if is_accepted else printed(values, what)) or opened(values)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{what} is neither a plan, nor a certificate, nor JSON of {_commands()}: {error}",
            "give a file of `plan --to` or `accept`, or what -o json printed",
            rule="usage.report",
        ) from None


def _plan(values: object) -> PlanDocument | None:
    """Return a plan as `plan -o json` prints it; it has no checksum."""
    is_one = isinstance(values, dict) and {"schema_version", "playbook", "items", "steps"} <= values.keys()
    return PlanDocument.model_validate(values) if is_one else None


def _commands() -> str:
    return ", ".join(command for command, _ in COMMANDS.values())


def save_report(path: Path, text: str) -> None:
    """Write a report to a file that only its owner can read, in the place of an earlier one."""
    write_output(path, text)


def save_pages(folder: Path, pages: Mapping[str, str]) -> None:
    """Write the pages of a report, by their names, into a folder that only its owner can read."""
    try:
        make_private_folder(folder)
    except OSError as error:
        raise not_written(folder, error) from None
    for name, text in pages.items():
        save_report(folder / name, text)
