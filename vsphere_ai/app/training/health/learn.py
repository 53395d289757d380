"""Profiles learned from one good VM, or from a set of them without those that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from vsphere_ai.app.events import Emit, Status, ignore
from vsphere_ai.app.training.health.checked import HealthRequest
from vsphere_ai.app.training.health.read import read_health
from vsphere_ai.benchmarks.statistics import norm
from vsphere_ai.errors import UsageError
from vsphere_ai.health.checks import ObservedVm, judge
from vsphere_ai.health.finding import VmFinding, sentence
from vsphere_ai.health.profile import MEASURES, HealthProfile, HealthyNumber, Learned, learned, measured
from vsphere_ai.model.names.name_ranges import listed

EXACT = ("gpus", "gpu_name", "driver", "cuda", "packages", "rails", "mtu", "policy_routes", "roce_v2")
"""What healthy VMs have in common; of these values the usual ones are learned."""


def learn_profile(request: HealthRequest, emit: Emit = ignore) -> Learned:
    """Return the profile of VMs that are known to be good, without those that fail a check or differ from most.

    `UsageError` where no VM is left, or where no value is that of more than half of them.
    """
    read = read_health(request.nodes, emit)
    emit(Status(""))
    return of_observed(read.observed)


def of_observed(observed: Sequence[ObservedVm]) -> Learned:
    """Return the profile of VMs as they were seen, see `learn_profile`."""
    bad = {o.node.vm: f for o in observed if (f := _problem(o))}
    good = {o.node.vm: o for o in observed if o.node.vm not in bad}
    if not good:
        first = next(iter(bad.values()))
        raise UsageError(sentence(first), "learn from VMs that are well", rule="health.learn")
    own = {vm: learned(o.node, o.guest) for vm, o in good.items()}
    usual = {name: _usual(name, {vm: getattr(p, name) for vm, p in own.items()}) for name in EXACT}
    left_out = {vm: sentence(f) for vm, f in bad.items()}
    for vm, profile in own.items():
        other = [name for name in EXACT if getattr(profile, name) != usual[name]]
        if other:
            left_out[vm] = f"{vm}: {', '.join(other)} differ from the other VMs"
    like = [o for vm, o in good.items() if vm not in left_out]
    if not like:
        raise UsageError(f"no two of these are alike: {listed(good)}", "learn from one VM", rule="health.learn")
    forms = dict.fromkeys(form for o in like for form in own[o.node.vm].kernel_log)
    profile = HealthProfile.model_validate({**usual, "kernel_log": tuple(forms), "numbers": _numbers(like)})
    return Learned(profile, tuple(o.node.vm for o in like), left_out)


def _problem(observed: ObservedVm) -> VmFinding | None:
    found = judge(observed, HealthProfile()).findings
    return next((f for f in found if f.verdict in ("unknown", "fail")), None)


def _usual(name: str, values: Mapping[str, object]) -> object:
    """Return the value that more than half of the VMs have."""
    texts = Counter(repr(value) for value in values.values())
    text, count = texts.most_common(1)[0]
    if 2 * count <= len(values):
        said = "; ".join(f"{vm}: {value}" for vm, value in list(values.items())[:4])
        raise UsageError(f"the VMs differ in {name}: {said}", "learn from one VM", rule="health.learn")
    return next(value for value in values.values() if repr(value) == text)


def _numbers(observed: Iterable[ObservedVm]) -> dict[str, HealthyNumber]:
    """Return mean and spread of each number, without outliers."""
    values: dict[str, list[float]] = {}
    for each in observed:
        for name, found in measured(each.node, each.guest, each.owned).items():
            values.setdefault(name, []).extend(value for _, value in found)
    found_norms = {name: norm(values[name], MEASURES[name].share) for name in MEASURES if name in values}
    return {
        name: HealthyNumber(typical=round(n.mean, 3), spread=round(n.sigma, 3), vms=n.count)
        for name, n in found_norms.items()
        if n is not None
    }
