"""The contract of a requirement: for which occasions it holds, what it reads, and how it judges one VM on one host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from inspect import getdoc
from typing import TYPE_CHECKING, Literal, NamedTuple

from vsphere_ai.admission.machine import Bounds, Machine
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target

if TYPE_CHECKING:
    from vsphere_ai.admission.situation import Situation

Occasion = Literal["clone", "power_on", "power_cycle", "vmotion", "evacuate", "cold_move", "reconfigure", "ha_restart"]
"""What happens to the VM: cloned and left powered off; powered on; powered off and on again on its host; moved running
by this tool; moved running by DRS; moved while off; reconfigured while running; restarted by vSphere HA."""
Verdict = Literal["no", "unknown", "preferred"]
STARTS: frozenset[Occasion] = frozenset({"power_on", "power_cycle"})
MOVES: frozenset[Occasion] = frozenset({"vmotion", "evacuate"})
RUNS: frozenset[Occasion] = STARTS | MOVES | {"ha_restart"}
ARRIVES: frozenset[Occasion] = RUNS | {"clone", "cold_move"}
EVERY: frozenset[Occasion] = ARRIVES | {"reconfigure"}
Paths = Mapping[str, tuple[str, ...]]


class Quantity(NamedTuple):
    """What a VM needs and what there is, in a unit such as ``MB``, ``MHz``, ``vCPUs`` or ``%``."""

    need: float
    have: float
    unit: str


@dataclass(frozen=True)
class Reason:
    """Why a VM may not run on a host ("no"), may or may not ("unknown"), or had better not ("preferred").

    `quantity` is None where it is about no quantity. `fault` is the fault that vCenter answers with.
    """

    rule: str
    verdict: Verdict
    message: str
    help: str = ""
    quantity: Quantity | None = None
    fault: str = ""


@dataclass(frozen=True)
class AdmissionCase:
    """One requirement before one VM and one host, at one moment."""

    requirement: Requirement
    vm: Machine
    host: Facts
    situation: Situation
    occasion: Occasion

    def no(self, message: str, help: str = "", fault: str = "", quantity: Quantity | None = None) -> Reason:
        """Return a refusal."""
        return Reason(self.requirement.id, "no", message, help, quantity, fault)

    def unknown(self, message: str, help: str = "") -> Reason:
        """Return what cannot be decided from what was read."""
        return Reason(self.requirement.id, "unknown", message, help)

    def preferred(self, message: str, help: str = "") -> Reason:
        """Return what is against it without forbidding it."""
        return Reason(self.requirement.id, "preferred", message, help)

    def ran_alike(self, *figures: str) -> bool:
        """Return whether the VM ran on this host when it was read, with the same figures: what was not read fits."""
        before = self.situation.before.on(self.host.ref).get(self.vm.ref)
        return before is not None and all(getattr(before, f) == getattr(self.vm, f) for f in figures)

    def compared(self, need: Bounds, have: Bounds, unit: str, words: tuple[str, str, str, str]) -> Reason | None:
        """Compare a need with what there is, both between bounds: "no" and "yes" only where the bounds prove it.

        `words` are the message of the refusal, that of an unknown answer, the remedy, and vCenter's fault.
        """
        refusal, unproved, help, fault = words
        if need.low > have.high:
            return self.no(refusal, help, fault, Quantity(need.low, have.high, unit))
        return self.unknown(unproved, help) if need.high > have.low else None


def host_of(host: Facts) -> Target:
    """Return a host of which facts are judged, as a target of vCenter."""
    return Target("host", host.name, host.ref)


Judge = Callable[[AdmissionCase], "Reason | Iterable[Reason] | None"]


@dataclass(frozen=True)
class Requirement:
    """One requirement; as a decorator it takes the function that judges. Its docstring is its paragraph in the docs."""

    id: str
    title: str
    _: KW_ONLY
    occasions: frozenset[Occasion]
    source: str
    """The public page that it stands on."""
    reads: Paths = field(default_factory=dict)
    """Managed type -> property paths, beside those of every VM (`machine.PATHS`)."""
    faults: tuple[str, ...] = ()
    """Faults of vCenter that it foresees."""
    shared: bool = False
    """Whether VMs take it from each other: the answer depends on what else is there."""
    of_vm: bool = False
    """Whether every host answers alike, so that none is better than another one."""
    of_cluster: Callable[[Facts], bool] = lambda _cluster: False
    """Whether the answer depends on every host of that cluster, and on all VMs there."""
    in_service: Callable[[Facts], bool] = lambda _cluster: False
    """Whether the answer depends on which other hosts of that cluster are in service at the time."""
    judge: Judge = lambda _case: None

    def __call__(self, judge: Judge) -> Requirement:
        """Return the requirement with the function that judges."""
        return replace(self, judge=judge)

    @property
    def doc(self) -> str:
        """The paragraph of the requirement in the documentation."""
        return getdoc(self.judge) or ""

    def check(self, vm: Machine, host: Facts, situation: Situation, occasion: Occasion) -> Iterator[Reason]:
        """Yield every reason that it has against a VM on a host."""
        if occasion not in self.occasions:
            return
        answer = self.judge(AdmissionCase(self, vm, host, situation, occasion))
        if isinstance(answer, Reason):
            yield answer
        elif answer is not None:
            yield from answer


requirement = Requirement


def gb(mb: float) -> str:
    """Return MB as GB, with as many digits as matter."""
    return f"{mb / 1024:,.0f} GB" if mb >= 10 * 1024 else f"{mb / 1024:.1f} GB"
