"""Corrections of links: each is brought about by one kind, whose value a playbook accepts; those of a place are one."""

from __future__ import annotations

import pytest
from support.fabrics import DC, ESX1

from vsphere_ai.fabric.corrections import (
    ForeignMacs,
    HostForPvrdma,
    KernelAdapter,
    LosslessRoce,
    MachineNeeds,
    NearFunction,
    NewRdmaAdapter,
    NicPause,
    PortGroupUplinks,
    RdmaAdapterSettings,
    SwitchMtu,
    UplinkNics,
    VirtualFunctions,
)
from vsphere_ai.gpu.corrections import DividedGpus, PeerToPeer, SharedDirectGpus, UnifiedMemory, VgpuProfiles
from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.estate.host_corrections import (
    AddressTranslation,
    HighPerformance,
    LockedDown,
    LogHosts,
    ServiceStopped,
    TimeServers,
)
from vsphere_ai.model.estate.vm_corrections import CpuSettings, SetOfVms
from vsphere_ai.model.state import Target
from vsphere_ai.resources import kinds
from vsphere_ai.resources.corrections import line_for, plays_of, text_of

VM = Target("vm", "train-01", "VirtualMachine:vm-1")
LINES = [
    (SwitchMtu(DC, "dvs", 9000), "switches", {"dvs": {"mtu": 9000}}),
    (PortGroupUplinks(DC, "rdma", ("up1",), ("up2",)), "port_groups",
     {"rdma": {"active_uplinks": ("up1",), "standby_uplinks": ("up2",)}}),
    (UplinkNics(ESX1, "dvs", {"up1": "vmnic4"}), "uplinks", {"dvs": {"up1": "vmnic4"}}),
    (KernelAdapter(ESX1, "rdma", 9000), "vmkernel", {"rdma": {"mtu": 9000}}),
    (HostForPvrdma(ESX1), "pvrdma_host", {"firewall": True}),
    (HostForPvrdma(ESX1, adapter="vmk2"), "pvrdma_host", {"vmknic": "vmk2", "firewall": True}),
    (NicPause(ESX1, "vmnic4", is_on=True), "nics", {"vmnic4": {"pause": {"rx": True, "tx": True}}}),
    (LosslessRoce(ESX1), "roce", {"pfc_priority": 3, "trust": "dscp", "dscp": 26}),
    (SharedDirectGpus(ESX1), "graphics", {"default_type": "shared_direct"}),
    (NewRdmaAdapter(VM, "rdma"), "pvrdma", ({"port_group": "rdma"},)),
    (RdmaAdapterSettings(VM, "rdma", protocol="rocev2"), "adapters",
     ({"type": "pvrdma", "port_group": "rdma", "protocol": "rocev2"},)),
    (MachineNeeds(VM, efi=True), "hardware", {"firmware": "efi"}),
    (MachineNeeds(VM, version=13, all_memory=True), "hardware", {"version": 13, "memory_reservation": "full"}),
    (KernelAdapter(ESX1, "move", for_vmotion=True), "vmkernel", {"move": {"services": ("vmotion",)}}),
    (NewRdmaAdapter(VM, "rdma", protocol="rocev2"), "pvrdma", ({"port_group": "rdma", "protocol": "rocev2"},)),
    (NearFunction(VM, "rdma"), "adapters",
     ({"type": "sriov", "port_group": "rdma", "physical_function": "auto"},)),
    (VirtualFunctions(ESX1, functions={"0000:3b:00.0": 8}), "sriov", {"0000:3b:00.0": 8}),
    (ForeignMacs(DC, "pods"), "port_groups",
     {"pods": {"security": {"forged_transmits": True}, "mac_learning": True}}),
    (DividedGpus(ESX1), "mig", {"mode": "enabled"}),
    (DividedGpus(ESX1, in_mig=False), "mig", {"mode": "disabled"}),
    (DividedGpus(ESX1, "0000:3b:00.0", layout=("3g.20gb:4",)), "mig",
     {"gpus": {"0000:3b:00.0": {"mode": "enabled", "layout": ("3g.20gb:4",)}}}),
    (VgpuProfiles(VM, profiles=("grid_a100-40c",)), "vgpu", ("grid_a100-40c",)),
    (UnifiedMemory(VM), "vgpu", {"uvm": False}),
    (PeerToPeer(VM), "gpudirect", True),
    (CpuSettings(VM, cpus=12, nodes=(0, 1)), "tuning", {"cpus": 12, "numa_affinity": (0, 1)}),
    (CpuSettings(VM, cores_per_socket=6, nodes="gpu"), "tuning", {"cores_per_socket": 6, "numa_affinity": "gpu"}),
    (CpuSettings(VM, is_reserved=True, low_latency=True), "tuning",
     {"cpu_reservation": "full", "latency_sensitivity": "high"}),
    (CpuSettings(VM, is_reserved=False), "tuning", {"cpu_reservation": "none"}),
    (TimeServers(ESX1, has_servers=True), "ntp", {"running": True, "policy": "on", "firewall": True}),
    (HighPerformance(ESX1), "power_policy", "high_performance"),
    (ServiceStopped(ESX1, "TSM-SSH"), "services", {"ssh": {"running": False, "policy": "off"}}),
    (AddressTranslation(ESX1), "kernel", {"ats_support": True}),
    (SetOfVms(VM, apart=True, datastore="SHARED", pool="POOL"), "vm_set",
     {"placement": {"anti_affinity": "should"}, "datastore": "SHARED", "resource_pool": "POOL"}),
    (SetOfVms(VM, port_group="rdma", fast_disk=True), "vm_set",
     {"nics": ({"name": "rdma0", "type": "pvrdma", "port_group": "rdma", "role": "rdma"},),
      "disks": ({"name": "scratch", "gb": 500, "controller": "nvme"},)}),
]  # fmt: skip


@pytest.mark.parametrize(("correction", "kind", "value"), LINES)
def test_a_kind_of_the_same_target_brings_it_about(correction, kind, value):
    assert line_for(correction) == (kind, value)
    cls = kinds()[kind]
    assert cls.target == correction.target.kind
    own = isinstance(value, dict) and set(value) <= set(cls.model_fields)
    fields = value if own else {cls.shorthand: value}
    cls.model_validate(fields)


@pytest.mark.parametrize(
    ("correction", "value"),
    [
        (TimeServers(ESX1),
         {"servers": ("CHOOSE A TIME SERVER",), "running": True, "policy": "on", "firewall": True}),
        (LogHosts(ESX1), {"hosts": ("CHOOSE A LOG HOST",), "firewall": True}),
        (LockedDown(ESX1), {"mode": "normal", "exception_users": ("CHOOSE AN EXCEPTION USER",)}),
    ],
)  # fmt: skip
def test_what_nobody_named_is_for_the_operator_to_choose(correction, value):
    line = line_for(correction)
    assert line.value == value
    with pytest.raises(ValueError, match="CHOOSE A"):
        kinds()[line.kind].model_validate(line.value)


def test_what_a_port_group_lets_pass_and_its_uplinks_are_one_entry():
    (line,) = plays_of([ForeignMacs(DC, "pods"), PortGroupUplinks(DC, "pods", ("up1",))])[DC].values()
    assert line == {"pods": {"security": {"forged_transmits": True}, "mac_learning": True, "active_uplinks": ("up1",)}}


def test_every_correction_has_a_line():
    assert {LogHosts, LockedDown, *(type(correction) for correction, _, _ in LINES)} == set(Correction.__subclasses__())


def test_one_that_no_kind_knows_is_named():
    with pytest.raises(LookupError, match="no resource type brings about a Correction"):
        line_for(Correction(ESX1))


def test_corrections_of_one_kind_are_one_line():
    nics = [NicPause(ESX1, name, is_on=True) for name in ("vmnic4", "vmnic5")]
    assert text_of(*nics) == "nics: {vmnic4: {pause: {rx: true, tx: true}}, vmnic5: {pause: {rx: true, tx: true}}}"


def test_plays_begin_with_what_hosts_share():
    plays = plays_of([NewRdmaAdapter(VM, "rdma"), HostForPvrdma(ESX1), SwitchMtu(DC, "dvs", 9000)])
    assert list(plays) == [DC, ESX1, VM]


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (SwitchMtu(DC, "dvs", 9000), SwitchMtu(DC, "dvs", 4000), SwitchMtu(DC, "dvs", 9000)),
        (KernelAdapter(ESX1, "a", 9000), KernelAdapter(ESX1, "a", for_pvrdma=True),
         KernelAdapter(ESX1, "a", 9000, for_pvrdma=True)),
        (KernelAdapter(ESX1, "a"), KernelAdapter(ESX1, "a", is_new=True), KernelAdapter(ESX1, "a", is_new=True)),
        (KernelAdapter(ESX1, "a", for_vmotion=True), KernelAdapter(ESX1, "a", 9000),
         KernelAdapter(ESX1, "a", 9000, for_vmotion=True)),
        (UplinkNics(ESX1, "dvs", {"1": "a"}), UplinkNics(ESX1, "dvs", {"2": "b"}),
         UplinkNics(ESX1, "dvs", {"1": "a", "2": "b"})),
        (PortGroupUplinks(DC, "a", ("1",)), PortGroupUplinks(DC, "a", standby=("2",)),
         PortGroupUplinks(DC, "a", ("1",), ("2",))),
        (MachineNeeds(VM, version=17), MachineNeeds(VM, version=13, all_memory=True),
         MachineNeeds(VM, version=17, all_memory=True)),
        (RdmaAdapterSettings(VM, "a", connected=True), RdmaAdapterSettings(VM, "a", protocol="rocev1"),
         RdmaAdapterSettings(VM, "a", connected=True, protocol="rocev1")),
    ],
)  # fmt: skip
def test_two_of_one_place_are_one(one, other, both):
    assert one.place == other.place
    assert one.merged(other) == both
