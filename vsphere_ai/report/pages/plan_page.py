"""Report of a plan: its impact, problems, findings, changes and steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vsphere_ai.model.name_ranges import listed
from vsphere_ai.model.state import Target
from vsphere_ai.model.text import counted
from vsphere_ai.report.folding import names
from vsphere_ai.report.layout import grouped
from vsphere_ai.report.pages.gpu_pictures import gpu_pictures
from vsphere_ai.report.pages.tables import Entry, about, changes, impact, kept, target, text
from vsphere_ai.report.pages.values import Case, Report, Result, Row, Section, Status

SINGLE = 120
"""Steps up to which each has a row of its own."""
VERDICTS: Mapping[str, Status] = {"pass": "pass", "warn": "warn", "fail": "fail", "unknown": "unknown"}
_STEP = ("steps", "targets", "summary", "type", "after")


def plan_report(plan: Entry) -> Report:
    """Return the report of a saved plan, given as its JSON values."""
    problems, findings, steps = plan["problems"], plan.get("findings", ()), plan["steps"]
    refused = len(problems)
    words = f"{counted(len(steps), 'step')}, {counted(refused, 'problem')}, {counted(len(findings), 'finding')}"
    changed = changes(plan["items"])
    sections = kept(
        Section("Problems", ("targets", "rule", "message", "remedy"), _of(problems, "help"), wrong=True),
        impact(plan["impact"]),
        replace(changed, pictures=gpu_pictures(plan["items"])),
        Section("Findings", _FINDING, about(findings, _FINDING_KEYS), f"{plan.get('passed', 0)} rules passed."),
        Section("Answers of vCenter", ("targets", "check", "faults", "warnings", "note"), _answers(plan)),
        Section(
            "Hosts with SSH", ("hosts", "why the login was not tried"), about(plan.get("logins", ()), ("why",), "host")
        ),
        Section("SSH stays stopped", ("hosts",), _stopped(plan)),
        Section("Steps", _STEP, _steps(steps), f"{counted(len(plan.get('waves', ())), 'wave')} of steps side by side."),
    )
    verdict = "refused" if refused else ("nothing to do" if not steps else "can be applied")
    status: Status = "fail" if refused else ("warn" if any(f["verdict"] != "pass" for f in findings) else "pass")
    return Report(f"Plan {plan['playbook']}", f"{verdict}: {words}", status, _facts(plan), sections, *_checked(plan))


_FINDING_KEYS = ("rule", "verdict", "message", "help", "evidence", "source", "refuses")
_FINDING = ("targets", "rule", "verdict", "message", "remedy", "evidence", "source", "refuses")


def _facts(plan: Entry) -> tuple[tuple[str, str], ...]:
    vcenter = plan["vcenter"]
    rows = (
        ("vCenter", f"{vcenter['name']} {vcenter['version']}, build {vcenter['build']}"),
        ("instance", vcenter.get("instance", "")),
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


def _checked(plan: Entry) -> tuple[tuple[Case, ...], tuple[Result, ...]]:
    cases, results = [], []
    for problem in plan["problems"]:
        name, rule, file = problem["target"]["name"], problem["rule"], plan["playbook"]
        said = f"{problem['message']} {problem.get('help', '')}".strip()
        cases.append(Case("problems", f"{rule} [{name}]", "fail", said))
        results.append(Result(rule, "fail", f"{name}: {said}", (name,), file))
    for finding in plan.get("findings", ()):
        on, status = text(finding["target"]), VERDICTS[finding["verdict"]]
        said = f"{finding['message']} {finding['help']}".strip()
        cases.append(Case("findings", f"{finding['rule']} [{on}]", status, said))
        where = f"{on}: " if on else ""
        results.append(Result(finding["rule"], status, f"{where}{said}", (on,) if on else (), plan["playbook"]))
    steps = [
        Case("steps", f"{s['id']} {s['target']['name']}: {s.get('summary', '')}", "pass", "planned")
        for s in plan["steps"]
    ]
    return (*cases, *steps), tuple(results)
