"""Moves to another host for a time: each host that does not take a VM is refused with its reason."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.crossovers import GPU, PASSED, VGPUS, WHOLE

from vsphere_ai.app import ApplyRequest, EstateRequest, apply
from vsphere_ai.app.estate.read_estate import read_with
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.compat.vgpu_vmotion import SERVICE, SWITCH
from vsphere_ai.model.steps import Measured, MoveAway, MoveBack, PowerOff, PowerOn
from vsphere_ai.model.view import View
from vsphere_ai.planning.moves.relocation import PATHS, Relocation, relocation, why_not_moved
from vsphere_ai.planning.observing import observe
from vsphere_ai.planning.relocation_plan import plan_of
from vsphere_ai.reading.collector import Depth
from vsphere_ai.resources import kinds

pytestmark = pytest.mark.lab
HOT = f"query:{SWITCH.name}"


def read(lab):
    with open_session(EstateRequest(inventory=lab.directory / "connection.yml")) as session:
        every = lambda e: Depth(frozenset(h.ref for h in e.hosts), frozenset(v.ref for v in e.vms))  # noqa: E731
        return read_with(session.reading_also(PATHS), every, lambda _: (SWITCH,))


@pytest.fixture(scope="module")
def estates(tmp_path_factory):
    """The two farms, as they were read: they are changed as values only."""
    from support.labs import started

    from vsphere_ai.lab.front import process

    found = {}
    for name, scenario in (("vgpus", VGPUS), ("whole", WHOLE)):
        folder = tmp_path_factory.mktemp(name)
        (folder / "scenario.yml").write_text(scenario, encoding="utf-8")
        lab = started(folder, folder / "scenario.yml")
        try:
            if name == "whole":
                (folder / "passed.yml").write_text(PASSED, encoding="utf-8")
                estate = EstateRequest(inventory=folder / "connection.yml")
                assert apply(ApplyRequest(folder / "passed.yml", estate, yes=True)).exit_code == 0
            found[name] = read(lab)
        finally:
            process.stop(folder)
    on = {"runtime.powerState": "poweredOn", "guest.toolsRunningStatus": "guestToolsRunning"}
    whole = found["whole"]
    found["whole"] = whole.with_objects([whole[v.ref].having(on) for v in whole.vms])
    return found


def at(estate, name):
    return next(t for t in (*estate.hosts, *estate.vms) if t.name in (name, f"{name}.lab.local"))


def changed(estate, name, **values):
    facts = estate[at(estate, name).ref]
    return estate.with_objects([facts.having({path.replace("_", "."): value for path, value in values.items()})])


def moved(estate, vm="trn-02", to="esx05", *, live=True, leaving=()):
    refs = [at(estate, name).ref for name in leaving]
    view = View(estate, observe(estate, kinds()))
    return relocation(view, at(estate, vm), at(estate, to), live=live, leaving=refs)


def ruled(estate, kind, **more):
    """Give the cluster one DRS rule."""
    cluster = estate.cluster_of(at(estate, "esx01").ref)
    groups = [
        {"_typeName": "ClusterVmGroup", "name": "v", "vm": (at(estate, "trn-02").ref,)},
        {"_typeName": "ClusterHostGroup", "name": "h", "host": (at(estate, "esx05").ref,)},
    ]
    rule = {"_typeName": kind, "name": "mine", "enabled": True, **more}
    config = {**cluster.get("configurationEx"), "rule": (rule,), "group": tuple(groups)}
    return estate.with_objects([cluster.having({"configurationEx": config})])


def test_a_free_host_takes_a_running_vm_with_a_vgpu(estates):
    found = moved(estates["vgpus"])
    assert isinstance(found, Relocation)
    assert (found.live, found.gpus, found.devices) == (True, (GPU,), ())
    steps = [type(p.step) for p in plan_of(estates["vgpus"], "x", [found]).steps]
    assert steps == [MoveAway, Measured, MoveBack]


def test_hosts_are_refused_with_their_reason(estates):
    estate = estates["vgpus"]
    first = at(estate, "trn-03").ref
    apart = ruled(estate, "ClusterAntiAffinityRuleSpec", vm=(at(estate, "trn-02").ref, first))
    cases = [
        (estate, "esx02", "it is on that host"),
        (estate, "esx03", "no free place for grid_a100-40c"),
        (changed(estate, "esx05", runtime_inMaintenanceMode=True), "esx05", "in maintenance mode"),
        (changed(estate, "esx05", runtime_connectionState="notResponding"), "esx05", "not"),
        (changed(estate, "esx05", network=()), "esx05", "does not have the network"),
        (changed(estate, "esx05", datastore=()), "esx05", "does not reach the datastore"),
        (changed(estate, "esx05", parent="ClusterComputeResource:other"), "esx05", "another cluster"),
        (changed(estate, "esx05", software=()), "esx05", "NVIDIA host driver of branch unknown"),
        (ruled(estate, "ClusterVmHostRuleInfo", vmGroupName="v", antiAffineHostGroupName="h"), "esx05", "'mine'"),
        (ruled(estate, "ClusterAffinityRuleSpec", vm=(at(estate, "trn-02").ref, first)), "esx05", "'mine'"),
    ]
    for seen, host, why in cases:
        found = moved(seen, to=host)
        assert isinstance(found, str), (host, why)
        assert why in found, (host, why, found)
    assert "'mine'" in moved(apart, to="esx03", live=False)
    assert isinstance(moved(apart, to="esx03", live=False, leaving=["trn-03"]), Relocation)


def test_vms_are_refused_with_their_reason(estates):
    estate, whole = estates["vgpus"], estates["whole"]
    vm = at(estate, "trn-02")
    assert why_not_moved(estate, vm, live=True) == ""
    assert why_not_moved(estate, vm, live=False) == ""
    service = estate[SERVICE]
    cold = estate.with_objects([replace(service, properties={**service.properties, HOT: ()})])
    assert "vgpu.hotmigrate.enabled" in why_not_moved(cold, vm, live=True)
    assert why_not_moved(cold, vm, live=False) == ""
    off = changed(estate, "trn-02", runtime_powerState="poweredOff")
    assert why_not_moved(off, vm, live=False) == "it does not run"
    held = changed(estate, "trn-02", disabledMethod=("MigrateVM_Task",))
    assert "MigrateVM_Task" in why_not_moved(held, vm, live=True)
    silent = changed(estate, "trn-02", guest_toolsRunningStatus="guestToolsNotRunning")
    assert "VMware Tools" in why_not_moved(silent, vm, live=False)
    assert why_not_moved(silent, vm, live=True) == ""
    assert "passthrough device" in why_not_moved(whole, at(whole, "trn-02"), live=True)


def test_a_fixed_device_gets_the_address_of_a_free_one_there(estates):
    estate = estates["whole"]
    found = moved(estate, live=False)
    assert isinstance(found, Relocation)
    (there,), (back,) = found.devices, found.back
    assert there["device"]["backing"]["id"] == "0000:86:00.0"
    assert back["device"]["backing"]["id"] == GPU
    assert back["device"]["key"] == there["device"]["key"]
    steps = [type(p.step) for p in plan_of(estate, "x", [found]).steps]
    assert steps[:3] == [PowerOff, MoveAway, PowerOn]
    assert steps[4:] == [PowerOff, MoveBack, PowerOn]
    assert "has no free" in moved(estate, to="esx03", live=False)
    assert isinstance(moved(estate, to="esx03", live=False, leaving=["trn-03"]), Relocation)
    assert "has no free device" in moved(estate, vm="trn-04", to="esx03", live=False)
    assert moved(estate, vm="trn-04", live=False).devices == ()


def test_an_sriov_adapter_needs_a_free_virtual_function_there(estates):
    estate = estates["whole"]
    devices = estate[at(estate, "trn-03").ref].get("config.hardware.device")
    only = tuple(d for d in devices if d["_typeName"] != "VirtualPCIPassthrough")
    bare = estate.with_objects([estate[at(estate, "trn-03").ref].having({"config.hardware.device": only})])
    assert "SR-IOV" in why_not_moved(bare, at(bare, "trn-03"), live=True)
    assert isinstance(moved(estate, vm="trn-03", live=False), Relocation)
    infos = estate[at(estate, "esx05").ref].get("config.pciPassthruInfo")
    less = tuple({**i, "numVirtualFunction": 0} if i.get("sriovActive") else i for i in infos)
    without = estate.with_objects([estate[at(estate, "esx05").ref].having({"config.pciPassthruInfo": less})])
    for vm in ("trn-02", "trn-03"):  # the one takes a function of any NIC, the other one names a NIC
        assert moved(without, vm=vm, live=False).startswith("no virtual function is free for dvpg-rdma: vmnic4")
