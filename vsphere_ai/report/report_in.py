"""Report of a plan, a run, a certificate, or what a command printed as JSON, in one of its forms."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from vsphere_ai.documents.capacity import CapacityDocument
from vsphere_ai.documents.findings import FindingsDocument
from vsphere_ai.documents.fleets import FleetPlanDocument
from vsphere_ai.documents.trace import TraceDocument
from vsphere_ai.errors import UsageError
from vsphere_ai.health.certificate import Certificate
from vsphere_ai.model.records.printed import PrintedDocument
from vsphere_ai.planning.document import PlanDocument, plain
from vsphere_ai.report.pages.capacity_page import capacity_report
from vsphere_ai.report.pages.certificate_page import certificate_report
from vsphere_ai.report.pages.findings_page import findings_report
from vsphere_ai.report.pages.fleet_plan_page import fleet_plan_report
from vsphere_ai.report.pages.formats.html import MOST_BYTES, MOST_NODES, weight
from vsphere_ai.report.pages.plan_page import plan_report
from vsphere_ai.report.pages.run_page import run_report
from vsphere_ai.report.pages.trace_page import trace_report
from vsphere_ai.report.plans.run_record import run_document

if TYPE_CHECKING:
    from vsphere_ai.report.pages.values import Report
    from vsphere_ai.runs.journal import Journal

FORMS = ("html", "markdown", "junit", "sarif", "ctrf", "gitlab-terraform")
DOCUMENTS: Mapping[str, tuple[type, Callable[[Any], Report]]] = {
    "check": (FindingsDocument, findings_report),
    "trace": (TraceDocument, trace_report),
    "capacity": (CapacityDocument, capacity_report),
    "fleet": (FleetPlanDocument, fleet_plan_report),
}
"""Name of what a command printed -> its shape, and its report."""

Source = PlanDocument | Certificate | PrintedDocument


def report_of(source: Source | Journal) -> Report:
    """Return the report of a plan, the record of a run, a certificate, or what a command printed as JSON.

    `UsageError` where such a document lacks something, or holds something else than its command prints.
    """
    match source:
        case Certificate():
            return certificate_report(source)
        case PlanDocument():
            return plan_report(source.as_json())
        case PrintedDocument():
            return _printed(source)
        case _:
            return run_report(plain(run_document(source)))


def _printed(source: PrintedDocument) -> Report:
    shape, report = DOCUMENTS[source.name]
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(shape)
        # as JSON, of which a strict model takes objects and lists
        read = adapter.validate_json(json.dumps(source.values), strict=True)
        return report(adapter.dump_python(read, mode="json", exclude_unset=True))
    except (ValidationError, RecursionError) as error:
        where = ".".join(map(str, error.errors()[0]["loc"])) if isinstance(error, ValidationError) else "content"
        raise UsageError(
            f"{source.file} is not as `{source.command} -o json` prints it: {where} is missing or another kind",
            "write it again with this version",
            rule="usage.report",
        ) from None


def report_in(source: Source | Journal, form: str) -> str:
    """Return a report in one of `FORMS`; `UsageError` where that form is not of such a source."""
    if form == "gitlab-terraform" and not isinstance(source, PlanDocument):
        what = "-o gitlab-terraform: only a plan has this form"
        raise UsageError(what, "give a saved plan", rule="usage.report")
    name = form.replace("-", "_")
    written: str = getattr(import_module(f"vsphere_ai.report.pages.formats.{name}"), name)(report_of(source))
    return written


def too_heavy(text: str) -> str:
    """Return a warning about an HTML page that opens slowly; "" about any other."""
    size, nodes = weight(text)
    if size <= MOST_BYTES and nodes <= MOST_NODES:
        return ""
    return f"the page has {size / 1e6:.1f} MB and {nodes} elements: browsers may open it slowly"
