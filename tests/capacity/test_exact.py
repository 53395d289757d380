"""Nearly full estates, planted and then made a little larger: verdicts are certain."""

from __future__ import annotations

from itertools import product

import pytest
from support.capacity_estates import estate

from vsphere_ai.capacity import spare_hosts
from vsphere_ai.capacity.host import HostGpus
from vsphere_ai.capacity.solve import solve
from vsphere_ai.capacity.verdict import Fit, NoFit


def confirmed(farm, demands, answer):
    """Power the VMs on as a fit says, each getting exactly what it says."""
    wanted = {d.name: d for d in demands}
    assert sorted(answer.assignment) == sorted(d.name for d in demands if d.running_on is None)
    for name, slots in farm.hosts.items():
        here = {vm: given for vm, (host, given) in answer.assignment.items() if host == name}
        spread = HostGpus(slots, "performance").run(here, {vm: tuple(g.profile for g in here[vm]) for vm in here})
        assert spread == here
    for vm, (host, given) in answer.assignment.items():
        assert host in wanted[vm].hosts
        assert sorted(g.profile for g in given) == sorted(wanted[vm].profiles)


def certain(farm, answer):
    """Every refusal, and every fit unless it depends on where vSphere puts vGPUs of several sizes."""
    return answer.exact or (isinstance(answer, Fit) and any(s.kind.mixed for s in farm.slots))


@pytest.mark.parametrize("seed", range(40))
def test_nearly_full_estates(seed):
    farm, demands = estate(seed, gpus=20)
    answer = solve(farm, demands)
    assert certain(farm, answer)
    if isinstance(answer, Fit):
        confirmed(farm, demands, answer)


@pytest.mark.parametrize(("seed", "spare"), list(product(range(20), (1, 2))))
def test_nearly_full_estates_with_spare_hosts(seed, spare):
    farm, demands = estate(seed, gpus=12, lost=spare)
    answer = solve(farm, demands, spare_hosts=spare)
    assert certain(farm, answer)
    if isinstance(answer, NoFit):
        return
    confirmed(farm, demands, answer)
    names = sorted(farm.hosts)
    losses = [frozenset(lost) for lost in product(names, repeat=spare)]
    assert spare_hosts.first_failure(farm, demands, answer, losses) is None
