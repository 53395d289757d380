"""Facts that were read of the objects of a vCenter, as plain values, and the estate they make up.

Plain values: mappings in VMware's own spelling with ``_typeName``, tuples of such, strings, numbers, booleans.
A reference to a managed object is the string ``Type:moid``, e.g. ``HostSystem:host-12``. Times are ISO 8601 in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from vsphere_ai.model.estate.agent_vms import PATHS, agent_of, manager_of
from vsphere_ai.model.estate.indexes import Changed, Index, ReferencesByKey, indexed, with_changes
from vsphere_ai.model.estate.observed import Logged, laid_over
from vsphere_ai.model.state import Target, TargetKind

UNTYPED = "the answer holds a value that cannot be typed"
"""How the reason for an unreadable path begins where the server showed a value that the API library cannot take."""
MALFORMED = "the value is not as vSphere defines it"
"""How it begins where a value lacks a required field, or has another shape than its type."""


@dataclass(frozen=True)
class CommandOutput:
    """What a command on a host answered."""

    status: int
    stdout: str
    stderr: str = ""


@dataclass(frozen=True)
class ProbeFailure:
    """Why a probe has no output.

    `rule` is one of ``ssh.stopped``, ``ssh.lockdown``, ``ssh.unreachable``, ``ssh.denied``, ``ssh.malformed``.
    """

    rule: str
    reason: str
    help: str = ""


@dataclass(frozen=True)
class Facts:
    """What was read of one managed object.

    `properties` maps a property path to its plain value; a path that is unset on the server is absent.
    `unreadable` maps a path to the reason the server gave for not showing it.
    """

    ref: str
    properties: Mapping[str, Any] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    probes: Mapping[str, CommandOutput | ProbeFailure] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The inventory name, unescaped."""
        return str(self.properties.get("name", self.ref))

    def get(self, path: str, default: Any = None) -> Any:
        """Return the value of a property path, or `default` when it is unset or unreadable."""
        return self.properties.get(path, default)

    def having(self, properties: Mapping[str, object]) -> Facts:
        """Return the object with these properties, and the others as they were read."""
        read = self.properties
        return replace(self, properties=read.over(properties) if isinstance(read, Logged) else {**read, **properties})


@dataclass(frozen=True)
class About:
    """The vCenter that was read.

    `api` is the negotiated API version, e.g. ``7.0.2.0``; `offered_api` the newest one it offers, which the installed
    pyVmomi may not know (empty: not known to be another one).
    """

    name: str
    version: str
    build: str
    api: str
    instance: str
    api_type: str = "VirtualCenter"
    offered_api: str = ""

    @property
    def api_numbers(self) -> tuple[int, ...]:
        """The API version as numbers, because texts do not compare: (7, 0, 2, 0)."""
        return numbers(self.api)

    @property
    def offered_numbers(self) -> tuple[int, ...]:
        """The newest API version the server offers, as numbers; never below the negotiated one."""
        return max(numbers(self.offered_api), self.api_numbers)


def numbers(version: str) -> tuple[int, ...]:
    """Return an API version ``7.0.2.0`` as (7, 0, 2, 0), comparable between versions."""
    return tuple(int(n) for n in version.split(".") if n.isdecimal())


INDEXED = ("name", "parent", "runtime.host", "config.template", *PATHS)
"""What decides where an estate lists a datacenter, a host or a VM."""
LISTED: Mapping[str, TargetKind] = {"Datacenter": "datacenter", "HostSystem": "host", "VirtualMachine": "vm"}
T = TypeVar("T")
G = TypeVar("G", bound=Hashable)


@dataclass(frozen=True)
class Estate:
    """Everything one reading brought, by reference, and the relations between objects.

    What it lists is found out once, and kept by estates that differ in nothing that decides it.
    """

    about: About
    objects: Mapping[str, Facts]

    def __getitem__(self, ref: str) -> Facts:
        return self.objects[ref]

    def get(self, ref: str | None) -> Facts | None:
        """Return the facts of an object, None when it was not read."""
        return self.objects.get(ref) if ref else None

    def with_objects(self, facts: Iterable[Facts]) -> Estate:
        """Return the estate with objects in the place of those of the same reference, or added to them."""
        changed = {f.ref: f for f in facts}
        if not changed:
            return self
        made = Estate(self.about, laid_over(self.objects, changed))
        made.__dict__["_made_of"] = self, tuple(Changed(self.objects.get(ref), now) for ref, now in changed.items())
        if all(self._listed_alike(f) for f in changed.values()):
            own = ("about", "objects", "vms_by_mac", "_indexes", "_made_of")
            # a copy: threads of a run make estates of the same one, while it may still be finding out what it lists
            made.__dict__.update((n, v) for n, v in dict(self.__dict__).items() if n not in own)
        return made

    def listed(self) -> Estate:
        """Return this estate, having found out what it lists: those that are made of it need not do so again."""
        self.hosts_in(""), self.vms_on(""), self.managed_on(""), self.datacenters, self.agents
        return self

    def _listed_alike(self, facts: Facts) -> bool:
        before = self.objects.get(facts.ref)
        paths = INDEXED if _type(facts.ref) in LISTED else ("name",)
        return before is not None and all(before.get(path) == facts.get(path) for path in paths)

    @cached_property
    def _by_type(self) -> Mapping[str, tuple[str, ...]]:
        found: dict[str, list[tuple[str, str]]] = {}
        for ref, facts in self.objects.items():
            found.setdefault(_type(ref), []).append((facts.name, ref))
        return {kind: tuple(ref for _, ref in sorted(own)) for kind, own in found.items()}

    def of_type(self, *types: str) -> Iterator[Facts]:
        """Yield objects whose managed type is one of `types`, by name."""
        found = [self.objects[ref] for each in dict.fromkeys(types) for ref in self._by_type.get(each, ())]
        return iter(found if len(types) == 1 else sorted(found, key=lambda f: (f.name, f.ref)))

    def named(self, name: str, *types: str) -> tuple[Facts, ...]:
        """Return the objects of some managed types that have a name, in the order of the types."""
        return tuple(self.objects[ref] for each in types for ref in self._by_name.get((each, name), ()))

    @cached_property
    def _by_name(self) -> Mapping[tuple[str, str], tuple[str, ...]]:
        """References by managed type and name."""
        return {
            key: tuple(f.ref for f in own)
            for key, own in grouped(self.objects.values(), lambda f: (_type(f.ref), f.name)).items()
        }

    def by_key(self, index: Index, key: Hashable) -> tuple[Facts, ...]:
        """Return the objects that an index has under a key, by name."""
        own = (self.objects[ref] for ref in self._index(index).get(key, ()))
        return tuple(sorted(own, key=lambda f: (f.name, f.ref)))

    def _index(self, index: Index) -> ReferencesByKey:
        """Return an index: that of the estate from which this one was made, with what has changed since."""
        line = [self]  # this estate, the one it was made of, and so on, up to one that has the index
        while index not in line[-1]._indexes and "_made_of" in line[-1].__dict__:
            line.append(line[-1].__dict__["_made_of"][0])
        found = line[-1]._indexes.get(index)
        if found is None:
            found = line[-1]._indexes[index] = indexed(index, line[-1].of_type(*index.types))
        for made in reversed(line[:-1]):
            found = made._indexes[index] = with_changes(index, found, made.__dict__["_made_of"][1])
        return found

    @cached_property
    def _indexes(self) -> dict[Index, ReferencesByKey]:
        return {}

    def kind_of(self, ref: str) -> TargetKind | None:
        """Return as which kind of target an object is listed; None for any other object."""
        if ref not in self._kinds:
            kind, facts = LISTED.get(_type(ref)), self.objects.get(ref)
            apart = facts is None or (kind == "vm" and (facts.get("config.template") or agent_of(facts.properties)))
            self._kinds[ref] = None if apart else kind
        return self._kinds[ref]

    @cached_property
    def _kinds(self) -> dict[str, TargetKind | None]:
        return {}

    def is_on(self, vm: str) -> bool:
        """Return whether a VM was powered on when it was read."""
        return bool(self[vm].get("runtime.powerState") == "poweredOn")

    @cached_property
    def hosts(self) -> tuple[Target, ...]:
        """Every ESXi host, by name."""
        return tuple(Target("host", f.name, f.ref) for f in self.of_type("HostSystem"))

    @cached_property
    def vms(self) -> tuple[Target, ...]:
        """Every virtual machine that is neither a template nor an agent of vCenter itself, by name."""
        return tuple(v for v in self._machines if v not in self.agents)

    @cached_property
    def agents(self) -> Mapping[Target, str]:
        """Agent VM -> the service of vCenter that looks after it: it moves, stops and recreates them by itself."""
        return {v: by for v in self._machines if (by := agent_of(self[v.ref].properties))}

    @cached_property
    def managed(self) -> Mapping[Target, str]:
        """VM that is not the user's to change -> who manages it: the agents, and VMs of other extensions."""
        return {v: by for v in self._machines if (by := manager_of(self[v.ref].properties))}

    @cached_property
    def _machines(self) -> tuple[Target, ...]:
        found = (f for f in self.of_type("VirtualMachine") if not f.get("config.template"))
        return tuple(Target("vm", f.name, f.ref) for f in found)

    @cached_property
    def datacenters(self) -> tuple[Target, ...]:
        """Every datacenter, by name."""
        return tuple(Target("datacenter", f.name, f.ref) for f in self.of_type("Datacenter"))

    def targets(self, kind: TargetKind) -> tuple[Target, ...]:
        """Return every target of a kind, by name."""
        if kind == "datacenter":
            return self.datacenters
        return self.hosts if kind == "host" else self.vms

    def parent_of(self, facts: Facts) -> Facts | None:
        """Return what an object is in. A VM of a vApp has no parent: the vApp is in a VM folder, which counts."""
        vapp = facts.ref.startswith("VirtualApp:")
        path = "parentFolder" if vapp and facts.get("parentFolder") else "parent"
        return self.get(facts.get(path) or facts.get("parentVApp"))

    def up_from(self, ref: str) -> Iterator[Facts]:
        """Yield an object, what it is in, and so on, up to the root folder."""
        at = self.get(ref)
        while at is not None:
            yield at
            at = self.parent_of(at)

    def datacenter_of(self, ref: str) -> Target | None:
        """Return the datacenter an object is in; a datacenter is in itself."""
        at = next((f for f in self.up_from(ref) if f.ref.startswith("Datacenter:")), None)
        return Target("datacenter", at.name, at.ref) if at else None

    def path_of(self, ref: str) -> str:
        """Return the inventory path, e.g. ``/DC0/vm/ai/train-01``."""
        *names, _root = [f.name for f in self.up_from(ref)] or [""]
        return "/" + "/".join(reversed(names))

    def cluster_of(self, host: str) -> Facts | None:
        """Return the compute resource (cluster or standalone) a host belongs to."""
        return self.get(self[host].get("parent"))

    def host_of(self, vm: str) -> Target | None:
        """Return the host a VM is registered on."""
        facts = self.get(self[vm].get("runtime.host"))
        return Target("host", facts.name, facts.ref) if facts else None

    def vms_on(self, host: str) -> tuple[Target, ...]:
        """Return the VMs registered on a host, by name."""
        return self._vms_by_host.get(host, ())

    def managed_on(self, host: str) -> tuple[Target, ...]:
        """Return the VMs registered on a host that are not the user's to change, by name."""
        return self._managed_by_host.get(host, ())

    @cached_property
    def _vms_by_host(self) -> Mapping[str, tuple[Target, ...]]:
        return grouped(self.vms, lambda vm: self[vm.ref].get("runtime.host", ""))

    @cached_property
    def _managed_by_host(self) -> Mapping[str, tuple[Target, ...]]:
        return grouped(self.managed, lambda vm: self[vm.ref].get("runtime.host", ""))

    @cached_property
    def vms_by_mac(self) -> Mapping[str, tuple[str, ...]]:
        """References of VMs by the MAC addresses of their devices, lower case; of those whose devices were read."""
        devices = ((vm.ref, d) for vm in self.vms for d in self[vm.ref].get("config.hardware.device") or ())
        having = ((ref, d["macAddress"]) for ref, d in devices if "macAddress" in d)
        return {mac: tuple(ref for ref, _ in own) for mac, own in grouped(having, lambda h: str(h[1]).lower()).items()}

    def hosts_in(self, parent: str) -> tuple[Target, ...]:
        """Return the hosts of a compute resource (cluster or standalone), by name."""
        return self._hosts_by_parent.get(parent, ())

    @cached_property
    def _hosts_by_parent(self) -> Mapping[str, tuple[Target, ...]]:
        return grouped(self.hosts, lambda host: str(self[host.ref].get("parent")))

    def hosts_around(self, vms: Iterable[str]) -> set[str]:
        """Return the references of all hosts that some VM of these can run on."""
        alike = {self.hosts_for(vm)[:1]: vm for vm in vms}  # two clusters have no host in common
        return {h.ref for vm in alike.values() for h in self.hosts_for(vm)}

    def hosts_for(self, vm: str) -> tuple[Target, ...]:
        """Return every host a VM can run on: the hosts of its cluster, else its own host."""
        own = self.host_of(vm)
        if own is None:
            return ()
        parent = self[own.ref].get("parent", "")
        return self.hosts_in(parent) if parent.startswith("ClusterComputeResource:") else (own,)


def _type(ref: str) -> str:
    return ref.partition(":")[0]


def grouped(items: Iterable[T], key: Callable[[T], G]) -> dict[G, tuple[T, ...]]:
    """Return items by their key, each group in the order in which they came."""
    found: dict[G, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return {name: tuple(own) for name, own in found.items()}


def with_probes(estate: Estate, asked: Estate) -> Estate:
    """Return an estate with the answers that hosts of another reading of it gave over SSH."""
    hosts = [h.ref for h in estate.hosts if h.ref in asked.objects and asked[h.ref].probes]
    return estate.with_objects(replace(estate[r], probes=asked[r].probes) for r in hosts)
