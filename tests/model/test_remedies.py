"""Remedies are true: no play for a host without a GPU, left out by --limit, or that does not respond."""

from __future__ import annotations

import pytest
from support.estates import ESX1, ESX2, estate, guest, host, view, vm, wants

from vsphere_ai.model.estate.host_version import hardware_limits
from vsphere_ai.model.estate.remedies import play_for, version_for
from vsphere_ai.planning.planner import PlanContext, make_plan
from vsphere_ai.resources import kinds
from vsphere_ai.resources.host_graphics import HostGraphics
from vsphere_ai.resources.mig import Mig
from vsphere_ai.resources.pci_devices import PassthroughDevice, PciDevices
from vsphere_ai.resources.remedies import leave_some_out, upgrade_for
from vsphere_ai.resources.vgpu import Vgpu
from vsphere_ai.resources.vm_hardware import VmHardware

PROFILE = "grid_a100-3-20c"
BARE = {"hardware__pciDevice": (), "config__graphicsInfo": ()}
READY = {"active": "sharedDirect", "config__sharedPassthruGpuTypes": (PROFILE,)}
GONE = {"runtime__connectionState": "notResponding"}


def help_of(of, wanted, left_out=(), rule="vgpu.profile"):
    plan = make_plan(wanted, of, kinds(), "test.yml", besides=PlanContext(left_out=frozenset(h.ref for h in left_out)))
    (problem,) = [p for p in plan.problems if p.rule == rule]
    return problem.remedy


WANTED = {vm(1): wants(Vgpu(profiles=(PROFILE,)))}


@pytest.mark.parametrize(
    ("first", "second", "left_out", "help_"),
    [
        ({}, BARE, (), "it lists no profiles: add graphics: {default_type: shared_direct} to a play for esx01"),
        (BARE, {}, (), "esx01 has no NVIDIA GPU: move train-01 to a host that has one: esx02"),
        (BARE, READY, (), "esx01 has no NVIDIA GPU: move train-01 to a host that offers it: esx02"),
        (BARE, BARE, (), "esx01 has no NVIDIA GPU: no other host of its cluster has one, either"),
        ({}, {}, (ESX1,), "it lists no profiles: --limit leaves out esx01, which the playbook has a play for: "
                          "include it, with graphics: {default_type: shared_direct}"),
        (GONE, {}, (), "it lists no profiles: reconnect esx01 first: vCenter reports it as notResponding"),
    ],
)  # fmt: skip
def test_what_would_make_a_host_offer_a_profile(first, second, left_out, help_):
    of = estate(host(ESX1, **first), host(ESX2, **second), guest(vm(1), ESX1))
    assert help_of(of, WANTED, left_out) == help_


def test_mig_is_not_added_where_the_play_has_it():
    direct = wants(HostGraphics(default_type="shared_direct"))
    of = estate(host(ESX1), guest(vm(1), ESX1))
    assert help_of(of, {**WANTED, ESX1: direct}).endswith("add mig: {mode: enabled} to a play for esx01")
    off = wants(HostGraphics(default_type="shared_direct"), Mig(mode="disabled"))
    assert help_of(of, {**WANTED, ESX1: off}).endswith(
        "change mig: in the play for esx01, or solve the problems it has there"
    )


@pytest.mark.parametrize(
    ("more", "help_"),
    [
        ({}, "esx01 has 2 of that model: 0000:3b:00.0, 0000:86:00.0; "
             "add passthrough: {0000:3b:00.0: true} to a play for esx01"),
        (BARE, "esx01 has 0 of that model"),
        ({"config__pciPassthruInfo": ({"id": "0000:3b:00.0", "passthruCapable": False},)},
         "esx01 has 2 of that model: 0000:3b:00.0, 0000:86:00.0; "
         "esx01 cannot pass 0000:3b:00.0 through: look at VT-d or AMD IOMMU in its BIOS"),
    ],
)  # fmt: skip
def test_passthrough_is_advised_only_for_a_device_that_is_there_and_can(more, help_):
    of = estate(host(ESX1, **more), guest(vm(1), ESX1, runtime__powerState="poweredOff"))
    wanted = {vm(1): wants(PciDevices(devices=(PassthroughDevice(vendor="10de", device="20f1"),)))}
    assert help_of(of, wanted, rule="pci_devices.not-passed") == help_


def test_a_play_that_is_there_is_not_added():
    seen = view(estate(host(ESX1)), stated={(ESX1.ref, "mig"): object()})
    assert play_for(ESX1, seen, "mig: {mode: enabled}").startswith("change mig: in the play for esx01")
    assert play_for(ESX1, seen, "graphics: {default_type: shared_direct}").startswith("add graphics:")


def product(version):
    shown = {"version": version, "build": "1"} if version else None
    return {"config__product": shown, "summary__config__product": shown}


@pytest.mark.parametrize(
    ("releases", "needed", "help_"),
    [
        (("7.0.2", "7.0.3"), 13, "add hardware: {version: 19} to the play"),
        (("7.0.2", "7.0.0"), 13, "add hardware: {version: 17} to the play"),
        (("8.0.2", "9.0.0"), 13, "add hardware: {version: 19} to the play"),
        (("8.0.2", "8.0.0"), 20, "add hardware: {version: 20} to the play"),
        (("8.0.2", "7.0.3"), 20, "hardware version 20 needs ESXi 8.0.0 or later on every host of the VM: "
                                 "esx02 runs ESXi 7.0.3"),
        (("9.0.0", "9.0.0"), 99, "hardware version 99 needs a release after ESXi 9.0.1 or later on every host of the "
                                 "VM: esx01, esx02 run ESXi 9.0.0"),
        (("7.0.2", ""), 13, "if esx02 runs ESXi 7.0.2 or later: add hardware: {version: 19} to the play"),
    ],
)  # fmt: skip
def test_a_hardware_version_is_advised_that_the_hosts_run(releases, needed, help_):
    hosts = [host(h, **product(r)) for h, r in zip((ESX1, ESX2), releases, strict=True)]
    seen = view(estate(*hosts, guest(vm(1), ESX1)))
    assert upgrade_for(vm(1), seen, needed) == help_


def test_a_version_that_is_stated_is_raised():
    seen = view(estate(host(ESX1), guest(vm(1), ESX1)), stated={(vm(1).ref, "hardware"): VmHardware(version=14)})
    assert upgrade_for(vm(1), seen, 15) == "write version: 19 under hardware: in the play for train-01"


@pytest.mark.parametrize(("release", "rises"), [("7.0.2", False), ("8.0.0", True), ("", False)])
def test_a_later_version_is_named_only_where_the_hosts_run_one(release, rises):
    seen = view(estate(host(ESX1, **product(release)), guest(vm(1), ESX1, config__version="vmx-19")))
    assert ("a later hardware version" in leave_some_out(vm(1), seen)) is rises


def test_too_old_hosts_have_no_version_to_advise():
    of = estate(host(ESX1, **product("7.0.1")), guest(vm(1), ESX1))
    assert [version_for(hardware_limits(of, (ESX1,))[0], n) for n in (13, 18, 19)] == [18, 18, None]
