"""Files of reports, and what they are of: a plan, a certificate or JSON of a command, from its file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from vsphere_ai.documents.reports import REPORTED, ReportedDocument, reported_document
from vsphere_ai.documents.stored import read_document
from vsphere_ai.errors import UsageError
from vsphere_ai.fleet.plan import fleet_plan_of
from vsphere_ai.language.yaml_files.document import content_of
from vsphere_ai.model.bounded import json_value
from vsphere_ai.planning.document import PlanDocument, is_saved, open_saved
from vsphere_ai.runs.journal_files import is_named
from vsphere_ai.security.files import DOCUMENT, make_private_folder, not_written, write_output

if TYPE_CHECKING:
    from vsphere_ai.health.certificate import Certificate


def report_source(what: str) -> PlanDocument | Certificate | ReportedDocument:
    """Return a plan, a certificate, or what a command printed as JSON, from a file. Asks no vCenter.

    `UsageError` where it is none of these; `Conflict` for a saved plan that was edited.
    """
    path = Path(what)
    if not path.exists() and is_named(what):
        text = f"{what} is a run, and no file"
        raise UsageError(text, f"vsphere-ai run report {what}", rule="usage.report")
    content = content_of(path, "file", DOCUMENT)
    text = content.decode("utf-8", "replace")
    if is_saved(text):
        return open_saved(text, what)
    from vsphere_ai.health.certificate_document import open_certificate

    try:
        values = json_value(text)
        if isinstance(values, dict) and "fleet_version" in values:
            fleet_plan_of(text, path)
        if isinstance(values, dict) and values.keys() >= {"schema_version", "playbook", "items", "steps"}:
            return read_document(PlanDocument, content, what)  # as it is printed, it has no checksum
        is_accepted = isinstance(values, dict) and "gates" in values  # a certificate has findings, as JSON of check has
        reported = None if is_accepted else reported_document(values, content, what)
        return reported or open_certificate(content, what)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{what} is neither a plan, nor a certificate, nor JSON of {', '.join(REPORTED)}: {error}",
            "give a file of `plan --to` or `accept`, or what -o json printed",
            rule="usage.report",
        ) from None


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
