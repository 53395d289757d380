"""What nvidia-smi listed of a host, put together by PCI address; and which devices are GPUs at all."""

import pytest
from support.estates import A100, ESX1, ON, PCI, estate, gpu_info, guest, host, pci_device, smi, vm
from support.raising import refused

from vsphere_ai.gpu.catalog import board_of_device
from vsphere_ai.gpu.devices import boards_of, nvidia_gpus
from vsphere_ai.gpu.mig.search import Instance
from vsphere_ai.gpu.smi import live
from vsphere_ai.gpu.smi.listings import UnreadableOutput
from vsphere_ai.model.facts import CommandOutput, Facts, ProbeFailure

FIRST, SECOND = PCI
BOTH_ON = dict.fromkeys(PCI, ON)
CUT = [(0, "3g.20gb", 9, 2, "4:4"), (1, "1g.5gb", 19, 7, "0:1"), (0, "1g.5gb", 19, 8, "1:1")]


def test_instances_by_gpu_and_start():
    seen = live.live(host(ESX1, probes=smi(BOTH_ON, CUT)))
    assert seen.instances[FIRST] == [Instance("1g.5gb", 1, 8), Instance("3g.20gb", 4, 2)]
    assert seen.instances[SECOND] == [Instance("1g.5gb", 0, 7)]
    assert seen.compute == {(FIRST, 2): [0], (SECOND, 7): [0], (FIRST, 8): [0]}
    assert (seen.driver_major(FIRST), seen.driver_major("0000:01:00.0")) == (535, None)


@pytest.mark.parametrize("probe", [live.INSTANCES, live.COMPUTE])
def test_an_instance_of_a_gpu_nobody_lists_is_no_guess(probe):
    probes = smi(BOTH_ON, CUT)
    probes[probe.name] = CommandOutput(0, probes[probe.name].stdout.replace("|  1  ", "|  5  "))
    with refused(UnreadableOutput, "host.unhealthy", "GPU 5"):
        live.live(host(ESX1, probes=probes))
    assert live.readable(host(ESX1, probes=probes)).gpus == ()


@pytest.mark.parametrize("probe", live.STATE)
def test_without_an_answer_nothing_is_known(probe):
    failed = {**smi(BOTH_ON), probe.name: ProbeFailure("ssh.denied", "no")}
    assert live.live(host(ESX1, probes=failed)) is None
    assert live.readable(host(ESX1, probes=failed)).gpus == ()
    assert live.live(Facts("HostSystem:host-9")) is None


def test_the_listings_of_profiles_are_not_needed_for_the_state():
    failed = {**smi(BOTH_ON), live.PROFILES.name: ProbeFailure("ssh.denied", "no")}
    assert len(live.live(host(ESX1, probes=failed)).gpus) == 2


def test_instances_of_a_gpu_with_running_vms_are_in_use_by_them():
    info = (gpu_info(FIRST, vms=[vm(2).ref, vm(1).ref, "VirtualMachine:vm-99"]), gpu_info(SECOND))
    facts = host(ESX1, probes=smi(BOTH_ON, CUT), config__graphicsInfo=info)
    around = estate(facts, guest(vm(1), ESX1), guest(vm(2), ESX1))
    assert live.busy(facts) == {FIRST}
    assert live.users(facts, around) == {FIRST: "VirtualMachine:vm-99, train-01, train-02"}
    used = {(i.profile_name, i.in_use, i.used_by) for i in live.present(facts, around, FIRST)}
    assert used == {(n, True, "VirtualMachine:vm-99, train-01, train-02") for n in ("1g.5gb", "3g.20gb")}
    assert [(i.in_use, i.used_by) for i in live.present(facts, around, SECOND)] == [(False, "")]


def test_which_devices_are_gpus():
    devices = (
        pci_device(SECOND, A100),
        pci_device(FIRST, 0x7777),
        {**pci_device("0000:3b:00.4", A100), "subDeviceId": 0},  # a virtual function
        {**pci_device("0000:3c:00.0", A100), "classId": 0x0680},  # an NVSwitch
        {**pci_device("0000:18:00.0", A100), "vendorId": 0x8086},
        {**pci_device("0000:87:00.0", A100 - 0x10000), "vendorId": 0x10DE - 0x10000, "classId": 0x0300},
    )
    table = board_of_device(A100)
    assert boards_of(Facts("HostSystem:h", {"hardware.pciDevice": devices})) == {
        FIRST: None,
        SECOND: table,
        "0000:87:00.0": table,
    }
    assert list(boards_of(Facts("HostSystem:h", {"hardware.pciDevice": devices}))) == [FIRST, SECOND, "0000:87:00.0"]


@pytest.mark.parametrize(
    ("probes", "why"),
    [
        (smi(dict.fromkeys(PCI, ON)), ""),
        ({}, "esx01 was not asked over SSH"),
        ({live.GPUS.name: ProbeFailure("ssh.stopped", "SSH is stopped")}, "SSH is stopped"),
        ({**smi(dict.fromkeys(PCI, ON)), live.GPUS.name: CommandOutput(0, "something\nnew")}, "something / new"),
    ],
)
def test_why_it_is_not_known_what_stands_there(probes, why):
    told = live.why_unread(host(ESX1, probes=probes))
    assert told.endswith(why)
    assert bool(told) == bool(why)


def test_graphics_devices_of_other_makers_are_no_gpus():
    bmc = {**gpu_info("0000:03:00.0"), "vendorName": "Matrox"}
    facts = Facts("HostSystem:h", {"config.graphicsInfo": (bmc, gpu_info(FIRST), {"pciId": "0000:04:00.0"})})
    assert [g["pciId"] for g in nvidia_gpus(facts)] == [FIRST]
