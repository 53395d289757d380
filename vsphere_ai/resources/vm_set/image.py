"""Image of a set's VMs: whether the template or VM that is cloned brings what the guests need."""

from __future__ import annotations

from datetime import date

from vsphere_ai.guests.image import CLEAN, Needs, canary, image_findings, recorded
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.model.vm_sets import Member, members_of
from vsphere_ai.resources.vm_set.settings import VmSetFields


def findings_of(state: VmSetFields, member: Member, view: View) -> tuple[Finding, ...]:
    """Return what is found about the source of a member; nothing where it is given no guest data."""
    source = view.estate.get(member.place.source)
    if source is None or not state.nics:
        return ()
    routed = any(not n.primary and n.pools for n in state.nics) and len(state.nics) > 1
    needs = Needs(
        method="linux-prep" if state.by_vcenter else "cloud-init",
        policy_routing=routed and not state.by_vcenter,
        linked=bool(state.linked),
        snapshot=state.snapshot or "",
        api=view.estate.about.api_numbers,
        most_days=state.image_max_days,
        today=date.today(),
        without="write `customize: linux_prep` in vm_set",
    )
    return image_findings(Target("vm", source.name, source.ref), source, needs)


def canary_of(state: VmSetFields, member: Member, view: View) -> str:
    """Return the reference of the member that has to be ready first; empty for itself, and where all is known.

    A member of the same source that exists has shown what its image is.
    """
    if state.power_state == "off" or not canary(findings_of(state, member, view)):
        return ""
    own = [m for m in members_of(view.estate) if m.set == member.set and not m.leaving and not m.faults]
    first = min(own, key=lambda m: m.index, default=member)
    return "" if any(m.exists for m in own) or first.ref == member.ref else first.ref


def shares_machine_id(member: Member, view: View) -> bool:
    """Return whether the builder of the source has recorded that its clones have one machine id."""
    source = view.estate.get(member.place.source)
    return source is not None and recorded(source).machine_id not in ("", CLEAN)
