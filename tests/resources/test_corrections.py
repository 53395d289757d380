"""Corrections of links: each is brought about by one kind, whose value a playbook accepts; those of a place are one."""

from __future__ import annotations

import pytest
from support.fabrics import DC, ESX1

from vsphere_ai.fabric.corrections import (
    HostForPvrdma,
    KernelAdapter,
    LosslessRoce,
    MachineNeeds,
    NewRdmaAdapter,
    NicPause,
    PortGroupUplinks,
    RdmaAdapterSettings,
    SwitchMtu,
    UplinkNics,
)
from vsphere_ai.gpu.corrections import SharedDirectGpus
from vsphere_ai.model.estate.correction import Correction
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
]  # fmt: skip


@pytest.mark.parametrize(("correction", "kind", "value"), LINES)
def test_a_kind_of_the_same_target_brings_it_about(correction, kind, value):
    assert line_for(correction) == (kind, value)
    cls = kinds()[kind]
    assert cls.target == correction.target.kind
    own = isinstance(value, dict) and set(value) <= set(cls.model_fields)
    fields = value if own else {cls.shorthand: value}
    cls.model_validate(fields)


def test_every_correction_has_a_line():
    assert {type(correction) for correction, _, _ in LINES} == set(Correction.__subclasses__())


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
