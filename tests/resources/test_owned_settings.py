"""Advanced settings that kinds write belong to them: what they declare is what they write, and no play names it.

That they write nothing else is asserted wherever a test plans (`support.judging`).
"""

from __future__ import annotations

import pytest
from support.estates import ESX1, estate, vm
from support.judging import judge, undeclared
from support.machines import machine, tuned

from vsphere_ai.gpu.vgpus.window import MMIO_KEY, MMIO_SIZE_KEY
from vsphere_ai.guests.cloud_init import METADATA, USERDATA
from vsphere_ai.guests.image import KEY as IMAGE
from vsphere_ai.guests.ready import READY
from vsphere_ai.model.steps import Reconfigure
from vsphere_ai.model.vm_sets import DISKS, PREFIX, MemberMark
from vsphere_ai.resources import kinds
from vsphere_ai.resources.gpudirect import P2P_KEYS
from vsphere_ai.resources.tuning import Tuning
from vsphere_ai.resources.tuning.owned import OF_SPEC, owner_of

VM = vm(1)
MARK = MemberMark(set="a", index=1, uuid="u", playbook="p", generation=1, nics=())
OF_SETS = (METADATA, f"{METADATA}.encoding", USERDATA, f"{USERDATA}.encoding", READY, DISKS, IMAGE, *MARK.settings())
OF_GPUS = (MMIO_KEY, MMIO_SIZE_KEY, *P2P_KEYS, "pciPassthru0.cfg.enable_uvm", "pciPassthru15.cfg.enable_profiling")
IN_VMX = (
    "numvcpus", "cpuid.coresPerSocket", "memSize", "sched.cpu.min", "sched.cpu.max", "sched.cpu.shares",
    "sched.mem.min", "sched.mem.minSize", "sched.mem.max", "sched.mem.pin",
    "sched.cpu.latencySensitivity", "sched.cpu.affinity",
    "virtualHW.version", "firmware", "uefi.secureBoot.enabled", "displayName", "guestOS", "vc.uuid", "uuid.bios",
    "ethernet0.address", "ethernet12.networkName", "ethernet0.dvs.portId", "scsi0:1.fileName", "nvme0.present",
    "numa.nodeAffinity", "deviceGroups0.name",
)  # fmt: skip
FREE = (
    "svga.present", "disk.EnableUUID", "sched.cpu.halt", "numa.vcpu.preferHT", "monitor_control.halt_desched",
    "ethernet0.coalescingScheme", "ethernet3.ctxPerDev", "isolation.tools.copy.disable", "vmx.allowNested",
    "numa.autosize.vcpu.maxPerVirtualNode", "passthrough.x", "vsphere-air.x", "firmware.x",
)  # fmt: skip


def refused(key, value="1"):
    return judge(Tuning(extra_config={key: value}), VM, estate(machine(ESX1), tuned(VM, ESX1))).problems


@pytest.mark.parametrize("spelt", [str, str.lower, str.upper, str.swapcase], ids=["as written", "low", "up", "swapped"])
@pytest.mark.parametrize("key", [*OF_SETS, *OF_GPUS, *IN_VMX])
def test_a_setting_of_a_kind_or_a_property_is_set_by_no_name(key, spelt):
    problems = refused(spelt(key))
    assert set(problems) in ({"tuning.owned"}, {"tuning.secret"})
    (problem,) = problems.values()
    assert spelt(key) in problem.message
    assert problem.remedy
    assert owner_of(f" {spelt(key)} ")
    assert set(refused(spelt(key), "")) == set(problems), "nor is it removed"


@pytest.mark.parametrize("key", FREE)
def test_settings_that_nothing_else_sets_are_free(key):
    assert refused(key) == {}


def test_every_setting_that_a_kind_declares_is_refused():
    for kind in kinds().values():
        for pattern, words in kind.traits.vm_settings.items():
            assert words
            assert refused(pattern.replace("*", "0.x")), f"{kind.kind}: {pattern}"


def test_a_kind_that_sets_advanced_settings_declares_them():
    for kind in kinds().values():
        sets = any(duty.extra_config for duty in kind.traits.duties)
        assert not sets or kind.traits.vm_settings, kind.kind
    assert f"{PREFIX}*" in kinds()["vm_set"].traits.vm_settings


def test_what_is_written_without_being_declared_is_found():
    def step(kind, **more):
        return Reconfigure(target=VM, kinds=(kind,), summary="", **more)

    assert undeclared([step("vgpu", extra_config=(("svga.present", "1"),))]) == ["svga.present"]
    assert undeclared([step("adapters", extra_config=((MMIO_KEY, "TRUE"),))]) == [MMIO_KEY]
    assert undeclared([step("vgpu", extra_config=((MMIO_KEY.upper(), "TRUE"),), spec={"firmware": "efi"})]) == []
    assert undeclared([step("hardware", spec={"ftInfo": {}})]) == ["ftInfo"]
    assert {"numCPUs", "firmware", "memoryMB"} <= set(OF_SPEC)
