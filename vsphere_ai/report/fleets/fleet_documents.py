"""Reports of a fleet run: its own page, and with a folder also one of each of its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from vsphere_ai.planning.document import plain
from vsphere_ai.report.pages.fleet_page import fleet_report
from vsphere_ai.report.plans.run_record import run_document
from vsphere_ai.report.report_in import report_in

if TYPE_CHECKING:
    from vsphere_ai.report.fleets.fleet_text import ShownShardOutcome
    from vsphere_ai.runs.journal import Journal

INDEX = "index.html"


def fleet_pages(
    fleet: Mapping[str, object],
    outcomes: Sequence[ShownShardOutcome],
    records: Mapping[str, Journal],
    form: str,
    *,
    folder: bool,
) -> dict[str, str]:
    """Return the files of a report by their names: `INDEX`, and with `folder` those of the runs that it leads to.

    `fleet` is the record of a fleet run as values.
    """
    own = ("fleet", "started", "playbook", "budget", "halt_on_failure")
    document = {**{key: fleet[key] for key in own}, "shards": plain(list(outcomes))}
    runs = {name: run_document(record).as_json() for name, record in records.items()}
    links = {record.id: f"{record.id}.html" for record in records.values()} if folder else {}
    report = fleet_report(document, runs, links)
    written: str = getattr(import_module(f"vsphere_ai.report.pages.formats.{form}"), form)(report)
    pages = {f"{record.id}.html": report_in(record, "html") for record in records.values()} if folder else {}
    return {name: f"{text}\n" for name, text in {INDEX: written, **pages}.items()}
