"""Sets of VMs: each VM that a play names is cloned, with its addresses, and destroyed when it is named no longer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.state import Change, Effect, FieldChange, KindName, State, Target
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View
from vsphere_ai.model.vm_sets import PREFIX, Member, disk_files, mark_of, member_of
from vsphere_ai.resources._helpers import ethernet
from vsphere_ai.resources._helpers.network_adapter import NetworkAdapter
from vsphere_ai.resources.adapters import Adapters
from vsphere_ai.resources.base import Form, Resource, StateExport, Traits
from vsphere_ai.resources.makes_vms import MakesVms, WantedNic, WantedSet
from vsphere_ai.resources.playbook_files import Files, ReadsFiles
from vsphere_ai.resources.vm_set import details, tags
from vsphere_ai.resources.vm_set.added_disks import observed_disks
from vsphere_ai.resources.vm_set.adoption import mark_step, note, was
from vsphere_ai.resources.vm_set.changes import change_steps, effect_of, ready_step
from vsphere_ai.resources.vm_set.checks import SOURCE_PATHS, making_problems, present_problems
from vsphere_ai.resources.vm_set.clone import clone_step, guest_words, is_ready, network_words
from vsphere_ai.resources.vm_set.correcting import CorrectsSets
from vsphere_ai.resources.vm_set.destruction import destroy_step, foreign_disks
from vsphere_ai.resources.vm_set.disks import disks_of_new, size_gb, stated, with_present
from vsphere_ai.resources.vm_set.duties import DUTIES
from vsphere_ai.resources.vm_set.image import canary_of, findings_of
from vsphere_ai.resources.vm_set.linux_prep import NOT_PROBED
from vsphere_ai.resources.vm_set.new_vm import facts_of
from vsphere_ai.resources.vm_set.numa_hints import numa_hints
from vsphere_ai.resources.vm_set.placement import wanted_placement
from vsphere_ai.resources.vm_set.settings import ONCE, VmSetFields
from vsphere_ai.resources.vm_set.user_data import with_file


class VmSet(MakesVms, ReadsFiles, CorrectsSets, VmSetFields, Resource):
    """Makes the VMs that the play names: one clone each of a template or VM, marked as a member of the set.

    The names are a range such as `train-[01:04]`. A VM that the range no longer names is destroyed, after confirmation.
    """

    kind = KindName("vm_set")
    target = "vm"
    traits = Traits(
        properties={
            "VirtualMachine": (
                "config.extraConfig",
                "config.guestId",
                "config.hardware.device",
                "config.hardware.memoryMB",
                details.NOTES,
                details.ATTRIBUTES,
                *SOURCE_PATHS,
            )
        },
        vm_settings={f"{PREFIX}*": "it is of the mark of a set", "guestinfo.*": "write nics and users of vm_set"},
        duties=DUTIES,
    )

    # -- before the VM exists

    @classmethod
    def named(cls, name: str) -> Self:
        """Return the state of a set of which only the name is known: enough to destroy its VMs."""
        return cls.model_validate({"name": name})

    def with_files(self, files: Files) -> Self:
        """Read the user data that are named."""
        return self.model_copy(update={"user_data": with_file(self.user_data, files)})

    def wanted_set(self) -> WantedSet:
        """Return what the play says of its VMs."""
        own = ((n, (n.spare or 0, n.protocol or "")) for n in self.nics or ())
        nics = (
            WantedNic(n.name, n.port_group, n.type, n.pools, bool(n.primary), n.rail, n.role, n.mtu, *more)
            for n, more in own
        )
        return WantedSet(
            name=self.name or "",
            source=self.source or "",
            snapshot=self.snapshot or "",
            linked=bool(self.linked),
            cluster=self.cluster or "",
            resource_pool=self.resource_pool or "",
            folder=self.folder or "",
            datastore=self.datastore or "",
            nics=tuple(nics),
            cpus=self.cpus,
            memory_mb=self.memory_gb * 1024 if self.memory_gb else None,
            datastores=tuple(dict.fromkeys(d.datastore for d in self.disks or () if d.datastore)),
            mac_prefix=self.mac_prefix or "",
            guest_id=self.guest_id or "",
            placement=wanted_placement(self.placement),
            reserves_memory=any(n.type in ethernet.COLD for n in self.nics or ()),
        )

    def new_vm(self, member: Member, estate: Estate) -> Facts:
        """Return a member that is to be made as vCenter will show it right after its clone."""
        made = facts_of(self.wanted_set(), member, estate, stated(self))
        return details.details_of_new(made, self)

    space_of_new = disks_of_new

    def leaving(self, *, detach: bool = False) -> State:
        """Return the state of a VM that the play no longer names; with `detach`, `settle` names the disks that stay."""
        return VmSet.model_construct(name=self.name, files=(), detached=() if detach else None)

    def is_ready(self, member: Member, estate: Estate) -> bool:
        """Return whether the guest has said that it is ready, or is not to be on."""
        facts = estate[member.ref]
        on, mark = facts.get("runtime.powerState") == "poweredOn", mark_of(facts)
        silent = not member.nics or (mark is not None and bool(mark.adopted))
        return self.power_state == "off" or (on and (silent or is_ready(facts, member.generation)))

    def implied(self, member: Member) -> Sequence[State]:
        """Return the network adapters that follow from the NICs, with the MAC addresses of the member."""
        macs = {n.name: n.mac for n in member.nics}
        entries = tuple(
            NetworkAdapter(
                type=n.type,
                port_group=n.port_group,
                mac=macs.get(n.name),
                protocol=n.protocol,
                shares=n.shares,
                limit=n.limit,
            )
            for n in self.nics or ()
        )
        return (Adapters(adapters=entries),) if entries else ()

    # -- the contract

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read the mark of a VM; None for a VM that is in no set, or carries the mark of another one."""
        mark = mark_of(facts)
        if mark is None:
            return None
        host = estate.get(facts.get("runtime.host"))
        on = facts.get("runtime.powerState") == "poweredOn"
        return cls.model_construct(
            name=mark.set,
            source=mark.source or None,
            cpus=facts.get("config.hardware.numCPU"),
            memory_gb=(facts.get("config.hardware.memoryMB") or 0) // 1024,
            disk_gb=size_gb(facts),
            disks=observed_disks(facts),
            notes=facts.get(details.NOTES, ""),
            custom_attributes=details.attributes_of(facts, estate),
            tags=tags.tags_of(facts),
            cdrom=details.media_of(facts),
            guest_id=facts.get("config.guestId"),
            power_state="on" if on else "off",
            index=mark.index,
            host=host.name if host else None,
            addresses={n.name: str(n) for n in mark.nics},
            guest=mark.guest or None,
            ready=on and is_ready(facts, mark.generation) if "guest.net" in facts.properties else None,
            adopted=mark.adopted or None,
            files=disk_files(facts) or ("no disk",),
        )

    def settle(self, target: Target, view: View) -> Self:
        """Add what is decided about the member; what a VM has only from its making is not asked for again."""
        member, now = member_of(view.estate, target.ref), view.get(VmSet, target.ref)
        if self.destroyed or member is None:
            foreign = tuple(foreign_disks(view.facts(target.ref))) if self.detached is not None else ()
            return self.model_copy(update={"detached": foreign or None})
        power, addresses = self.power_state or "on", {n.name: str(n) for n in member.nics}
        if member.adopting:
            adopted = was(view.facts(target.ref)) if now is None else None
            return type(self).model_construct(name=member.set, index=member.index, addresses=addresses, adopted=adopted)
        update: dict[str, object] = {
            "power_state": power,
            "index": member.index,
            "addresses": addresses,
            "guest": guest_words(self, member),
            "ready": (power == "on" and bool(member.nics)) or None,
            **details.settled_details(self, now),
        }
        if now is None:
            host = view.estate.get(member.place.host)
            update |= {"addresses": network_words(self, member), "host": host.name if host else None}
            return self.model_copy(update={**update, "source": self.made_of})
        update |= {"guest": None, "ready": None} if now.adopted else {}
        update |= {"disks": with_present(self.disks, now.disks or ())} if self.disks is not None else {}
        source = None if now.adopted else self.made_of
        return self.model_copy(update={**dict.fromkeys(ONCE), **update, "source": source})

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """Problems of making, changing or destroying the VM."""
        said = view.said(VmSet, target.ref) or self
        member = member_of(view.estate, target.ref)
        if member is None:
            yield self.problem(target, "unplanned", "it is in no set that a play makes", "name it in the play's range")
            return
        yield from (self.problem(target, f.rule, f.message, f.help) for f in member.faults)
        now = VmSet.observe(facts := view.facts(target.ref), view.estate)
        if member.adopting and (now is None or member.faults):
            return
        yield from (self.problem(target, f.rule, f.message, f.help) for f in details.detail_problems(said, view.estate))
        found = making_problems(said, member, facts, view) if now is None else present_problems(self, now, member, view)
        yield from (self.problem(target, f.rule, f.message, f.help) for f in found)

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """One clone of a new VM; in place, or in a power cycle, what can be changed of one that is there."""
        target, member = change.target, member_of(view.estate, change.target.ref)
        said = view.said(VmSet, target.ref) or self
        if member is None:
            return
        if self.destroyed:
            yield destroy_step(target, member, view.facts(target.ref), self.detached or ())
            return
        if member.adopting:
            yield mark_step(target, member, view.facts(target.ref))
        elif change.before is not None:
            yield from change_steps(self, said, change, member, view)
        else:
            yield clone_step(said, target, member, view)
            yield from (*details.attribute_steps(self, change), *tags.tag_steps(self, change))
            if self.power_state == "on" and member.nics:
                yield ready_step(said, change, member, view)

    def effect(self, field: FieldChange, target: Target, view: View) -> Effect:
        """Return what a change of a field takes, of a VM that is there."""
        return "" if self.destroyed else effect_of(field, view.facts(target.ref))

    def remarks(self, target: Target, view: View) -> Iterator[str]:
        """Say why a new VM is placed where it is."""
        member = member_of(view.estate, target.ref)
        if member is not None and member.adopting and self.adopted:
            yield note(view.facts(target.ref))
        if self.destroyed or member is None or member.exists:
            return
        said = view.said(VmSet, target.ref) or self
        yield from (*filter(None, (member.why_here, member.why_store)), *numa_hints(said, member, view))
        if said.by_vcenter:
            yield NOT_PROBED
        yield from (f.message for f in findings_of(said, member, view) if f.verdict in ("warn", "unknown"))
        if canary := canary_of(said, member, view):
            yield f"made once {view.facts(canary).name} is ready, which shows what of the image cannot be read"

    def export(self, target: Target, view: View, form: Form) -> StateExport:
        """A playbook names the VMs of a set as a range; a rollback makes and destroys none."""
        return StateExport(self) if form == "shown" else StateExport(None)
