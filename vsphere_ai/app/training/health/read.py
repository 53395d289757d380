"""Reading for health: guests and hosts are asked at the same time, counters twice where no earlier check has them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from vsphere_ai.app.estate.read_estate import report_malformed
from vsphere_ai.app.estate.references import load
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Emit, Status, guests_done
from vsphere_ai.app.training.health.history import HealthHistory
from vsphere_ai.app.training.health.hosts import PROBES, host_facts, loads, placed
from vsphere_ai.app.training.nodes.listed import NodesRequest, NodesResult, guest_settings, read_nodes
from vsphere_ai.app.training.nodes.topology import with_vgpu_sites
from vsphere_ai.errors import VsphereAiError
from vsphere_ai.health.checks import ObservedVm
from vsphere_ai.health.counters import SHORTEST, readings_of
from vsphere_ai.health.dcgm import in_use
from vsphere_ai.health.guest_probes import COUNTERS, HEALTH, SurveyedGuest

if TYPE_CHECKING:
    from vsphere_ai.connect.secure_shell.guest_ssh import GuestSettings


@dataclass(frozen=True)
class HealthRead:
    """What was read: VMs as both witnesses see them, how guests are reached, and which GPUs were in use.

    `use` has VMs with GPUs only, and those of which it could be seen.
    """

    vcenter: str
    instance: str
    settings: GuestSettings
    observed: tuple[ObservedVm, ...]
    use: Mapping[str, bool] = field(default_factory=dict)
    off: frozenset[str] = frozenset()


def read_health(request: NodesRequest, emit: Emit) -> HealthRead:
    """Return what hosts and guests of VMs answer. Changes nothing."""
    playbook = load(request.playbook, request.estate, emit) if request.playbook else None
    with open_session(request.estate, playbook, emit) as session:
        settings = guest_settings(session.scope.inventory)
        found = read_nodes(session, request, playbook, PROBES)
        read = datetime.now(UTC)
        vcenter = session.scope.settings.name
    report_malformed(found.estate, emit)
    observed = _observe(found, settings, read, emit)
    use = {o.node.vm: used for o in observed if (used := _in_use(o, loads(o.node, found.estate))) is not None}
    off = frozenset(n.vm for n in found.nodes if found.states[n.vm].power != "poweredOn")
    return HealthRead(vcenter, found.estate.about.instance, settings, tuple(observed), use, off)


def _in_use(observed: ObservedVm, host: Sequence[int]) -> bool | None:
    """Return whether the GPUs of a VM are in use, as guest and host show it; None where neither does."""
    if not observed.node.gpus or observed.error:
        return None
    inside = [gpu.measures["utilization.gpu"] for gpu in observed.guest.gpus if "utilization.gpu" in gpu.measures]
    held = in_use(observed.guest)
    if any(inside) or any(host) or (held and not observed.guest.failures):
        return True
    return False if inside or host or not observed.guest.failures else None


def _observe(found: NodesResult, settings: GuestSettings, read: datetime, emit: Emit) -> list[ObservedVm]:
    from vsphere_ai.connect.secure_shell.guest_ssh import GuestTimedOut
    from vsphere_ai.connect.secure_shell.guest_survey import survey

    emit(Status(f"health: {len(found.nodes)} guests"))
    running = [n for n in found.nodes if found.states[n.vm].power == "poweredOn"]
    guests = survey(running, settings, HEALTH, done=guests_done("health", emit))
    observed = []
    for node in found.nodes:
        state, guest = found.states[node.vm], guests.get(node.vm)
        node = placed(node, found.estate)
        host = host_facts(node, state, found.estate, read)
        made = ObservedVm(node, host=host, passthrough=state.passthrough, at=datetime.now(UTC), asked=state.asked)
        if guest is None:
            made = replace(made, error="the VM is not powered on", remedy="power it on")
        elif isinstance(guest, VsphereAiError):
            error = guest.message.partition(": ")[2] or guest.message
            made = replace(made, error=error, remedy=guest.remedy, hangs=isinstance(guest, GuestTimedOut))
        else:
            after = readings_of(guest.facts.counters, guest.at)
            whole = with_vgpu_sites(placed(guest.node(node), found.estate), state.vgpus)
            made = replace(made, node=whole, guest=guest.facts, after=after, at=guest.at, cards=guest.cards)
        observed.append(made)
    return observed


def with_counters(
    read: HealthRead, history: HealthHistory, interval: float, emit: Emit, *, again: bool = False
) -> HealthRead:
    """Give every VM an earlier reading of its counters: that of the last check, else this one, and a later one.

    `again`: guests are asked a second time in any case, also for the use of their GPUs.
    """
    from vsphere_ai.connect.secure_shell.guest_survey import survey

    now = datetime.now(UTC)
    kept = [replace(o, before=history.readings(o.node.vm, o.guest.uptime, now)) for o in read.observed]
    lacking = [o.node for o in kept if not o.error and (again or (not o.before and o.after))]
    if not lacking or not interval:
        return replace(read, observed=tuple(kept))
    emit(Status(f"health: guests are asked again after {interval:g} s"))
    time.sleep(max(interval, SHORTEST.total_seconds()))

    found, done, use = survey(lacking, read.settings, COUNTERS), [], dict(read.use)
    for each in kept:
        later = found.get(each.node.vm)
        if isinstance(later, SurveyedGuest):
            readings = readings_of(later.facts.counters, later.at)
            if later.facts.processes and each.node.vm in use:
                use[each.node.vm] = True
            each = replace(each, before=each.before or each.after, after=readings) if readings else each
        done.append(each)
    return replace(read, observed=tuple(done), use=use)
