"""The tuning kind: what each field sets, what high latency sensitivity brings along, and keys of others."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from support.estates import ESX1, ESX2, estate, vgpu_device, view, vm
from support.judging import judge, plan_one
from support.machines import GPU_0, GPU_1, dynamic, fixed, keys, machine, tuned

from vsphere_ai.execution.actions import conflicts
from vsphere_ai.resources.tuning import Tuning
from vsphere_ai.resources.vm_hardware import VmHardware

ALONE = (
    "- vms: train-04\n  tuning: {cpus: 8, cores_per_socket: 4, latency_sensitivity: high,\n"
    "           extra_config: {svga.present: 'FALSE'}}\n"
)

VM = vm(1)
HIGH = {"config__latencySensitivity": {"_typeName": "LatencySensitivity", "level": "high"}}
FULL = {"config__cpuAllocation__reservation": 16 * 2600, "config__memoryReservationLockedToMax": True}


def around(*devices, passed=None, host=None, **of_vm):
    return estate(machine(ESX1, passed=passed, **(host or {})), tuned(VM, ESX1, *devices, **of_vm))


def asked(of=None, **wanted):
    return judge(Tuning(**wanted), VM, of or around())


# -- what changes


def test_as_wanted():
    of = around(**{**HIGH, **FULL}, config__extraConfig=keys(numa__nodeAffinity="1, 0", numa__x="true"))
    judged = asked(of, cpus=16, cores_per_socket=1, cpu_reservation="full", latency_sensitivity="high",
                   numa_affinity=[0, 1, 1], extra_config={"numa.x": True})  # fmt: skip
    assert (judged.steps, judged.problems) == ((), {})


def test_cpus_and_cores():
    judged = asked(cpus=32, cores_per_socket=16)
    assert judged.step.spec == {"numCPUs": 32, "numCoresPerSocket": 16}
    assert judged.step.needs_power_off


def test_cores_that_are_chosen_at_power_on_divide_any_number_of_cpus():
    """Since vSphere 8.0 `autoCoresPerSocket` leaves the number to vSphere; what is shown is of the last power-on."""
    stated = {"config__hardware__numCoresPerSocket": 8, "runtime__powerState": "poweredOff"}
    assert set(asked(around(**stated), cpus=12).problems) == {"tuning.cores"}
    chosen = asked(around(**stated, config__hardware__autoCoresPerSocket=True), cpus=12)
    assert (chosen.problems, chosen.step.spec) == ({}, {"numCPUs": 12})


def test_high_latency_sensitivity_brings_its_reservations_along():
    judged = asked(latency_sensitivity="high", cpus=20)
    assert judged.step.spec == {
        "numCPUs": 20,
        "cpuAllocation": {"_typeName": "ResourceAllocationInfo", "reservation": 52000},
        "latencySensitivity": {"_typeName": "LatencySensitivity", "level": "high"},
        "memoryReservationLockedToMax": True,
    }


def test_more_cpus_of_such_a_vm_need_a_larger_reservation():
    of = around(**HIGH, **FULL)
    assert asked(of, cpus=20).step.spec["cpuAllocation"]["reservation"] == 52000
    assert "cpuAllocation" not in asked(cpus=20).step.spec


def test_reservations_can_be_given_back():
    judged = asked(around(**FULL), cpu_reservation="none")
    assert judged.fields == {"cpu_reservation": ("full", "none")}
    assert judged.step.spec["cpuAllocation"]["reservation"] == 0
    partly = around(config__cpuAllocation__reservation=100)
    assert asked(partly, cpu_reservation="full").fields == {"cpu_reservation": ("100 MHz", "full")}


def test_advanced_settings():
    of = around(config__extraConfig=keys(a="1", b="TRUE", c="x"))
    judged = asked(of, extra_config={"a": 1, "b": True, "c": "", "d": "", "e": False})
    assert dict(judged.step.extra_config) == {"c": "", "e": "FALSE"}
    assert judged.fields == {"c": ("x", ""), "e": (None, "FALSE")}


def test_the_step_is_compared_with_what_was_planned():
    step = asked(latency_sensitivity="high", cpus=32, cores_per_socket=2).step
    assert {"config.hardware.numCPU", "config.hardware.numCoresPerSocket"} <= set(conflicts.paths(step))


# -- NUMA


@pytest.mark.parametrize(
    ("device", "node"),
    [(fixed(13000, GPU_0), 0), (fixed(13000, GPU_1), 1), (dynamic(13000, label="big"), 1)],
)
def test_affinity_to_the_node_of_the_gpu(device, node):
    of = around(device, passed={GPU_0: "", GPU_1: "big"})
    assert asked(of, numa_affinity="gpu").step.extra_config == (("numa.nodeAffinity", str(node)),)


@pytest.mark.parametrize("devices", [(), (vgpu_device(13000, "grid_a100-40c"),)])
def test_where_the_node_is_not_certain_it_is_asked_for(devices):
    judged = asked(around(*devices), numa_affinity="gpu")
    assert list(judged.problems) == ["tuning.gpu-node"]
    assert ("nodes 0, 1" in judged.problems["tuning.gpu-node"].message) == bool(devices)


def test_a_vgpu_on_a_host_with_all_gpus_at_one_node():
    of = around(vgpu_device(13000, "grid_a100-40c"), host={"numa": {0: (), 1: (GPU_0, GPU_1)}})
    assert asked(of, numa_affinity="gpu").step.extra_config == (("numa.nodeAffinity", "1"),)


def test_nodes_by_number_and_none():
    assert asked(numa_affinity=[1, 0]).step.extra_config == (("numa.nodeAffinity", "0,1"),)
    of = around(config__extraConfig=keys(numa__nodeAffinity="0"))
    assert asked(of, numa_affinity="off").step.extra_config == (("numa.nodeAffinity", ""),)
    assert asked(of, numa_affinity=0).steps == ()
    assert list(asked(numa_affinity=2).problems) == ["tuning.node"]


def test_affinity_is_a_matter_of_one_host():
    of = estate(machine(ESX1), machine(ESX2), tuned(VM, ESX1))
    assert any("other hosts" in note for note in asked(of, numa_affinity=0).notes)
    assert not asked(numa_affinity=0).notes


# -- what blocks it


def test_numbers_that_cannot_be():
    assert list(asked(cpus=10, cores_per_socket=4).problems) == ["tuning.cores"]
    assert list(asked(cores_per_socket=3).problems) == ["tuning.cores"]
    assert list(asked(cpus=256).problems) == []  # it is a matter of the host on which it powers on
    with pytest.raises(ValidationError):
        Tuning(cpus=0)


def test_reservations_that_contradict():
    assert list(asked(latency_sensitivity="high", cpu_reservation="none").problems) == ["tuning.latency"]
    both = plan_one(
        around(), VM, Tuning(latency_sensitivity="high"), VmHardware(cpu_reservation_mhz=5, memory_reservation=5)
    )
    assert {p.rule for p in both.problems} >= {"tuning.reservation", "tuning.memory"}
    unknown = around(host={"summary__hardware__cpuMhz": None})
    assert list(asked(unknown, cpu_reservation="full").problems) == ["tuning.clock-unknown"]


@pytest.mark.parametrize(
    ("key", "owner"),
    [
        ("pciPassthru.use64bitMMIO", "vgpu"),
        ("pciPassthru0.cfg.enable_uvm", "vgpu"),
        ("numa.nodeAffinity", "numa_affinity"),
        ("numvcpus", "cpus"),
        ("sched.mem.min", "hardware"),
        ("virtualHW.version", "hardware"),
    ],
)
def test_keys_that_belong_to_others(key, owner):
    found = asked(extra_config={key: "1"}).problems
    assert list(found) == ["tuning.owned"]
    assert owner in found["tuning.owned"].remedy


@pytest.mark.parametrize(
    "key", ["guestinfo.userdata", "GuestInfo.talos.config", "RemoteDisplay.vnc.password", "my_token"]
)
def test_a_key_that_may_hold_a_secret_is_neither_set_nor_shown(key):
    of = around(config__extraConfig=[*keys(svga__present="TRUE"), {"key": key, "value": "there-before"}])
    judged = asked(of, extra_config={key: "from-the-playbook"})
    assert list(judged.problems) == ["tuning.secret"]
    text = repr((judged, view(of).state(VM.ref, "tuning")))
    assert "there-before" not in text
    assert "svga.present" in text


# -- back into a playbook


def test_back_into_a_playbook():
    assert view(around()).state(VM.ref, "tuning").export(VM, view(around()), "playbook").state is None
    of = around(**{**HIGH, **FULL}, config__extraConfig=keys(numa__nodeAffinity="1", other="x"))
    stated = view(of).state(VM.ref, "tuning").export(VM, view(of), "playbook").state
    assert stated == Tuning.model_construct(
        cpus=16, cpu_reservation="full", latency_sensitivity="high", numa_affinity=(1,)
    )
    assert judge(Tuning(**stated.model_dump(exclude_none=True)), VM, of).steps == ()
