"""Report of a fleet plan: totals, a row per vCenter, problems, and what is disrupted and changed in each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

from pydantic import ValidationError

from vsphere_ai.documents.stored import first_fault
from vsphere_ai.errors import UsageError
from vsphere_ai.model.text import counted, duration
from vsphere_ai.planning.document import SavedPlan
from vsphere_ai.report.pages.plan_page import plan_report
from vsphere_ai.report.pages.tables import Entry, changes, impact, kept
from vsphere_ai.report.pages.values import Bar, Report, ReportFigure, ReportSection, Row, Status, Timeline

_HEADS = ("vCenter", "plan", "steps", "hosts that reboot", "VMs off and on", "VMs destroyed", "problems", "takes about")


def fleet_plan_report(fleet: Entry) -> Report:
    """Return the report of a fleet plan, given as its JSON values; `UsageError` where a plan in it is none."""
    totals = fleet["totals"]
    shards = [{"vcenter": s["vcenter"], "plan": _plan(s["vcenter"], s["plan"])} for s in fleet["shards"]]
    pages = {s["vcenter"]: plan_report(s["plan"]) for s in shards}
    refused = [name for name, page in pages.items() if page.status == "fail"]
    sections = kept(
        _joined("Problems", pages, wrong=True),
        ReportSection("vCenters", _HEADS, tuple(map(_row, shards))),
        _timeline(shards),
        ReportSection("Impact", ("vCenter", *impact({}).heads), tuple(_of(shards, lambda p: impact(p["impact"]).rows))),
        ReportSection(
            "Changes", ("vCenter", *changes([]).heads), tuple(_of(shards, lambda p: changes(p["items"]).rows))
        ),
        _joined("Findings", pages),
        ReportSection(
            "Left out", ("vCenter", "why"), tuple((n, "the playbook has nothing for it") for n in fleet["without"])
        ),
    )
    verdict = (
        f"refused by {', '.join(refused)}" if refused else "can be applied" if totals["steps"] else "nothing to do"
    )
    worst: Status = "fail" if refused else "warn" if any(p.status != "pass" for p in pages.values()) else "pass"
    return Report(
        f"Fleet plan {fleet['playbook']}",
        f"{verdict}: {counted(totals['steps'], 'step')} in {counted(len(shards), 'vCenter')}",
        worst,
        tuple(_facts(fleet)),
        sections,
        tuple(chain.from_iterable(page.cases for page in pages.values())),
        tuple(chain.from_iterable(page.results for page in pages.values())),
        tuple(_numbers(totals)),
    )


def _plan(vcenter: str, values: Entry) -> Entry:
    try:
        return SavedPlan.model_validate(values).as_json()
    except (ValidationError, RecursionError) as error:
        why = first_fault(error) if isinstance(error, ValidationError) else "it is nested too deeply"
        text = f"the plan of {vcenter} is none of this version: {why}"
        raise UsageError(text, "make the fleet plan again with this version", rule="usage.report") from None


def _facts(fleet: Entry) -> Iterator[tuple[str, str]]:
    yield "plan", fleet["digest"][:8]
    yield "playbook", fleet["playbook"]
    if fleet["budget"]:
        yield "budget", f"{counted(fleet['budget'], 'host')} out of service at the same time"
    yield "version of vsphere-ai", fleet["vsphere_ai"]


def _row(shard: Entry) -> Row:
    plan = shard["plan"]
    hit = plan["impact"]
    counts = (len(hit[key]) for key in ("reboots", "power_cycles", "destroyed"))
    seconds = (plan.get("expected") or {}).get("seconds")
    numbers = (len(plan["steps"]), *counts, len(plan["problems"]))
    return shard["vcenter"], plan["digest"][:8], *map(str, numbers), duration(seconds) if seconds else ""


def _of(shards: Sequence[Entry], rows_of: Callable[[Entry], Sequence[Row]]) -> Iterator[Row]:
    return ((s["vcenter"], *row) for s in shards for row in rows_of(s["plan"]))


def _joined(title: str, pages: Mapping[str, Report], *, wrong: bool = False) -> ReportSection:
    """Return a section that the plans of vCenters have in common, each row behind its vCenter."""
    own = [(name, s) for name, page in pages.items() for s in page.sections if s.title == title]
    heads = own[0][1].heads if own else ()
    return ReportSection(title, ("vCenter", *heads), tuple((n, *row) for n, s in own for row in s.rows), wrong=wrong)


def _timeline(shards: Sequence[Entry]) -> ReportSection:
    times = ((s["vcenter"], (s["plan"].get("expected") or {}).get("seconds")) for s in shards)
    expected = {name: float(long) for name, long in times if long}
    bars = tuple(Bar(name, (("planned", 0.0, long),)) for name, long in expected.items())
    rows = tuple((name, duration(long)) for name, long in expected.items())
    pictures = (Timeline(max(expected.values()), bars),) if bars else ()
    note = "How long each vCenter is expected to take by itself; a budget may make it longer."
    return ReportSection("Expected rollout", ("vCenter", "takes"), rows, note, pictures, folded=True)


def _numbers(totals: Entry) -> Iterator[ReportFigure]:
    yield ReportFigure(str(totals["vcenters"]), "vCenters")
    yield ReportFigure(str(totals["reboots"]), "hosts reboot")
    yield ReportFigure(str(totals["power_cycles"]), "VMs off and on")
    if totals["destroyed"]:
        yield ReportFigure(str(totals["destroyed"]), "VMs destroyed", "fail")
    if totals["seconds"]:
        by = "by the budget" if totals["budget_bound"] else "the slowest vCenter"
        yield ReportFigure(duration(totals["seconds"]), f"in all, {by}")
