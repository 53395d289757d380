"""Every property that the room of admission names is read: what is not, is never judged on a live vCenter."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from support.admission_farm import CLUSTER, HOST, MB, answer, farm, gb, vm

from vsphere_ai import admission
from vsphere_ai.admission.admit import every_requirement, properties
from vsphere_ai.admission.machine import PATHS, machine_of
from vsphere_ai.connect.wire.plain import declared_type, type_named
from vsphere_ai.lab import admission as lab
from vsphere_ai.model.facts import Facts

ROOM = Path(admission.__file__).parent
OWNERS = ("HostSystem", "VirtualMachine", "ClusterComputeResource", "DistributedVirtualPortgroup")
PATH = re.compile(
    r"(?:runtime|summary|config|capability|hardware|systemResources|configurationEx)(?:\.\w+)+|recentTask"
)
NAMED = sorted({
    node.value
    for path in ROOM.rglob("*.py")
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and PATH.fullmatch(node.value)
})  # fmt: skip


def read(path):
    """Whether a path, or what it is a part of, is read of a host, a VM or a cluster."""
    asked = {asked for name in OWNERS for asked in properties().get(name, ())}
    return any(path == each or path.startswith(f"{each}.") for each in asked)


def test_what_requirements_look_at_is_read():
    assert len(NAMED) > 25
    assert [path for path in NAMED if not read(path)] == []


def test_what_is_read_is_declared_by_the_api():
    """`declared_type` is ``object`` where a part of a path is of no declared type."""
    strange = [
        f"{name}.{path}"
        for name, paths in properties().items()
        for path in paths
        if declared_type(name, path) is object and path != "name"
    ]
    assert type_named("HostSystem") is not None
    assert strange == ["ClusterComputeResource.summary.admissionControlInfo"], "which only the summary of a cluster has"


def faults_of_the_lab():
    folder = Path(lab.__file__).parent / "requirements"
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute) and node.value.attr == "fault":
                yield node.attr


INSIDE = {"InvalidDatastore", "DeviceNotSupported", "RemoteDeviceNotSupported"}
"""Faults that are the cause within another one."""


def test_every_fault_that_the_lab_refuses_with_is_foreseen():
    foreseen = {fault for each in every_requirement() for fault in each.faults}
    assert {*faults_of_the_lab()} - INSIDE - foreseen == set()


TIERS = ({"type": "DRAM", "size": gb(256) * MB}, {"type": "NVMe", "size": gb(768) * MB})


UNREAD = ({"type": "DRAM", "size": None}, TIERS[1])


@pytest.mark.parametrize(
    ("tiers", "verdict"), [(TIERS, "no"), (TIERS[:1], "yes"), ((), "yes"), (None, "yes"), (UNREAD, "unknown")]
)
def test_memory_of_a_slower_tier_guarantees_nothing(tiers, verdict):
    """The size of the host has both tiers; 16 GB more than what runs are not there in DRAM."""
    assert answer(farm(**{"hardware.memoryTierInfo": tiers}), vm(reserved_mb=gb(16)))[0] == verdict


def test_a_vm_is_not_larger_than_its_host_runs():
    limits = {"capability.maxSupportedVmMemory": gb(8), "capability.maxSupportedVcpus": 2}
    told, faults, _ = answer(farm(**limits), vm())
    assert (told, faults) == ("no", {"MemorySizeNotSupported", "NumVirtualCpusNotSupported"})
    assert answer(farm(**dict.fromkeys(limits)), vm())[0] == "yes", "unset is no limit"


@pytest.mark.parametrize(("most", "verdict"), [(7, "no"), (8, "yes"), (None, "yes")])
def test_the_vcpus_of_all_vms_of_a_host_have_a_limit(most, verdict):
    told, faults, _ = answer(farm(**{"capability.maxHostSupportedVcpus": most}), vm())
    assert (told, faults) == (verdict, {"NumVirtualCpusExceedsLimit"} if verdict == "no" else set())


def test_drs_avoids_a_host_in_quarantine_mode():
    told, faults, rules = answer(farm(**{"runtime.inQuarantineMode": True}), vm())
    assert (told, faults, rules) == ("yes", set(), {"admission.host-state"})


@pytest.mark.parametrize(
    ("state", "verdict"), [("running", "no"), ("queued", "no"), ("error", "yes"), ("success", "yes")]
)
def test_a_host_takes_nothing_while_a_task_brings_it_into_maintenance_mode(state, verdict):
    task = Facts("Task:task-1", {"info.descriptionId": "HostSystem.enterMaintenanceMode", "info.state": state})
    other = Facts("Task:task-2", {"info.descriptionId": "HostSystem.refreshFirewall", "info.state": "running"})
    situation = farm(objects=(task, other), recentTask=("Task:task-1", "Task:task-2", "Task:gone"))
    for occasion in ("power_on", "vmotion", "clone"):
        assert answer(situation, vm(), occasion)[:2] == (verdict, {"InvalidHostState"} if verdict == "no" else set())


def test_cores_per_socket_that_are_chosen_at_power_on_refuse_nothing():
    facts = {"config.hardware.numCPU": 6, "config.hardware.numCoresPerSocket": 4, "config.hardware.memoryMB": 1024}
    chosen = machine_of(Facts("VirtualMachine:new", {**facts, "config.hardware.autoCoresPerSocket": True}))
    stated = machine_of(Facts("VirtualMachine:new", facts))
    assert (chosen.cores_per_socket, stated.cores_per_socket) == (None, 4)
    assert {*PATHS} >= {"config.hardware.autoCoresPerSocket", "config.hardware.simultaneousThreads"}
    assert farm().cluster(HOST).ref == CLUSTER
