"""PVRDMA network adapters of a virtual machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from pydantic import Field

from vsphere_ai.fabric import dvs
from vsphere_ai.fabric import route as fabric_route
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.state import Change, Problem, State, Target, observed
from vsphere_ai.model.steps import Query, Reconfigure, Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers import adapter_limits, ethernet, pvrdma_fit
from vsphere_ai.resources._helpers.vm_devices import device_change
from vsphere_ai.resources._helpers.vm_settings import memory_problems
from vsphere_ai.resources.base import Export, Form, Resource, Traits
from vsphere_ai.resources.mixins import AsksVCenter, Judged, RdmaAdapter, VmDevices
from vsphere_ai.resources.pvrdma.adapter import DEVICE, Adapter, describe, is_there, key_in, key_of, named_device
from vsphere_ai.resources.remedies import leave_some_out


class Pvrdma(VmDevices, AsksVCenter, Judged, Resource):
    """Gives a VM paravirtual RDMA adapters, exactly the listed ones; adapters of other types are never touched.

    The port group is proved RDMA-capable on every host the VM can run on, because PVRDMA falls back to TCP without
    a warning. All guest memory is reserved with it.
    """

    kind = "pvrdma"
    target = "vm"
    shorthand = "adapters"
    traits = Traits(
        decides={"config.hardware.device": "adapters"},
        after=("hardware", "vgpu", "pvrdma_host"),
        properties={
            "VirtualMachine": ("config.hardware.device", "config.memoryReservationLockedToMax"),
            "HostSystem": fabric_route.HOST_PATHS,
            dvs.PORT_GROUP: fabric_route.PORT_GROUP_PATHS,
            **{switch: fabric_route.SWITCH_PATHS for switch in dvs.SWITCHES},
        },
    )

    adapters: tuple[Adapter, ...] | None = Field(
        default=None, description="The VM's PVRDMA adapters: port group and RoCE version of each; `[]` removes all."
    )
    memory_locked: bool | None = observed("All guest memory is reserved; follows from having an adapter.")

    @classmethod
    def questions(cls, wanted: Mapping[Target, Sequence[State]], estate: Estate) -> Iterator[Query]:
        """Ask the clusters how many adapters such VMs can have."""
        return adapter_limits.questions(cls.kind, wanted, estate)

    @classmethod
    def is_fit(cls, facts: Facts) -> bool:
        """A VM with PVRDMA adapters."""
        return any(d.get("_typeName") == DEVICE for d in facts.get("config.hardware.device", ()))

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read the adapters of the VM; a port group that was not read is shown by its key."""
        devices = facts.get("config.hardware.device")
        if devices is None:
            return None
        adapters = [
            Adapter.model_construct(port_group=key_in(d), protocol=d.get("deviceProtocol"))
            for d in devices
            if d["_typeName"] == DEVICE
        ]
        return cls.model_construct(
            adapters=tuple(adapters), memory_locked=bool(facts.get("config.memoryReservationLockedToMax"))
        )

    def settle(self, target: Target, view: View) -> Self:
        """Name what is there by port group, keep its order, and lock the memory when there is an adapter."""
        now = view.state(target.ref, self.kind)
        have = now.adapters if now else ()
        wanted = have if self.adapters is None else self._with_keys(have, view)
        locked = True if wanted else (now.memory_locked if now else None)
        same = Counter(wanted) == Counter(have)
        return self.model_copy(update={"adapters": have if same else wanted, "memory_locked": locked})

    def _with_keys(self, have: tuple[Adapter, ...], view: View) -> tuple[Adapter, ...]:
        """Identity is the port group's key; an unset protocol takes that of an adapter which is there already."""
        left = list(have)
        keyed = [a.model_copy(update={"port_group": key_of(a.port_group, view)}) for a in self.adapters or ()]
        wanted = []
        for adapter in sorted(keyed, key=lambda a: a.protocol is None):
            same = (a for a in left if a.port_group == adapter.port_group)
            twin = next((a for a in same if adapter.protocol in (None, a.protocol)), None)
            if twin is not None:
                left.remove(twin)
            wanted.append(twin or adapter)
        return tuple(wanted)

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """Hardware version, protocol, port group, and the chain to an RDMA device on every host in question."""
        if not self.adapters:
            return
        now = self.observe(view.facts(target.ref), view.estate)  # the view has the wanted state already
        there = (now.adapters or ()) if now else ()
        chosen = {a.protocol for a in self.adapters if a.protocol and a not in there}
        yield from pvrdma_fit.version_problems(target, view, chosen)
        yield from self._count_problems(target, view, len(there))
        yield from memory_problems(target, view, "pvrdma.memory", "PVRDMA needs")
        for adapter in dict.fromkeys(self.adapters):
            group = view.estate.get(f"{dvs.PORT_GROUP}:{adapter.port_group}")
            if group is None:
                yield from self._no_group(target, adapter, view)
            else:
                yield from pvrdma_fit.host_problems(target, view, group, adapter.protocol)

    def _count_problems(self, target: Target, view: View, there: int) -> Iterator[Problem]:
        count, most = len(self.adapters or ()), adapter_limits.limits(target, view)
        if count > most.pvrdma:
            yield Problem(target, "pvrdma.count", f"{count} PVRDMA adapters; {most.pvrdma} at most ({most.source})",
                          leave_some_out(target, view))  # fmt: skip
            return
        if count <= there or (target.ref, "adapters") in view.stated:  # which counts all of them
            return
        cards = ethernet.cards(view.facts(target.ref).get("config.hardware.device", ()))
        total = count + sum(d["_typeName"] != DEVICE for d in cards)
        if total > most.cards:
            yield Problem(target, "pvrdma.count", f"{total} network adapters of all types; {most.cards} at most",
                          "leave some out, or remove others with adapters: {exclusive: true, ...}")  # fmt: skip

    def _no_group(self, target: Target, adapter: Adapter, view: View) -> Iterator[Problem]:
        groups = dvs.port_groups_named(view.estate, adapter.port_group)
        if len(groups) > 1:
            paths = ", ".join(view.estate.path_of(g.ref) for g in groups)
            yield self.problem(
                target,
                "port-group",
                f"{adapter.port_group} is the name of several port groups",
                f"rename all but one: {paths}",
            )
            return
        there = view.estate.of_type(dvs.PORT_GROUP)
        known = sorted(g.name for g in there if not dvs.is_uplink(view.estate, g))
        standard = any(f.name == adapter.port_group for f in view.estate.of_type("Network", "OpaqueNetwork"))
        what = "is not a distributed port group" if standard else "there is no distributed port group of that name"
        yield self.problem(
            target,
            "port-group",
            f"{adapter.port_group}: {what}",
            f"distributed port groups: {', '.join(known) or 'none'}",
        )

    def notes(self, target: Target, view: View) -> Iterator[str]:
        """Name the adapters that go: an operator who adds one may not know of them."""
        if self.adapters is None:
            return
        gone = [c["device"] for c in self._changes(target, view) if c["operation"] == "remove"]
        named = ", ".join(named_device(d, view) for d in gone)
        if gone and self.adapters:
            yield f"REMOVES {named}: not in the list, which is all PVRDMA adapters of the VM; list what is to stay"
        elif gone:
            yield f"REMOVES {named}: the list is empty"

    def rdma_adapters(self) -> tuple[RdmaAdapter, ...] | None:
        """All of the list; what a playbook leaves open of them is what is there."""
        found = self.adapters
        return None if found is None else tuple(RdmaAdapter(a.port_group, a.protocol, bool(a.protocol)) for a in found)

    def export(self, target: Target, view: View, form: Form) -> Export:
        """Show port groups by name; most VMs have no such adapter."""
        if not self.adapters and form != "shown":
            return Export(None)
        named = []
        for adapter in self.adapters or ():
            group = view.estate.get(f"{dvs.PORT_GROUP}:{adapter.port_group}")
            name = group.name if group else adapter.port_group
            named.append(Adapter.model_construct(port_group=name, protocol=adapter.protocol))
        return Export(self.model_copy(update={"adapters": tuple(named)}))

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Remove, change and add adapters by device key; what stays keeps its key and its MAC address."""
        changes = self._changes(change.target, view)
        spec = {} if self.memory_locked == change.before.memory_locked else {"memoryReservationLockedToMax": True}
        yield Reconfigure(
            target=change.target,
            kinds=(self.kind,),
            needs_power_off=True,
            device_changes=tuple(changes),
            spec=spec,
            summary=f"PVRDMA: {describe(changes)}",
        )

    def _changes(self, target: Target, view: View) -> list[Mapping[str, Any]]:
        devices = [d for d in view.facts(target.ref).get("config.hardware.device", ()) if d["_typeName"] == DEVICE]
        missing, left = list(self.adapters or ()), []
        for device in devices:
            as_it_is = Adapter.model_construct(port_group=key_in(device), protocol=device.get("deviceProtocol"))
            if as_it_is in missing:
                missing.remove(as_it_is)
            else:
                left.append(device)
        changes: list[Mapping[str, Any]] = []
        for device in left:
            twin = next((a for a in missing if a.port_group == key_in(device)), None)
            if twin is None:
                changes.append(device_change("remove", device))
            else:
                missing.remove(twin)
                changes.append(device_change("edit", {**device, "deviceProtocol": twin.protocol}))
        return [*changes, *(device_change("add", self._device(a, view)) for a in missing if is_there(a, view))]

    def _device(self, adapter: Adapter, view: View) -> dict[str, Any]:
        group = view.facts(f"{dvs.PORT_GROUP}:{adapter.port_group}")
        switch = dvs.switch_of(view.estate, group)
        port = {
            "_typeName": "DistributedVirtualSwitchPortConnection",
            "portgroupKey": adapter.port_group,
            "switchUuid": switch.get("uuid") if switch else "",
        }
        device = {
            "_typeName": DEVICE,
            "backing": {"_typeName": "VirtualEthernetCardDistributedVirtualPortBackingInfo", "port": port},
            # all three booleans are required on the wire; `connected` counts only while powered on
            "connectable": {
                "_typeName": "VirtualDeviceConnectInfo",
                "startConnected": True,
                "allowGuestControl": True,
                "connected": True,
            },
        }
        return {**device, "deviceProtocol": adapter.protocol} if adapter.protocol else device
