"""Report of a fleet run: totals, a row and a bar per vCenter, what failed, and what was left open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vsphere_ai.model.text import counted, duration
from vsphere_ai.report.pages.pictures.fleet_times import STATES, fleet_timeline, moment, span
from vsphere_ai.report.pages.pictures.timelines import status_of
from vsphere_ai.report.pages.tables import Entry, kept, text
from vsphere_ai.report.pages.values import JunitCase, Report, ReportFigure, ReportSection, Row, SarifResult, Status

_HEADS = (
    "vCenter",
    "state",
    "changed",
    "read back",
    "failed",
    "unknown",
    "left open",
    "started (UTC)",
    "took",
    "run",
    "why",
)
_STEPS = ("vCenter", "step", "target", "summary", "state", "error")


def fleet_report(fleet: Entry, runs: Mapping[str, Entry], pages: Mapping[str, str]) -> Report:
    """Return the report of a fleet run, given as JSON values: the fleet with its shards, and the record of each run.

    `runs` has those that were begun, by vCenter; `pages` the addresses of their own pages, by the names of the runs.
    """
    shards = fleet["shards"]
    failed = [(name, s) for name, run in runs.items() for s in run["steps"] if status_of(s) == "fail"]
    sections = kept(
        ReportSection("vCenters", _HEADS, tuple(_row(s, runs.get(s["vcenter"])) for s in shards), links=pages),
        ReportSection("Failed steps", _STEPS, tuple(_step(name, s) for name, s in failed), wrong=True),
        ReportSection(
            "Left open",
            ("vCenter", "what"),
            tuple((s["vcenter"], t) for s in shards for t in s["left_open"]),
            wrong=True,
        ),
        fleet_timeline(shards, runs),
    )
    done = sum(STATES.get(s["state"]) == "pass" for s in shards)
    bad = failed or any(s["left_open"] or STATES.get(s["state"]) == "fail" for s in shards)
    status: Status = "fail" if bad else "pass" if done == len(shards) else "warn"
    verdict = f"{done} of {counted(len(shards), 'vCenter')} done, {counted(len(failed), 'failed step')}"
    return Report(
        f"Fleet run {fleet['fleet']}",
        verdict,
        status,
        tuple(_facts(fleet, done < len(shards))),
        sections,
        tuple(_case(s, runs.get(s["vcenter"])) for s in shards),
        tuple(_results(shards)),
        _numbers(shards, runs, done),
    )


def _facts(fleet: Entry, unfinished: bool) -> Iterator[tuple[str, str]]:
    yield "playbook", fleet["playbook"]
    yield "started (UTC)", moment(fleet["started"])
    if fleet["budget"]:
        yield "budget", f"{counted(fleet['budget'], 'host')} out of service at the same time"
    if fleet["halt_on_failure"]:
        yield "halt on failure", "a vCenter that fails stops the others"
    if unfinished:
        yield "finish it", f"vsphere-ai fleet resume {fleet['fleet']}"


def _row(shard: Entry, run: Entry | None) -> Row:
    numbers = (str(shard[key]) for key in ("changed", "verified", "failed", "unknown"))
    began, long = span(run)
    times = (moment(run["started"]), duration(long)) if run and began else ("", "")
    return (
        shard["vcenter"],
        shard["state"],
        *numbers,
        str(len(shard["left_open"])),
        *times,
        shard["run"],
        shard["message"],
    )


def _step(vcenter: str, step: Entry) -> Row:
    return vcenter, step["id"], step["target"], step["summary"], step["state"], text(step["error"])


def _case(shard: Entry, run: Entry | None) -> JunitCase:
    status = STATES.get(shard["state"], "unknown")
    return JunitCase("vCenters", shard["vcenter"], status, shard["message"] or shard["state"], span(run)[1])


def _results(shards: Sequence[Entry]) -> Iterator[SarifResult]:
    for each in shards:
        if STATES.get(each["state"]) == "fail":
            text_ = f"{each['vcenter']}: {each['message'] or each['state']}"
            yield SarifResult(each["rule"] or "run.step", "fail", text_, (each["vcenter"],))


def _numbers(shards: Sequence[Entry], runs: Mapping[str, Entry], done: int) -> tuple[ReportFigure, ...]:
    changed, failed, left = (
        sum(n) for n in zip(*((s["changed"], s["failed"], len(s["left_open"])) for s in shards), strict=True)
    )
    spans = [each for run in runs.values() if (each := span(run))[0]]
    found = [
        ReportFigure(f"{done} of {len(shards)}", "vCenters done"),
        ReportFigure(str(changed), "targets changed"),
        ReportFigure(str(failed), "steps failed", "fail" if failed else ""),
    ]
    if left:
        found.append(ReportFigure(str(left), "left open", "fail"))
    if spans:
        found.append(ReportFigure(duration(max(b + long for b, long in spans) - min(b for b, _ in spans)), "taken"))
    return tuple(found)
