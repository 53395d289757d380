"""Facts of a certificate: each change of the farm is seen in the part it is of, and in no other."""

from datetime import UTC, datetime

import pytest

from vsphere_ai.compat import assessment
from vsphere_ai.compat.certified_facts import certified_facts, parts_of
from vsphere_ai.health.certificate import Certificate, Gate, changes_since
from vsphere_ai.model.nodes import Node, NodeGpu, Rail
from vsphere_ai.model.records.assessment import Records

ESX, ESX2 = "HostSystem:host-1", "HostSystem:host-2"
VM, VM2 = "VirtualMachine:vm-1", "VirtualMachine:vm-2"
GPU = "0000:3b:00.0"
SMI = "0, 0000{}, NVIDIA A100, {}, {}, {}, 40960, {}\n"


def nodes(first="esx01", vmnic="vmnic4"):
    gpu = (NodeGpu(0, host_pci=GPU),)
    return (
        Node("train-01", "10.0.0.1", ref=VM, host=first, gpus=gpu, rails=(Rail("rdma1", vmnic=vmnic, mtu=9000),)),
        Node("train-02", "10.0.0.2", ref=VM2, host="esx02", gpus=gpu),
    )


def facts(world, changes=None, chosen=None):
    objects = {
        ESX: {"config.powerSystemInfo": {"currentPolicy": {"shortName": "static"}}},
        ESX2: world.host_properties | {"name": "esx02"},
        VM: {"config.hardware.numCPU": 16, "config.hardware.memoryMB": 65536},
        VM2: world.vm_properties | {"name": "train-02", "runtime.host": ESX2},
    }
    for ref, properties in (changes or {}).items():
        objects[ref] = objects.get(ref, {}) | properties
    view = world.view(objects)
    farm = assessment.farm_of(view, Records(datetime.now(UTC).date()), frozenset())
    return certified_facts(farm, chosen or nodes())


def smi(uuid="GPU-1", mig="Disabled", driver="510.47.03"):
    return {"probe:nvidia-smi gpus": SMI.format(GPU, uuid, mig, mig, driver)}


NIC = {"key": "key-vmnic4", "device": "vmnic4", "driver": "nmlx5_core", "linkSpeed": {"speedMb": 100000}}
CHANGES = [
    ({ESX: {"config.product": {"version": "7.0.3", "build": "1"}}}, {"host:esx01"}),
    ({ESX: {"software": ()}}, {"host:esx01"}),
    ({ESX: {"config.powerSystemInfo": {"currentPolicy": {"shortName": "low"}}}}, {"host:esx01"}),
    ({ESX: {"config.network.pnic": (NIC,)}}, {"host:esx01"}),
    ({ESX: smi(uuid="GPU-2")}, {f"gpu:esx01/{GPU}"}),
    ({ESX: smi(mig="Enabled")}, {f"gpu:esx01/{GPU}"}),
    ({ESX: smi(driver="525.60.12")}, {f"gpu:esx01/{GPU}"}),
    ({ESX: {"probe:nvidia-smi gpus": "no devices"}}, {f"gpu:esx01/{GPU}"}),
    ({VM: {"config.hardware.numCPU": 8}}, {"vm:train-01"}),
    ({VM: {"config.hardware.memoryMB": 1024}}, {"vm:train-01"}),
    ({VM: {"config.version": "vmx-20"}}, {"vm:train-01"}),
    ({VM: {"config.latencySensitivity": {"level": "high"}}}, {"vm:train-01"}),
    ({VM: {"config.hardware.device": ()}}, {"vm:train-01"}),
]


def changed(world, changes=None, chosen=None):
    made = Certificate("vc", "train", "t", datetime.now(UTC), (Gate("assess"),), facts(world))
    return {c.part for c in changes_since(made, facts(world, changes, chosen))}


def test_a_farm_that_is_as_it_was_has_the_same_facts(world):
    assert changed(world) == set()
    assert set(facts(world)) == {
        "vm:train-01", "vm:train-02", "host:esx01", "host:esx02", f"gpu:esx01/{GPU}", f"gpu:esx02/{GPU}",
    }  # fmt: skip


@pytest.mark.parametrize(("changes", "parts"), CHANGES)
def test_a_change_is_one_of_its_own_part(world, changes, parts):
    assert changed(world, changes) == parts


@pytest.mark.parametrize("chosen", [nodes(first="esx09"), nodes(vmnic="vmnic5")])
def test_another_host_or_uplink_is_a_change_of_the_vm(world, chosen):
    assert changed(world, chosen=chosen) == {"vm:train-01"}


def test_a_measurement_rests_on_vm_host_and_gpus():
    assert parts_of(nodes()[0]) == ("vm:train-01", "host:esx01", f"gpu:esx01/{GPU}")
    assert parts_of(Node("bare", "10.0.0.9")) == ("vm:bare",)
    assert set(parts_of(nodes()[1])) <= {"vm:train-02", "host:esx02", f"gpu:esx02/{GPU}"}
