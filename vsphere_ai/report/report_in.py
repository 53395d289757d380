"""Report of a plan, a run, a certificate, or what a command printed as JSON, in one of its forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from vsphere_ai.documents.capacity import CapacityDocument
from vsphere_ai.documents.findings import AnyFindingsDocument
from vsphere_ai.documents.fleets import FleetPlanDocument
from vsphere_ai.documents.reports import ReportedDocument
from vsphere_ai.documents.trace import TraceDocument
from vsphere_ai.errors import UsageError
from vsphere_ai.health.certificate import Certificate
from vsphere_ai.planning.document import PlanDocument
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
REPORTS: Mapping[type[ReportedDocument], Callable[[Any], Report]] = {
    AnyFindingsDocument: findings_report,
    TraceDocument: trace_report,
    CapacityDocument: capacity_report,
    FleetPlanDocument: fleet_plan_report,
}
"""Model of what a command printed -> its report, of its JSON values."""

Source = PlanDocument | Certificate | ReportedDocument


def report_of(source: Source | Journal) -> Report:
    """Return the report of a plan, the record of a run, a certificate, or what a command printed as JSON."""
    match source:
        case Certificate():
            return certificate_report(source)
        case PlanDocument():
            return plan_report(source.as_json())
        case AnyFindingsDocument() | TraceDocument() | CapacityDocument() | FleetPlanDocument():
            return REPORTS[type(source)](source.as_json())
        case _:
            return run_report(run_document(source).as_json())


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
