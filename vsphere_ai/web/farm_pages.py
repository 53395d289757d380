"""Pages on the farm, from the last reading: what it is about, how old it is, and what was found."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from vsphere_ai.model.text import counted, duration
from vsphere_ai.report.pages.farm_page import (
    drift_section,
    estate_sections,
    gpu_sections,
    host_state,
    other_gpu_sections,
    path_sections,
    slices_of,
    verdict_of,
    without_vgpus,
)
from vsphere_ai.report.pages.values import Report, ReportFigure, ReportSection, Status

if TYPE_CHECKING:
    from vsphere_ai.app.watching.farm_readings import FarmState
    from vsphere_ai.app.watching.farm_snapshot import FarmSnapshot

TITLES = {"estate": "Hosts and VMs", "gpus": "GPUs", "paths": "RDMA paths", "drift": "Drift"}


def farm_report(what: str, state: FarmState) -> Report:
    """Return the page of this name in `TITLES`."""
    found = state.snapshot
    verdict, status = _verdict(state, _finding(found, TITLES[what]))
    sections: tuple[ReportSection, ...] = ()
    if found is not None:
        sections = {
            "estate": lambda: estate_sections(found.estate, found.gpus),
            "gpus": lambda: (
                *gpu_sections(found.gpus, asked=found.asked_hosts),
                *other_gpu_sections(found.estate, found.gpus),
            ),
            "paths": lambda: path_sections(found.traces),
            "drift": lambda: tuple(drift_section(d.playbook, d.plan, d.error) for d in found.drift),
        }[what]()
    empty = {
        "estate": "There is no host.",
        "gpus": "No host has an NVIDIA GPU.",
        "paths": "No VM has a PVRDMA adapter.",
        "drift": "Name playbooks to compare with: vsphere-ai serve PLAYBOOK...",
    }
    if found is not None and not sections:
        sections = (ReportSection("Nothing to show", (), (), empty[what]),)
    return Report(TITLES[what], verdict, status, facts(state), sections)


def overview(state: FarmState, runs: ReportSection) -> Report:
    """Return the first page: which vCenter, how old the reading is, counts, and what requires attention."""
    found = state.snapshot
    verdict, status = _verdict(state, _finding(found))
    sections = [runs]
    numbers: tuple[ReportFigure, ...] = ()
    if found is not None:
        numbers = _numbers(found)
        wrong = _wrong(found)
        if wrong:
            links = {title: f"/{name}" for name, title in TITLES.items()}
            sections.insert(0, ReportSection("Attention required", ("what", "where"), wrong, wrong=True, links=links))
    name = f"{'LAB ' if state.world.lab else ''}{state.world.name}"
    return Report(f"vCenter {name}", verdict, status, facts(state), tuple(sections), numbers=numbers)


def facts(state: FarmState) -> tuple[tuple[str, str], ...]:
    """Return which vCenter it is, and when it was and will be read."""
    world, found, now = state.world, state.snapshot, time.time()
    lab = "LAB, the simulated environment: " if world.lab else ""
    product = f", {found.about.version} build {found.about.build}" if found else ""
    rows = [("vCenter", f"{lab}{world.name} ({world.address}{product})"), ("user", world.user)]
    if found is not None:
        took = f"{duration(now - found.taken)} ago, took {found.seconds:.1f} s"
        rows.append(("last reading", f"{clock(found.taken)} UTC, {took}"))
        if found.whole:
            rows.append(("read in full", f"{clock(found.whole)} UTC, and since then what has changed"))
        rows.append(("read over SSH", "the GPUs of hosts" if found.asked_hosts else "nothing"))
    if state.ended:
        rows.append(("next reading", "none: the login was refused, and accounts lock"))
    elif state.next_at:
        rows.append(("next reading", f"{clock(state.next_at)} UTC"))
    else:
        rows.append(("next reading", "under way"))
    return tuple(rows)


def clock(seconds: float) -> str:
    """Return a time since the epoch in UTC, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))


def _finding(found: FarmSnapshot | None, where: str = "") -> tuple[str, Status]:
    """Return what requires attention on a page, on all of them without one."""
    if found is None:
        return "the first reading is under way", "unknown"
    wrong = [what for what, on in _wrong(found) if where in ("", on)]
    if wrong:
        return "; ".join(wrong), "fail" if any("broken" in what for what in wrong) else "warn"
    return "no issues", "pass"


def _verdict(state: FarmState, finding: tuple[str, Status]) -> tuple[str, Status]:
    age = state.age(time.time())
    if state.error is not None:
        old = f"; this is {duration(age)} old" if age is not None else ""
        return f"not read{old}: {state.error.message}", "fail"
    return finding


def _gpus(found: FarmSnapshot) -> tuple[str, str]:
    """Return how many GPUs there are, and what is counted: those that give vGPUs of all of them."""
    own = sum(map(len, found.gpus.values()))
    hosts = found.estate.hosts
    rest = sum(without_vgpus(found.estate[h.ref], found.gpus.get(h.name, ())).total() for h in hosts)
    return (f"{own} of {own + rest}", "GPUs give vGPUs") if rest else (str(own), "GPU" if own == 1 else "GPUs")


def _numbers(found: FarmSnapshot) -> tuple[ReportFigure, ...]:
    estate = found.estate
    ready = sum(host_state(estate[h.ref]) == "ready" for h in estate.hosts)
    on = sum(estate.is_on(vm.ref) for vm in estate.vms)
    uses = [use for own in found.gpus.values() for use in own]
    slices = [s for use in uses if (s := slices_of(use.slot))]
    free, stranded = sum(len(s.free) for s in slices), sum(len(s.stranded) for s in slices)
    broken = sum(verdict_of(t) == "broken" for t in found.traces)
    changes = sum(d.changes for d in found.drift)
    hosts = len(estate.hosts)
    numbers = [
        ReportFigure(f"{ready} of {hosts}", "hosts ready", "" if ready == hosts else "warn"),
        ReportFigure(f"{on} of {len(estate.vms)}", "VMs on"),
        ReportFigure(*_gpus(found)),
    ]
    if slices:
        numbers.append(ReportFigure(str(free), f"free slices, {stranded} of them unusable", "warn" if stranded else ""))
    if found.traces:
        whole = len(found.traces) - broken
        numbers.append(
            ReportFigure(f"{whole} of {len(found.traces)}", "RDMA paths not broken", "fail" if broken else "")
        )
    if found.drift:
        numbers.append(ReportFigure(str(changes), "settings differ", "warn" if changes else ""))
    return tuple(numbers)


def _wrong(found: FarmSnapshot) -> tuple[tuple[str, str], ...]:
    estate = found.estate
    states = Counter(host_state(estate[h.ref]) for h in estate.hosts)
    slices = (s for own in found.gpus.values() for use in own if not use.slot.guessed and (s := slices_of(use.slot)))
    stranded = sum(len(s.stranded) for s in slices)
    rows = [(f"{counted(n, 'host')} {state}", "Hosts and VMs") for state, n in states.items() if state != "ready"]
    paths = Counter(verdict_of(t) for t in found.traces)
    rows += [(f"{counted(paths[v], 'RDMA path')} {v}", "RDMA paths") for v in ("broken", "unknown") if paths[v]]
    rows += [(f"{counted(stranded, 'unusable slice')}", "GPUs")] if stranded else []
    for drift in found.drift:
        if drift.plan is None:
            rows.append((f"drift from {drift.playbook} is not known", "Drift"))
        elif drift.changes or drift.plan.problems:
            said = f"{counted(drift.changes, 'setting')}, {counted(len(drift.plan.problems), 'problem')}"
            rows.append((f"drift from {drift.playbook}: {said}", "Drift"))
    return tuple(rows)
