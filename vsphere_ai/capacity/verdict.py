"""Capacity question and its verdict: fits, does not fit (which VMs are left over, and why), or not decided. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from vsphere_ai.capacity.host import GivenVgpu, HostGpus, Policy
from vsphere_ai.gpu.vgpus.mixed_sizes import MixedState, surely_fits
from vsphere_ai.gpu.vgpus.slot import GpuSlot, StayingVgpu, most
from vsphere_ai.gpu.vgpus.vgpu import VgpuProfile

NO_ORDER = "the GPUs have room, but in no power-on order: the starts the driver chooses by itself block each other"
Assignment = Mapping[str, tuple[str, tuple[GivenVgpu, ...]]]
"""VM -> (host, its vGPUs in the order in which they are attached), in an order in which the VMs power on."""


@dataclass(frozen=True)
class VmDemand:
    """A VM and the vGPU profiles it powers on with, on one of `hosts`.

    With `running_on` it runs there already: it is not placed, but has to find room elsewhere when that host fails.
    """

    name: str
    profiles: tuple[str, ...]
    hosts: frozenset[str]
    running_on: str | None = None


@dataclass(frozen=True)
class Fit:
    """Every VM powers on, in the order of `assignment`.

    `assumed`: the places of some running VMs are not known, or it depends on those that vSphere gives to vGPUs of
    several sizes; its usual places are assumed. `reordered` names VMs whose vGPUs have to be attached in another order
    than by name, as `assignment` gives it.
    """

    assignment: Assignment
    assumed: bool = False
    warnings: tuple[str, ...] = ()
    reordered: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Return whether nothing was assumed."""
        return not self.assumed

    @property
    def order(self) -> tuple[str, ...]:
        """The VMs in the order to power them on."""
        return tuple(self.assignment)


@dataclass(frozen=True)
class _Refusal:
    """One sentence why not, the VMs that are left over (at least one), and the room there is now.

    `room`: profile -> how many more vGPUs of it alone, in addition to what runs. `lost`: the hosts whose failure this
    is about. `no_order`: the hosts whose GPUs have room for their part of `assignment`, but with no power-on order.
    """

    explanation: str
    vms: tuple[str, ...]
    room: Mapping[str, int] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    no_order: tuple[str, ...] = ()
    assignment: Assignment = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.vms:
            raise ValueError(f"a refusal without a VM that is left over: {self.explanation}")


@dataclass(frozen=True)
class NoFit(_Refusal):
    """Proof that not every VM powers on, whatever the assignment. `assumed` as in `Fit`."""

    assumed: bool = False

    @property
    def exact(self) -> bool:
        """Return whether nothing was assumed."""
        return not self.assumed


@dataclass(frozen=True)
class Undecided(_Refusal):
    """Neither places for all VMs were found, nor a proof that there are none: a limit of the search was reached."""

    @property
    def exact(self) -> bool:
        """Return False: nothing is known for certain."""
        return False


Answer = Fit | NoFit | Undecided


@dataclass(frozen=True)
class GpuHosts:
    """The GPUs VMs may run on, by host; `policies` holds the assignment policy of hosts, else ``performance``."""

    slots: tuple[GpuSlot, ...]
    policies: Mapping[str, Policy] = field(default_factory=dict)

    def without(self, hosts: Iterable[str]) -> GpuHosts:
        """Return the estate after these hosts have failed."""
        gone = set(hosts)
        return replace(self, slots=tuple(s for s in self.slots if s.host not in gone))

    @cached_property
    def hosts(self) -> dict[str, list[GpuSlot]]:
        """The GPUs of each host, by name."""
        hosts: dict[str, list[GpuSlot]] = {name: [] for name in sorted({s.host for s in self.slots})}
        for slot in self.slots:
            hosts[slot.host].append(slot)
        return hosts

    @cached_property
    def machines(self) -> dict[str, HostGpus]:
        """The hosts as they place vGPUs, by name."""
        return {name: HostGpus(slots, self.policies.get(name, "performance")) for name, slots in self.hosts.items()}


def room(slots: Iterable[GpuSlot], profiles: Iterable[str]) -> dict[str, int]:
    """Return how many more vGPUs of each profile alone these GPUs can take."""
    gpus = tuple(slots)
    return {name: sum(most(s.kind, s.state, name) for s in gpus) for name in sorted(set(profiles))}


def occupied(farm: GpuHosts, answer: Answer) -> GpuHosts:
    """Return the estate as it is when VMs run where an answer assigns them."""
    more: dict[tuple[str, str], list[StayingVgpu]] = defaultdict(list)
    for vm, (host, places) in answer.assignment.items():
        for place in places:
            more[host, place.gpu].append(StayingVgpu(vm, place.profile, place.start))
    slots = (replace(s, running=(*s.running, *more.get((s.host, s.pci), ()))) for s in farm.slots)
    return replace(farm, slots=tuple(slots))


def mistakes(farm: GpuHosts, demands: Sequence[VmDemand], assignment: Assignment) -> Iterator[str]:
    """Yield the VMs that an assignment does not serve: every host powers its VMs on again, one after another.

    It does not matter how the assignment was found; no fit is reported unless this yields nothing.
    """
    hosts = farm.machines
    states = {name: host.states for name, host in hosts.items()}
    wanted = {d.name: d for d in demands}
    yield from sorted(wanted.keys() - assignment.keys())
    for vm, (at, places) in assignment.items():
        profiles = tuple(p.profile for p in places)
        if vm not in wanted or sorted(profiles) != sorted(wanted[vm].profiles):
            yield vm
        elif profiles:
            got = hosts[at].power_on(profiles, states[at]) if at in wanted[vm].hosts and at in hosts else None
            if got is None or got[1] != places:
                yield vm
            else:
                states[at] = got[0]


def _in_any_places(slot: GpuSlot, assignment: Assignment) -> bool:
    """Return whether the vGPUs that come to a GPU of mixed sizes have room whatever places vSphere gives them."""
    come = (p.profile for host, places in assignment.values() if host == slot.host for p in places if p.gpu == slot.pci)
    sizes = [takes.fb_gb for name in come if isinstance(takes := slot.kind.takes(name), VgpuProfile)]
    return not isinstance(slot.state, MixedState) or surely_fits(slot.board, slot.state, sizes)


def concluded(
    farm: GpuHosts, demands: Sequence[VmDemand], assignment: Assignment, no_order: Sequence[str] = ()
) -> Fit | Undecided:
    """Return an assignment as a fit once it has been checked, with a warning for everything an operator has to know.

    With `no_order`, hosts on which no power-on order was found, or with a mistake in it, nothing is decided.
    """
    if no_order:
        vms = tuple(vm for vm, (host, _) in assignment.items() if host in no_order)
        found = f"{', '.join(no_order)}: the GPUs have room for {', '.join(vms)}, but no order was found in which all"
        return Undecided(f"{found} of them power on", vms, no_order=tuple(no_order), assignment=assignment)
    wrong = tuple(mistakes(farm, demands, assignment))
    if wrong:
        return Undecided(f"the places found for {', '.join(wrong)} did not pass the check", wrong)
    profiles = {d.name: tuple(sorted(d.profiles)) for d in demands}
    used = {host for host, _ in assignment.values()}
    assumed = any(s.guessed for s in farm.slots if s.host in used)
    placed = {vm: tuple(p.profile for p in places) for vm, (_, places) in assignment.items()}
    reordered = tuple(vm for vm, names in placed.items() if names != profiles[vm])
    assumption = "what some running VMs hold on their GPUs is not known: vSphere's usual places are assumed"
    warnings = [assumption] if assumed else []
    if not assumed and not all(_in_any_places(s, assignment) for s in farm.slots if s.host in used and s.kind.mixed):
        assumed, warnings = True, ["whether all vGPUs have room depends on the places that vSphere gives to the first"]
    warnings += [f"{vm}: its vGPUs have to be attached in the order {', '.join(placed[vm])}" for vm in reordered]
    return Fit(assignment, assumed, tuple(warnings), reordered)
