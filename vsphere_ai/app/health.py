"""Health of VMs: guests and hosts are asked at the same time, judged by a profile, and nothing is changed."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from vsphere_ai.app.events import Emit, Status, ignore
from vsphere_ai.app.health_hosts import PROBES, host_facts
from vsphere_ai.app.nodes import NodesRequest, NodesResult, guest_settings, read_nodes
from vsphere_ai.app.preflight import ask_guest
from vsphere_ai.app.read_estate import report_malformed
from vsphere_ai.app.references import load
from vsphere_ai.app.session import open_session
from vsphere_ai.errors import UsageError, VsphereAiError
from vsphere_ai.health import answers
from vsphere_ai.health.answers import read_guest, refined
from vsphere_ai.health.checks import Observed, VmHealth, gpu_events, judge, readings, xid_findings
from vsphere_ai.health.counters import SHORTEST, Reading, readings_in
from vsphere_ai.health.finding import Verdict, worst
from vsphere_ai.health.guest_pci import DEVICES, with_interfaces
from vsphere_ai.health.kernel_log import Event
from vsphere_ai.health.profile import Profile, learned
from vsphere_ai.health.xid_rules import GpuEvent
from vsphere_ai.language.document import Faults, require
from vsphere_ai.language.document import load as load_document
from vsphere_ai.language.validation import Place, validate
from vsphere_ai.security.state_dir import file_name, own_folder

if TYPE_CHECKING:
    from vsphere_ai.connect.guest_ssh import GuestSettings, GuestSsh

ASKED = (
    answers.SMI, answers.CUDA, answers.VERSIONS, answers.LINKS, answers.ADDRESSES, answers.RULES, answers.KERNEL,
    answers.UPTIME, answers.SYSFS, DEVICES,
)  # fmt: skip
KEPT = timedelta(days=7)
"""How long XIDs are kept for what repeats."""


@dataclass(frozen=True)
class HealthRequest:
    """Which VMs, and the file of a profile; without it only what is wrong in itself, or against the playbook."""

    nodes: NodesRequest = field(default_factory=NodesRequest)
    profile: Path | None = None


@dataclass(frozen=True)
class HealthResult:
    """The verdict of each VM, in the order of the nodes."""

    vcenter: str
    vms: tuple[VmHealth, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict."""
        return worst(f for vm in self.vms for f in vm.findings)

    @property
    def exit_code(self) -> int:
        """Return 2 where something failed, 1 for a warning or what is not known, else 0."""
        return {"ok": 0, "info": 0, "warn": 1, "unknown": 1, "fail": 2}[self.verdict]


def check_health(request: HealthRequest, emit: Emit = ignore) -> HealthResult:
    """Return the health of VMs. Changes nothing; counters and XIDs are kept in the state folder for the next check."""
    profile = load_profile(request.profile) if request.profile else Profile()
    found, settings, vcenter = _read(request.nodes, emit)
    now = datetime.now(UTC)
    history = _History.of(found.estate.about.instance)
    observed = _observe(found, settings, emit)
    observed = _with_counters(observed, settings, history, profile.interval, emit)
    new = [e for each in observed for e in gpu_events(each, now, profile.xid_hours)]
    wholes = [each.node for each in observed]
    about = list(xid_findings((*history.before(new), *new), wholes, now))
    history.keep(observed, new, now)
    emit(Status(""))
    return HealthResult(
        vcenter, tuple(judge(each, profile, [f for f in about if f.vm == each.node.vm]) for each in observed)
    )


def learn_profile(request: HealthRequest, emit: Emit = ignore) -> Profile:
    """Return the profile of a VM that is known to be good; `UsageError` where several are meant, or it is not well."""
    found, settings, _ = _read(request.nodes, emit)
    if len(found.nodes) != 1:
        names = ", ".join(node.vm for node in found.nodes)
        raise UsageError(f"a profile is learned from one VM, and these are {len(found.nodes)}: {names}", "name one VM")
    (observed,) = _observe(found, settings, emit)
    bad = [f for f in judge(observed, Profile()).findings if f.verdict in ("unknown", "fail")]
    if bad:
        raise UsageError(f"{bad[0].text}", "learn from a VM that is well", rule="health.learn")
    return learned(observed.node, observed.guest)


def load_profile(path: Path) -> Profile:
    """Load a profile; `InputError` with every fault, `UsageError` when there is no such file."""
    require(path, "profile")
    faults = Faults()
    document = load_document(path, faults)
    profile = validate(Profile, document.data or {}, Place(document, (), faults))
    faults.raise_any()
    if profile is None:
        raise UsageError(f"{path} is no profile")
    return profile


def _read(request: NodesRequest, emit: Emit) -> tuple[NodesResult, GuestSettings, str]:
    playbook = load(request.playbook, request.estate, emit) if request.playbook else None
    with open_session(request.estate, playbook, emit) as session:
        settings = guest_settings(session.inventory)
        found = read_nodes(session, request, playbook, PROBES)
        vcenter = session.settings.name
    report_malformed(found.estate, emit)
    return found, settings, vcenter


def _observe(found: NodesResult, settings: GuestSettings, emit: Emit) -> list[Observed]:
    from vsphere_ai.connect.guest_ssh import on_each, open_guests

    emit(Status(f"health: {len(found.nodes)} guests"))
    off = {n.vm for n in found.nodes if found.states[n.vm].power != "poweredOn"}
    shells, failed = open_guests([n for n in found.nodes if n.vm not in off], settings)
    try:
        facts = on_each(shells.values(), lambda shell: (ask_guest(shell, ASKED), datetime.now(UTC)))
    finally:
        for shell in shells.values():
            shell.close()
    observed = []
    for node in found.nodes:
        state, known = found.states[node.vm], facts.get(node.vm) or failed.get(node.vm)
        made = Observed(node, host=host_facts(node, state, found.estate), passthrough=state.passthrough)
        if known is None:
            made = replace(made, error="the VM is not powered on", remedy="power it on")
        elif isinstance(known, VsphereAiError):
            made = replace(made, error=known.message.partition(": ")[2] or known.message, remedy=known.remedy)
        else:
            answered, taken = known
            guest, named = read_guest(answered), with_interfaces(node, answered.get(DEVICES.name))
            made = replace(made, node=refined(named, guest), guest=guest, after=readings(guest, taken))
        observed.append(made)
    return observed


def _with_counters(
    observed: Sequence[Observed], settings: GuestSettings, history: _History, interval: float, emit: Emit
) -> list[Observed]:
    """Give every VM an earlier reading of its counters: that of the last check, else this one, and a later one."""
    from vsphere_ai.connect.guest_ssh import on_each, open_guests

    kept = [replace(each, before=history.readings(each.node.vm, each.guest.uptime)) for each in observed]
    lacking = [each.node for each in kept if not each.before and each.after]
    if not lacking or not interval:
        return kept
    emit(Status(f"health: counters are read again after {interval:g} s"))
    time.sleep(max(interval, SHORTEST.total_seconds()))
    shells, _ = open_guests(lacking, settings)

    def again(shell: GuestSsh) -> tuple[Reading, ...]:
        return readings(read_guest(ask_guest(shell, (answers.SYSFS,))), datetime.now(UTC))

    try:
        found = on_each(shells.values(), again)
    finally:
        for shell in shells.values():
            shell.close()
    done = []
    for each in kept:
        later = found.get(each.node.vm)
        if isinstance(later, tuple) and later:
            each = replace(each, before=each.after, after=later)
        done.append(each)
    return done


class _History:
    """What earlier checks saw: the last counters of each VM, and XIDs by physical GPU."""

    def __init__(self, path: Path, kept: Mapping[str, object]) -> None:
        self._path = path
        counters, xids = kept.get("counters"), kept.get("xids")
        self._counters = counters if isinstance(counters, dict) else {}
        self._xids = [x for each in (xids if isinstance(xids, list) else ()) if (x := _event(each)) is not None]

    @classmethod
    def of(cls, vcenter: str) -> _History:
        """Return that of a vCenter; an empty one where there is none, or it cannot be read."""
        path = own_folder("health") / f"{file_name(vcenter)}.json"
        try:
            kept = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError):
            kept = {}
        return cls(path, kept if isinstance(kept, dict) else {})

    def readings(self, vm: str, uptime: float | None) -> tuple[Reading, ...]:
        """Return the last reading of a VM since it has booted; counters begin anew at a boot."""
        own = self._counters.get(vm)
        if not isinstance(own, dict) or uptime is None:
            return ()
        try:
            taken = datetime.fromisoformat(str(own["taken"]))
            lines = [f"{path}:{int(value)}" for path, value in own["values"].items()]
        except (KeyError, ValueError, TypeError, AttributeError):
            return ()
        if taken < datetime.now(UTC) - timedelta(seconds=uptime) or datetime.now(UTC) - taken < SHORTEST:
            return ()
        carriers = [line for line in lines if "/net/" in line]
        found = [Reading(taken, c.split("/")[4], {"carrier_changes": int(c.rpartition(":")[2])}) for c in carriers]
        return (*readings_in(lines, taken), *found)

    def before(self, new: Sequence[GpuEvent]) -> list[GpuEvent]:
        """Return the earlier XIDs that are none of the new ones; boot times in guests waver by some seconds."""
        return [old for old in self._xids if not any(_same(old, each) for each in new)]

    def keep(self, observed: Sequence[Observed], new: Sequence[GpuEvent], now: datetime) -> None:
        """Write what was seen now, and what is not older than a week."""
        for each in observed:
            if each.after:
                taken = max(r.taken for r in each.after)
                self._counters[each.node.vm] = {"taken": taken.isoformat(), "values": dict(each.guest.counters)}
        events = [e for e in (*self.before(new), *new) if e.event.time is None or now - e.event.time <= KEPT]
        rows = [
            {
                "gpu": e.gpu,
                "vm": e.vm,
                "number": e.event.number,
                "place": e.event.place,
                "text": e.event.text[:200],
                "time": (e.event.time or now).isoformat(),
            }
            for e in events
        ]
        text = json.dumps({"counters": self._counters, "xids": rows})
        part = self._path.with_suffix(".new")
        part.write_text(text, "utf-8")
        part.replace(self._path)


def _event(row: object) -> GpuEvent | None:
    try:
        if not isinstance(row, dict):
            return None
        when = datetime.fromisoformat(str(row["time"]))
        text, place = str(row["text"]), str(row.get("place", ""))
        event = Event("xid", text, number=int(row["number"]), time=when, place=place)
        return GpuEvent(str(row["gpu"]), event, str(row["vm"]))
    except (KeyError, ValueError, TypeError):
        return None


def _same(old: GpuEvent, new: GpuEvent) -> bool:
    if (old.gpu, old.event.number) != (new.gpu, new.event.number):
        return False
    if old.event.time is None or new.event.time is None:
        return True
    return abs((old.event.time - new.event.time).total_seconds()) < SAME


SAME = 10.0
"""Seconds within which two readings mean one XID."""
