"""What an unfinished run owes, laid over a world that has changed since: VMs that are off, renamed, or gone."""

from __future__ import annotations

import pytest
from support.estates import ESX1, vm

from vsphere_ai.language.playbooks.play import Play, Playbook
from vsphere_ai.model.facts import About, Estate, Facts
from vsphere_ai.model.records.pending import Pending
from vsphere_ai.model.state import Target
from vsphere_ai.planning.document import Approved
from vsphere_ai.planning.resume import gone, overlay_pending

VM, DEVICES = vm(1), "config.hardware.device"
PLUG = {"startConnected": True, "connected": False}


def estate(**names):
    facts = {VM.ref: Facts(VM.ref, {"name": names.get("vm", VM.name), "runtime.powerState": "poweredOff",
                                    DEVICES: ({"key": 4000, "connectable": PLUG}, {"key": 100})})}  # fmt: skip
    return Estate(About("", "", "", "", ""), facts)


def test_the_adapters_of_a_vm_that_was_switched_off_are_as_when_it_ran():
    laid = overlay_pending(estate(), [Pending("off", VM)]).estate[VM.ref]
    assert laid.get("runtime.powerState") == "poweredOn"
    assert laid.get(DEVICES) == (
        {"key": 4000, "connectable": {"startConnected": True, "connected": True}},
        {"key": 100},
    )
    untouched = overlay_pending(estate(), []).estate[VM.ref]
    assert untouched.get(DEVICES)[0]["connectable"] == PLUG


def test_what_is_owed_to_a_vm_is_planned_for_it_under_its_new_name():
    owed = overlay_pending(estate(vm="renamed"), [Pending("off", VM)])
    assert [(t.name, t.ref) for t in owed.extra] == [("renamed", VM.ref)]
    assert {s.target.name for steps in owed.extra.values() for s in steps} == {"renamed"}
    assert owed.true == (Pending("off", VM),), "as it is written down"


def test_what_was_approved_or_is_owed_and_is_not_there_is_gone():
    lost = Target("vm", "train-09", "VirtualMachine:vm-9")
    plays = (Play("", "vm", "all", (), targets=(VM, lost)), Play("", "vm", "all", ()))
    owing = [Pending("off", VM), Pending("maintenance", ESX1), Pending("lock", Target("datacenter", "vc", "x"))]
    assert gone(Playbook("", "", plays), owing, estate(vm="renamed"), Approved()) == (ESX1, lost)


BOOTED = "2026-05-01T10:00:00+00:00"


def host(**properties):
    return Estate(About("", "", "", "", ""), {ESX1.ref: Facts(ESX1.ref, {"name": ESX1.name, **properties})})


@pytest.mark.parametrize(
    ("boot", "owes"),
    [
        (BOOTED, True),
        ("2026-05-01T10:00:03.400000+00:00", True),  # computed from the uptime, it moves by seconds
        ("2026-05-01T09:59:58+00:00", True),
        ("2026-05-01T10:04:00+00:00", False),
    ],
)
def test_a_restart_is_owed_until_the_host_has_booted(boot, owes):
    pending = Pending("restart", ESX1, BOOTED)
    owed = overlay_pending(host(**{"runtime.bootTime": boot}), [pending])
    assert (owed.true, owed.unclear) == ((pending,) if owes else (), ())
    assert any(s.needs_reboot for steps in owed.extra.values() for s in steps) is owes


@pytest.mark.parametrize("pending", [Pending("restart", ESX1, BOOTED), Pending("ssh", ESX1)], ids=lambda d: d.kind)
def test_a_pending_action_of_a_host_that_cannot_be_read_is_kept(pending):
    owed = overlay_pending(host(), [pending])
    assert (owed.true, owed.unclear, owed.extra) == ((), (pending,), {})


def test_ssh_that_was_stopped_since_is_owed_no_more():
    stopped = ({"key": "TSM-SSH", "running": False},)
    owed = overlay_pending(host(**{"config.service.service": stopped}), [Pending("ssh", ESX1)])
    assert (owed.true, owed.unclear) == ((), ())


def test_a_boot_time_that_was_never_known_settles_nothing():
    pending = Pending("restart", ESX1)
    assert overlay_pending(host(**{"runtime.bootTime": BOOTED}), [pending]).unclear == (pending,)


def test_figures_of_a_cluster_without_the_host_that_comes_back_are_none_of_the_plan():
    """vSphere HA and pools show what they have while it is out of service."""
    shown = {
        ESX1.ref: {"name": ESX1.name, "parent": "ClusterComputeResource:c", "runtime.inMaintenanceMode": True},
        "ClusterComputeResource:c": {"name": "c", "summary.admissionControlInfo": {"currentFailoverLevel": 0}},
        "ClusterComputeResource:d": {"name": "d", "summary.admissionControlInfo": {"currentFailoverLevel": 0}},
        "ResourcePool:p": {"name": "p", "owner": "ClusterComputeResource:c", "runtime": {"memory": {}}},
        "ResourcePool:q": {"name": "q", "owner": "ClusterComputeResource:d", "runtime": {"memory": {}}},
    }
    found = Estate(About("", "", "", "", ""), {ref: Facts(ref, own) for ref, own in shown.items()})
    laid = overlay_pending(found, [Pending("maintenance", ESX1)]).estate
    assert laid["ClusterComputeResource:c"].get("summary.admissionControlInfo") is None
    assert laid["ResourcePool:p"].get("runtime") is None
    assert laid["ClusterComputeResource:d"].get("summary.admissionControlInfo") is not None
    assert laid["ResourcePool:q"].get("runtime") is not None
