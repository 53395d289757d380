"""The VMs that run on each host at one moment of a plan, with their sums; changed as the plan goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from vsphere_ai.admission.ha_slots import DEFAULT_MHZ
from vsphere_ai.admission.machine import NOTHING, Bounds, Machine
from vsphere_ai.admission.machines import Machines
from vsphere_ai.admission.rules import EnabledRules, rules_of
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View

LOCAL_SWAP = "config.localSwapDatastore"
"""Property of a host: the datastore that it has for swap files of VMs, if any."""


@dataclass
class Load:
    """What the running VMs of a host take together. `unknown_memory` counts those whose reservation was not read."""

    memory_mb: Bounds = NOTHING
    mhz: int = 0
    cpus: int = 0
    exclusive_cores: int = 0
    unknown_memory: int = 0

    def add(self, vm: Machine, sign: int = 1) -> None:
        """Add a VM, or take it away with a `sign` of -1."""
        need = vm.memory_need_mb
        if need is None:
            self.unknown_memory += sign
        else:
            self.memory_mb = Bounds(self.memory_mb.low + sign * need.low, self.memory_mb.high + sign * need.high)
        self.mhz += sign * vm.reserved_mhz
        self.cpus += sign * (vm.cpus or 0)
        self.exclusive_cores += sign * vm.exclusive_cores


@dataclass
class Situation:
    """The running VMs of each host; `running` maps the references of hosts to VMs by reference.

    What was read of shared things (resource pools, datastores, vSphere HA) holds for the VMs that ran then: `before` is
    that situation, and what this one takes more is the difference.
    """

    view: View
    machines: Machines
    running: dict[str, dict[str, Machine]]
    added_rules: Mapping[str, tuple[Step, ...]] = field(default_factory=dict)
    down: frozenset[str] = frozenset()
    """References of hosts that are out of service at this moment because of the plan."""
    later_rules: Mapping[str, tuple[Step, ...]] = field(default_factory=dict)
    """Steps that make rules at a time that is not known, by cluster: what they replace holds as well."""
    disks_bytes: Mapping[str, int] = field(default_factory=dict)
    """What disks of VMs that the plan makes take, by datastore (reference)."""

    # -- made

    @classmethod
    def as_read(cls, view: View, machines: Machines) -> Situation:
        """Return the situation when the estate was read."""
        running: dict[str, dict[str, Machine]] = {}
        for ref in machines.on:
            host = str(view.estate[ref].get("runtime.host") or "")
            running.setdefault(host, {})[ref] = machines.present(ref)
        return cls(view, machines, running)

    def copy(self) -> Situation:
        """Return the same situation, to be changed apart from this one."""
        running = dict(self.running)  # what runs on a host is copied where it changes: see `_own`
        same = self.added_rules, self.down, self.later_rules, self.disks_bytes
        made = Situation(self.view, self.machines, running, *same)
        self._changed.clear()
        made.__dict__["before"] = self.before
        made.__dict__["_homes"] = dict(self._homes)
        made._rules.update(self._rules)
        made._networks.update(self._networks)
        return made

    def only(self, hosts: Iterable[str]) -> Situation:
        """Return the situation of some hosts (references), to be changed apart from this one."""
        refs = [*hosts]

        def part(whole: Situation) -> Situation:
            whole._changed.clear()
            own = {h: whole.running.get(h, {}) for h in refs}
            return Situation(self.view, self.machines, own, self.added_rules, self.down, self.later_rules)

        made = part(self)
        made.__dict__["before"] = part(self.before)  # else VMs of all other hosts would count as powered off since
        return made

    @cached_property
    def before(self) -> Situation:
        """The situation when the estate was read."""
        return Situation.as_read(self.view, self.machines)

    # -- changed

    def arrive(self, vm: Machine, host: str) -> None:
        """Let a VM run on a host (reference), where it did not."""
        self._own(host)[vm.ref] = vm
        if host in self._loads:
            self._loads[host].add(vm)
        self._homes[vm.ref] = host
        for shared in self._deltas:
            shared.add(vm, host, 1)

    def leave(self, ref: str) -> Machine | None:
        """Let a VM run no more; return it, None where it did not run."""
        host = self._homes.pop(ref, None)
        vm = self._own(host).pop(ref, None) if host is not None else None
        if vm is None or host is None:
            return None
        if host in self._loads:
            self._loads[host].add(vm, -1)
        for shared in self._deltas:
            shared.add(vm, host, -1)
        return vm

    def _own(self, host: str) -> dict[str, Machine]:
        """Return what runs on a host, to be changed: copies of this situation keep theirs."""
        if host not in self._changed:
            self._changed.add(host)
            self.running[host] = dict(self.running.get(host, {}))
        return self.running[host]

    @cached_property
    def _changed(self) -> set[str]:
        """References of the hosts whose VMs no other situation shares."""
        return set()

    # -- looked at

    def home(self, ref: str) -> str | None:
        """Return the reference of the host that a VM runs on, None where it does not run."""
        return self._homes.get(ref)

    def on(self, host: str) -> Mapping[str, Machine]:
        """Return the VMs that run on a host, by reference."""
        return self.running.get(host, {})

    def load(self, host: str, without: str = "") -> Load:
        """Return what the VMs of a host take together, one of them left out."""
        if host not in self._loads:
            load = Load()
            for vm in self.on(host).values():
                load.add(vm)
            self._loads[host] = load
        other = self.on(host).get(without)
        if other is None:
            return self._loads[host]
        left = Load(**self._loads[host].__dict__)
        left.add(other, -1)
        return left

    def hosts_of(self, cluster: str) -> Iterator[Facts]:
        """Yield the hosts of a cluster."""
        return (self.view.estate[h.ref] for h in self.view.estate.hosts_in(cluster))

    def cluster(self, host: str) -> Facts | None:
        """Return the cluster or compute resource of a host."""
        return self.view.estate.cluster_of(host)

    def networks(self, cluster: str) -> frozenset[str]:
        """Return the references of all networks that a host of a cluster has."""
        if cluster not in self._networks:
            self._networks[cluster] = frozenset(n for h in self.hosts_of(cluster) for n in h.get("network") or ())
        return self._networks[cluster]

    def rules(self, cluster: str) -> EnabledRules:
        """Return the DRS rules of a cluster as the plan leaves them."""
        if cluster not in self._rules:
            facts = self.view.estate.get(cluster)
            added, later = (rules.get(cluster, ()) for rules in (self.added_rules, self.later_rules))
            self._rules[cluster] = rules_of(facts, self.view.estate, added, later)
        return self._rules[cluster]

    @cached_property
    def more(self) -> Shared:
        """What the running VMs take of pools, datastores and clusters beyond what was taken when they were read."""
        shared = Shared(self)
        for own, sign in ((self.running, 1), (self.before.running, -1)):
            for host, vms in own.items():
                for vm in vms.values():
                    shared.add(vm, host, sign)
        self._deltas.append(shared)
        return shared

    @cached_property
    def _homes(self) -> dict[str, str]:
        return {ref: host for host, own in self.running.items() for ref in own}

    @cached_property
    def _loads(self) -> dict[str, Load]:
        return {}

    @cached_property
    def _deltas(self) -> list[Shared]:
        return []

    @cached_property
    def _networks(self) -> dict[str, frozenset[str]]:
        return {}

    @cached_property
    def _rules(self) -> dict[str, EnabledRules]:
        return {}


class Shared:
    """Sums over all VMs of a situation, less what was there before: of pools, datastores and clusters."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self.pool_mb: dict[str, Bounds] = {}
        self.pool_mhz: Counter[str] = Counter()
        self.swap_mb: Counter[str] = Counter()
        self.cluster_mb: dict[str, Bounds] = {}
        self.cluster_mhz: Counter[str] = Counter()

    def add(self, vm: Machine, host: str, sign: int) -> None:
        """Add a VM that runs on a host (reference), or take it away with a `sign` of -1."""
        need = vm.memory_need_mb or NOTHING
        for sums, key in ((self.pool_mb, vm.pool), (self.cluster_mb, self._situation.machines.cluster(vm))):
            now = sums.get(key, NOTHING)
            sums[key] = Bounds(now.low + sign * need.low, now.high + sign * need.high)
        self.pool_mhz[vm.pool] += sign * vm.reserved_mhz
        self.cluster_mhz[self._situation.machines.cluster(vm)] += sign * max(vm.reserved_mhz, DEFAULT_MHZ)
        if not swaps_locally(vm, host, self._situation.view.estate):
            self.swap_mb[vm.home] += sign * (vm.swap_mb or 0)


def swaps_locally(vm: Machine, host: str, estate: Estate) -> bool:
    """Return whether the swap file of a VM is to be on the datastore that a host (reference) has for such files."""
    facts = estate.get(host)
    cluster = estate.get(facts.get("parent")) if facts is not None else None
    config = (cluster.get("configurationEx") if cluster is not None else None) or {}
    wanted = vm.swap_place or config.get("vmSwapPlacement")
    return wanted == "hostLocal" and facts is not None and bool(facts.get(LOCAL_SWAP))


def powered_on(situation: Situation, refs: Iterable[str]) -> None:
    """Let VMs run where they are registered, as the plan leaves them."""
    for ref in refs:
        host = str(situation.view.estate[ref].get("runtime.host") or "")
        situation.leave(ref)
        situation.arrive(situation.machines.planned(ref), host)
