"""Report of a plan: its impact, problems, findings, changes and steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from vsphere_ai.model.names.name_ranges import listed
from vsphere_ai.model.state import Target
from vsphere_ai.model.text import counted, duration
from vsphere_ai.report.folding import names
from vsphere_ai.report.layout import grouped
from vsphere_ai.report.pages.pictures.gpu_pictures import gpu_pictures
from vsphere_ai.report.pages.pictures.host_map import plan_map
from vsphere_ai.report.pages.pictures.matrix import STATUS, matrix
from vsphere_ai.report.pages.pictures.timelines import plan_timeline
from vsphere_ai.report.pages.tables import (
    FINDING,
    Entry,
    about,
    about_findings,
    changes,
    impact,
    kept,
    place_in_file,
    subject_text,
    target,
    text,
    variables,
    vcenter_facts,
)
from vsphere_ai.report.pages.values import JunitCase, Report, ReportFigure, ReportSection, Row, SarifResult, Status

SINGLE = 120
"""Steps up to which each has a row of its own."""

_STEP = ("steps", "targets", "summary", "type", "after")


def plan_report(plan: Entry) -> Report:
    """Return the report of a saved plan, given as its JSON values."""
    problems, findings, steps = plan["problems"], plan.get("findings", ()), plan["steps"]
    refused = len(problems)
    words = f"{counted(len(steps), 'step')}, {counted(refused, 'problem')}, {counted(len(findings), 'finding')}"
    changed, waves = changes(plan["items"]), len(plan.get("waves", ()))
    sections = kept(
        ReportSection("Problems", ("targets", "rule", "message", "remedy"), _of(problems, "remedy"), wrong=True),
        impact(plan["impact"]),
        plan_map(plan.get("placed", ()), plan["impact"]),
        plan_timeline(plan),
        replace(changed, pictures=gpu_pictures(plan["items"])),
        _findings(findings, plan.get("passed")),
        ReportSection("Answers of vCenter", ("targets", "check", "faults", "warnings", "note"), _answers(plan)),
        ReportSection(
            "Hosts with SSH", ("hosts", "why the login was not tried"), about(plan.get("logins", ()), ("why",), "host")
        ),
        ReportSection("SSH stays stopped", ("hosts",), _stopped(plan)),
        ReportSection(
            "Steps",
            _STEP,
            _steps(steps),
            f"{counted(waves, 'wave')} of steps side by side." if waves else "",
            folded=True,
        ),
        variables(plan.get("variables", ())),
        _asked(plan),
    )
    verdict = "refused" if refused else ("nothing to do" if not steps else "can be applied")
    status: Status = "fail" if refused else ("warn" if any(f["verdict"] != "pass" for f in findings) else "pass")
    title = f"Plan {plan['playbook']}"
    made = Report(title, f"{verdict}: {words}", status, _facts(plan), sections, *_checked(plan), _numbers(plan))
    return replace(made, targets=_targets(plan))


def _targets(plan: Entry) -> tuple[int, int, int]:
    """Return how many targets are created, changed and deleted."""
    created, deleted = ({t["ref"] for t in plan["impact"].get(key, ())} for key in ("created", "destroyed"))
    changed = {i["target"]["ref"] for i in plan["items"] if i.get("changes") or i.get("recreate")}
    return len(created), len(changed - created - deleted), len(deleted)


def _numbers(plan: Entry) -> tuple[ReportFigure, ...]:
    """Return the figures of a plan: who is disrupted, and for how long."""
    impact, expected = plan["impact"], plan.get("expected") or {}
    found = [
        ReportFigure(str(len(impact.get(key, ()))), words, status)
        for key, words, status in _DISRUPTED
        if impact.get(key) or key == "reboots"
    ]
    about = "about" if expected.get("runs") else "perhaps"
    if expected.get("window"):
        found.append(ReportFigure(duration(expected["window"]), f"maintenance window, {about}"))
    if expected.get("seconds"):
        found.append(ReportFigure(duration(expected["seconds"]), f"in all, {about}"))
    return tuple(found)


_DISRUPTED: tuple[tuple[str, str, Status | Literal[""]], ...] = (
    ("reboots", "hosts reboot", ""),
    ("power_cycles", "VMs off and on", ""),
    ("migrations", "VMs moved with vGPUs", ""),
    ("created", "VMs created", ""),
    ("destroyed", "VMs destroyed", "fail"),
)


def _findings(findings: list[Entry], passed: int | None) -> ReportSection:
    """Return failures and warnings, as a matrix and as a table."""
    drawn = matrix(findings)
    note = "" if passed is None else f"{counted(passed, 'rule')} passed."
    return ReportSection("Findings", FINDING, about_findings(findings), note, (drawn,) if drawn else ())


def _asked(plan: Entry) -> ReportSection:
    """Return where the playbook asks for what the plan does."""
    named = {i["target"]["ref"]: target(i["target"]) for i in plan["items"]}
    rows = tuple(
        (f"{a['file']}:{a['line']}:{a['column']}", a["kind"], names(t for r in a["targets"] if (t := named.get(r))))
        for a in plan.get("asked", ())
    )
    return ReportSection("Lines of the playbook", ("line", "kind", "targets"), rows, folded=True)


def _facts(plan: Entry) -> tuple[tuple[str, str], ...]:
    rows = (
        *vcenter_facts(plan),
        ("playbook", plan["playbook"]),
        ("scope", text(plan.get("scope"))),
        ("digest", plan.get("digest", "")),
        ("made by", f"vsphere-ai {plan['vsphere_ai']}"),
    )
    return tuple((name, value) for name, value in rows if value)


def _of(entries: list[Entry], last: str) -> tuple[Row, ...]:
    return about(entries, ("rule", "message", last))


def _answers(plan: Entry) -> tuple[Row, ...]:
    return about(plan.get("answers", ()), ("check", "faults", "warnings", "note"))


def _stopped(plan: Entry) -> tuple[Row, ...]:
    found = [t for t in map(target, plan.get("ssh_stays_stopped", ())) if t]
    return ((names(found),),) if found else ()


def _steps(steps: list[Entry]) -> tuple[Row, ...]:
    if len(steps) <= SINGLE:
        return tuple((s["id"], s["target"]["name"], *_step(s), text(s.get("after"))) for s in steps)
    same = grouped((_step(s), s) for s in steps)
    return tuple(
        (listed(s["id"] for s in found), names(_target(s) for s in found), *row, "") for row, found in same.items()
    )


def _step(step: Entry) -> tuple[str, str]:
    kind = " ".join(filter(None, (step.get("do", ""), step.get("action") or step.get("until") or step.get("method"))))
    return step.get("summary", ""), kind


def _target(step: Entry) -> Target:
    value = step["target"]
    return Target(value["kind"], value["name"], value["ref"])


def places_of(plan: Entry) -> Callable[[Entry], tuple[str, int, int]]:
    """Return what finds file, line and column of a problem or finding: where the playbook asks for it.

    That is the place of the kind that its rule is named after, else the first place of its target, else the playbook.
    """
    kinds: dict[tuple[str, str], tuple[str, int, int]] = {}
    first: dict[str, tuple[str, int, int]] = {}
    for each in plan.get("asked", ()):
        place = each["file"], each["line"], each["column"]
        for ref in each["targets"]:
            kinds[ref, each["kind"]] = place
            first[ref] = min(first.get(ref, place), place)

    def place_of(entry: Entry) -> tuple[str, int, int]:
        ref = entry["target"]["ref"] if entry.get("target") else ""
        kind = entry["rule"].partition(".")[0].replace("-", "_")
        return kinds.get((ref, kind)) or first.get(ref) or (plan["playbook"], 0, 0)

    return place_of


def _checked(plan: Entry) -> tuple[tuple[JunitCase, ...], tuple[SarifResult, ...]]:
    cases, results, places = [], [], places_of(plan)
    for problem in plan["problems"]:
        name, rule = problem["target"]["name"], problem["rule"]
        words = "; ".join(filter(None, (problem["message"], problem.get("remedy"))))
        cases.append(JunitCase("problems", f"{rule} [{name}]", "fail", words))
        results.append(SarifResult(rule, "fail", f"{name}: {words}", (name,), *places(problem)))
    more = checked_findings(plan.get("findings", ()), places)
    steps = [
        JunitCase("steps", f"{s['id']} {s['target']['name']}: {s['summary']}", "pass", "planned") for s in plan["steps"]
    ]
    return (*cases, *more[0], *steps), (*results, *more[1])


def checked_findings(
    findings: Sequence[Entry], places: Callable[[Entry], tuple[str, int, int]]
) -> tuple[tuple[JunitCase, ...], tuple[SarifResult, ...]]:
    """Return findings as test cases, and failures and warnings as results; `places` finds file, line and column.

    A finding about a place in a file has its own.
    """
    cases, results = [], []
    for finding in findings:
        on, status = subject_text(finding["target"]), STATUS[finding["verdict"]]
        words = "; ".join(filter(None, (finding["message"], finding["remedy"])))
        cases.append(JunitCase("findings", f"{finding['rule']} [{on}]", status, words))
        if status != "pass":
            where, own = f"{on}: " if on else "", finding["target"] or {}
            place = place_in_file(own) if own.get("file") else places(finding)
            results.append(SarifResult(finding["rule"], status, f"{where}{words}", (on,) if on else (), *place))
    return tuple(cases), tuple(results)
