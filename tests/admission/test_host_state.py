"""The requirement `admission.host-state`: what keeps a host from taking VMs, partial maintenance included."""

from __future__ import annotations

import pytest
from support.admission_farm import answer, farm, vm

from vsphere_ai.admission.base import ARRIVES
from vsphere_ai.model.estate.maintenance import PARTIAL, QUICK_PATCH

RULE = "admission.host-state"


def mode(key, status="inPartialMM"):
    return {PARTIAL: ({"key": key, "hostStatus": status},)}


@pytest.mark.parametrize(
    ("shown", "verdict"),
    [
        ({}, "yes"),
        (mode(QUICK_PATCH), "no"),
        (mode(QUICK_PATCH, "enteringPartialMM"), "no"),
        (mode(QUICK_PATCH, "exitingPartialMM"), "no"),
        (mode(QUICK_PATCH, "notInPartialMM"), "yes"),
        (mode("nsxPartialMM"), "unknown"),
        (mode("a mode of a later release"), "unknown"),
        ({"runtime.inQuarantineMode": True}, "yes"),
        ({"runtime.inMaintenanceMode": True}, "no"),
        ({"runtime.powerState": "standBy"}, "no"),
    ],
)
@pytest.mark.parametrize("occasion", sorted(ARRIVES))
def test_a_host_takes_vms_only_while_nothing_is_done_to_it(shown, verdict, occasion):
    told, faults, rules = answer(farm(**shown), vm(), occasion)
    assert (told == "no", "InvalidHostState" in faults) == (verdict == "no", verdict == "no")
    assert (RULE in rules) == (verdict != "yes" or "runtime.inQuarantineMode" in shown)


def test_what_runs_there_may_be_changed_meanwhile():
    situation = farm(**mode(QUICK_PATCH))
    (running,) = situation.on("HostSystem:h").values()
    assert RULE not in answer(situation, running, "reconfigure")[2]
