"""Report of a plan, a run or a certificate in one of its forms."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from vsphere_ai.health.certificate import Certificate
from vsphere_ai.planning.document import SavedPlan, plain
from vsphere_ai.report.pages.certificate_page import certificate_report
from vsphere_ai.report.pages.plan_page import plan_report
from vsphere_ai.report.pages.run_page import run_report
from vsphere_ai.report.run_record import run_document

if TYPE_CHECKING:
    from vsphere_ai.report.pages.values import Report
    from vsphere_ai.runs.journal import Journal

FORMS = ("html", "markdown", "junit", "sarif")


def report_of(source: SavedPlan | Journal | Certificate) -> Report:
    """Return the report of a saved plan, the record of a run, or a certificate."""
    if isinstance(source, Certificate):
        return certificate_report(source)
    return plan_report(source.as_json()) if isinstance(source, SavedPlan) else run_report(plain(run_document(source)))


def report_in(source: SavedPlan | Journal | Certificate, form: str) -> str:
    """Return a report in a form: `html`, `markdown`, `junit` or `sarif`."""
    written: str = getattr(import_module(f"vsphere_ai.report.pages.{form}"), form)(report_of(source))
    return written
