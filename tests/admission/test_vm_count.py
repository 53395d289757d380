"""The number of VMs that run on a host: what it supports, and what its licence allows."""

from __future__ import annotations

import pytest
from support.admission_farm import answer, farm, vm

from vsphere_ai.admission.requirements.vm_count import LICENSED, MOST


@pytest.mark.parametrize(
    ("most", "licensed", "verdict"),
    [(1, 9, "no"), (9, 1, "no"), (2, None, "yes"), (None, 2, "yes"), (None, None, "yes"), (0, 0, "yes")],
)
def test_one_vm_runs_there_already(most, licensed, verdict):
    told, faults, rules = answer(farm(**{MOST: most, LICENSED: licensed}), vm())
    assert (told, faults) == (verdict, {"VmLimitLicense"} if verdict == "no" else set())
    assert ("admission.vm-count" in rules) == (verdict == "no")


def test_a_vm_that_runs_there_is_counted_once():
    situation = farm(**{LICENSED: 1})
    (running,) = situation.on("HostSystem:h").values()
    assert "admission.vm-count" not in answer(situation, running, "power_cycle")[2]
