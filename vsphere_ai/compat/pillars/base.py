"""Contract of a rule of a pillar: the objects it judges, what it reads of them, and its verdicts with evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, partial
from inspect import getdoc
from typing import Any, Literal

from vsphere_ai.compat import gate
from vsphere_ai.compat.base import PlannedValue, Unreadable, planned_value, why_absent
from vsphere_ai.fabric import networks
from vsphere_ai.gpu.devices import has_vgpus, is_vgpu, is_whole
from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.finding import Finding, Subject, Verdict, seriousness
from vsphere_ai.model.records.assessment import Pillar, Records, pillar_of
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.model.vm_sets import mark_of, member_of
from vsphere_ai.resources.corrections import text_of
from vsphere_ai.resources.mixins import VmDevices

About = Literal["environment", "cluster", "host", "vm", "set", "port group", "attestation"]
TYPES: Mapping[str, str] = {
    "cluster": "ClusterComputeResource",
    "host": "HostSystem",
    "vm": "VirtualMachine",
    "port group": "DistributedVirtualPortgroup",
}
PVRDMA = "VirtualVmxnet3Vrdma"
LONGEST_VALUE = 100


@dataclass(frozen=True)
class AssessedFarm:
    """What is assessed: hosts with GPUs, VMs that train (with their clusters, port groups and sets), and records.

    `on` are the VMs (references) that run, or that will once a plan is carried out.
    """

    view: View
    hosts: tuple[Target, ...]
    vms: tuple[Target, ...]
    on: frozenset[str]
    records: Records

    @cached_property
    def targets(self) -> Mapping[str, Target]:
        """The hosts and VMs by their references."""
        return {target.ref: target for target in (*self.hosts, *self.vms)}

    @cached_property
    def together(self) -> frozenset[str]:
        """The VMs (references) of sets of two or more."""
        return frozenset(vm.ref for vms in self.sets.values() if len(vms) > 1 for vm in vms)

    @cached_property
    def clusters(self) -> tuple[Facts, ...]:
        """The clusters of the hosts, by name."""
        found = {c.ref: c for h in self.hosts if (c := self.view.estate.cluster_of(h.ref))}
        return tuple(sorted(found.values(), key=lambda c: c.name))

    @cached_property
    def port_groups(self) -> tuple[Facts, ...]:
        """The distributed port groups that the VMs are on, by name."""
        devices = (d for vm in self.vms for d in self.view.facts(vm.ref).get("config.hardware.device") or ())
        keys = {((d.get("backing") or {}).get("port") or {}).get("portgroupKey") for d in devices}
        found = (g for g in self.view.estate.of_type(TYPES["port group"]) if g.get("key") in keys)
        return tuple(sorted(found, key=lambda g: g.name))

    @cached_property
    def sets(self) -> Mapping[str, tuple[Target, ...]]:
        """The VMs by the set whose mark they have, or in which a playbook makes them."""
        found: dict[str, list[Target]] = {}
        for vm in self.vms:
            own = member_of(self.view.estate, vm.ref) or mark_of(self.view.facts(vm.ref))
            if own:
                found.setdefault(own.set, []).append(vm)
        return {name: tuple(vms) for name, vms in sorted(found.items())}

    def hosts_in(self, cluster: str) -> tuple[Target, ...]:
        """Return the assessed hosts of a cluster."""
        return tuple(h for h in self.hosts if self.view.estate[h.ref].get("parent") == cluster)

    def vms_in(self, cluster: str) -> tuple[Target, ...]:
        """Return the assessed VMs on the hosts of a cluster."""
        own = {h.ref for h in self.view.estate.hosts_in(cluster)}
        return tuple(v for v in self.vms if (h := self.view.estate.host_of(v.ref)) and h.ref in own)


@dataclass(frozen=True)
class PillarRule:
    """One rule of a pillar; as a decorator it takes the function that judges one object.

    The function's docstring is the rule's paragraph in the documentation. It returns None where the rule does not
    apply to the object.
    """

    id: str
    title: str
    _: KW_ONLY
    about: About
    source: str
    """The public page it stands on."""
    verdicts: Mapping[Verdict | Literal["not applicable"], str]
    """When each verdict is given, or it does not apply; unknown is added where only a missing property leads to it."""
    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Managed type -> property paths it wants read."""
    uses: tuple[str, ...] = ()
    """Compatibility rules whose findings it reports."""
    question: str = ""
    """What an operator attests."""
    by_hand: str = ""
    """Why no playbook corrects what it finds; empty where its findings have corrections."""
    judge: Callable[[PillarCase], Finding | None] = lambda case: None

    def __call__(self, judge: Callable[[PillarCase], Finding | None]) -> PillarRule:
        """Return the rule with the function that judges."""
        return replace(self, judge=judge)

    @property
    def pillar(self) -> Pillar:
        """The pillar, which its id begins with."""
        return pillar_of(self.id)

    @property
    def doc(self) -> str:
        """The paragraph of the rule in the documentation."""
        return (getdoc(self.judge) or "") if self.judge.__name__ != "<lambda>" else ""

    def subjects(self, farm: AssessedFarm) -> Iterator[tuple[str, str]]:
        """Yield reference and name of every object the rule is about; both are empty for the environment as a whole."""
        if self.about in ("environment", "attestation"):
            yield "", ""
        elif self.about == "set":
            yield from ((name, name) for name in farm.sets)
        elif self.about in ("host", "vm"):
            yield from ((t.ref, t.name) for t in (farm.hosts if self.about == "host" else farm.vms))
        else:
            estate = farm.view.estate
            found = farm.clusters if self.about == "cluster" else farm.port_groups
            yield from ((f.ref, networks.label(estate, f) if self.about == "port group" else f.name) for f in found)

    def check(self, farm: AssessedFarm) -> Iterator[Finding]:
        """Yield what the rule finds; a property that cannot be read becomes one unknown verdict."""
        for ref, name in self.subjects(farm):
            case = PillarCase(self, farm, ref, name)
            try:
                found = self.judge(case)
                if found:
                    yield found
            except Unreadable as missing:
                yield case.unknown(f"{missing.path} cannot be read: {missing.reason}")


@dataclass(frozen=True)
class PillarCase:
    """One rule before one object: reads its properties and words the verdict."""

    rule: PillarRule
    farm: AssessedFarm
    ref: str
    name: str

    @property
    def facts(self) -> Facts:
        """What was read of the object, as a plan makes it."""
        return self.farm.view.facts(self.ref)

    @property
    def records(self) -> Records:
        """What is known besides the environment."""
        return self.farm.records

    def need(self, path: str, of: str = "") -> Any:
        """Return the value of a path, of another object where `of` is given; raise `Unreadable` without one."""
        facts = self.farm.view.estate.get(of or self.ref)
        value = facts.get(path) if facts else None
        if value is None:
            raise Unreadable(path, why_absent(facts, path))
        return value

    def facts_of(self, ref: str) -> Facts:
        """Return what was read of another object; raise `Unreadable` where it was not read."""
        facts = self.farm.view.estate.get(ref)
        if facts is None:
            raise Unreadable(ref, "the object was not read")
        return facts

    def pool_owner(self, vm: str) -> str:
        """Return the cluster or host that owns the resource pool of a VM; empty where that is not known."""
        pool = self.farm.view.estate.get(str(self.farm.view.facts(vm).get("resourcePool")))
        return str(pool.get("owner") or "") if pool else ""

    def planned(self, path: str) -> PlannedValue | None:
        """Return what a plan makes of a property of the host or VM."""
        return planned_value(self.farm.view, self.ref, path)

    def reported(self) -> Finding | None:
        """Return the worst finding of the compatibility rules that the rule uses; None where none applies."""
        target = self.farm.targets.get(self.ref)
        kind = target.kind if target else "vcenter"
        rules = (r for r in gate.rules() if r.id in self.rule.uses and r.target == kind)
        found = [f for r in rules for f in r.check(target, self.farm.view)]
        if not found:
            return None
        worst = max(found, key=seriousness)
        reported = self._assessed(worst.verdict, worst.message, worst.evidence, worst.remedy)
        return replace(reported, corrections=worst.corrections)

    def passed(self, message: str, *evidence: tuple[str, object]) -> Finding:
        """Word a pass."""
        return self._assessed("pass", message, evidence)

    def warned(
        self, message: str, *evidence: tuple[str, object], remedy: str = "", fix: Correction | None = None
    ) -> Finding:
        """Word a warning: the practice is not followed, and training goes on. A playbook can make the `fix`."""
        return self._assessed("warn", message, evidence, remedy, fix)

    def failed(
        self, message: str, *evidence: tuple[str, object], remedy: str = "", fix: Correction | None = None
    ) -> Finding:
        """Word a failure: training, data or the environment are at risk. A playbook can make the `fix`."""
        return self._assessed("fail", message, evidence, remedy, fix)

    def unknown(self, message: str, *evidence: tuple[str, object], remedy: str = "") -> Finding:
        """Word that the evidence is missing."""
        return self._assessed("unknown", message, evidence, remedy)

    @property
    def target(self) -> Target:
        """The host or VM that the rule is about."""
        return self.farm.targets[self.ref]

    @property
    def subject(self) -> Target | Subject | None:
        """The object as findings name it; None: the environment as a whole."""
        if not self.name:
            return None
        return self.farm.targets.get(self.ref) or Subject(self.rule.about, self.name, self.ref)

    def _assessed(
        self,
        verdict: Verdict,
        message: str,
        evidence: Iterable[tuple[str, object]],
        remedy: str = "",
        fix: Correction | None = None,
    ) -> Finding:
        seen = tuple((path, _short(value)) for path, value in evidence)
        if verdict in ("pass", "warn", "fail") and not seen:
            raise ValueError(f"{self.rule.id}: a verdict of {verdict} needs evidence")
        fixes = () if fix is None else (fix,)
        remedy = remedy or text_of(*fixes)
        return Finding(self.subject, self.rule.id, verdict, message, remedy, seen, self.rule.source, corrections=fixes)


def _short(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + "..."


farm_rule, cluster_rule, host_rule, vm_rule, set_rule, group_rule = (
    partial(PillarRule, about=about) for about in ("environment", "cluster", "host", "vm", "set", "port group")
)


def trains(facts: Facts) -> bool:
    """Return whether a VM has a GPU, a whole PCI device or an RDMA adapter, or is a member of a set."""
    devices = facts.get("config.hardware.device") or ()
    if facts.get("config.template"):
        return False
    return has_vgpus(facts) or mark_of(facts) is not None or any(is_whole(d) or has_rdma(d) for d in devices)


def has_gpu(view: View, vm: Target) -> bool:
    """Return whether a VM has a vGPU or a whole PCI device, or will have one after a plan."""
    devices = view.facts(vm.ref).get("config.hardware.device") or ()
    planned = any(s.vgpus(vm, view) or s.whole_devices(vm, view) for s in _given(view, vm))
    return planned or any(is_vgpu(d) or is_whole(d) for d in devices)


def has_adapter(view: View, vm: Target) -> bool:
    """Return whether a VM has an adapter for RDMA, or will have one after a plan."""
    devices = view.facts(vm.ref).get("config.hardware.device") or ()
    return any(s.rdma_adapters() for s in _given(view, vm)) or any(has_rdma(d) for d in devices)


def _given(view: View, vm: Target) -> list[VmDevices]:
    states = (view.state(vm.ref, kind) for kind in view.planned_kinds(vm.ref))
    return [state for state in states if isinstance(state, VmDevices)]


def has_rdma(device: Mapping[str, object]) -> bool:
    """Return whether a virtual device is a PVRDMA adapter or an SR-IOV network adapter."""
    return device.get("_typeName") in (PVRDMA, "VirtualSriovEthernetCard")
