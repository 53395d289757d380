"""Network adapters before VMware's own simulator: what the kind sends is taken, read back, and desired."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.judging import judge

from vsphere_ai.connect.vcenter import VCenter
from vsphere_ai.execution.actions.configure import config_spec
from vsphere_ai.fabric.dvs import SWITCHES
from vsphere_ai.fabric.nioc import ENABLED
from vsphere_ai.language.playbooks.play import Power
from vsphere_ai.model.steps import Reconfigure
from vsphere_ai.planning.scheduling.windows import vm_window
from vsphere_ai.reading.collector import CollectorRequest, Depth, collect
from vsphere_ai.resources._helpers.network_adapter import NetworkAdapter
from vsphere_ai.resources.adapters import Adapters

pytestmark = pytest.mark.vcsim


@pytest.fixture
def vcenter(vcsim, limits):
    with VCenter.connect(vcsim.endpoint(), limits=limits) as connected:
        yield connected


def read(vcenter):
    """The estate, and the target of one VM, which stays the same."""

    def choose(estate):
        return Depth(frozenset(h.ref for h in estate.hosts), frozenset(v.ref for v in estate.vms))

    estate = collect(vcenter, None, CollectorRequest(paths=Adapters.traits.properties, choose=choose))
    return estate, min(estate.vms)


def with_nioc(estate):
    """The estate with Network I/O Control on, which this simulator cannot have; it keeps what adapters have of it."""
    on = {f.ref: replace(f, properties={**f.properties, ENABLED: True}) for f in estate.of_type(*SWITCHES)}
    return replace(estate, objects={**estate.objects, **on})


def carry_out(vcenter, *entries, exclusive=None, seen=lambda estate: estate):
    """Plan and send; return the device changes, which are none when all is in the desired state."""
    estate, vm = read(vcenter)
    estate = seen(estate)
    state = Adapters(adapters=tuple(NetworkAdapter(**e) for e in entries), exclusive=exclusive)
    judged = judge(state, vm, estate)
    assert not judged.problems
    _, follow = vm_window(vm, judged.steps, Power(), switch="stay")
    sent = [step for step in follow if isinstance(step, Reconfigure)]
    for step in sent:
        vcenter.run_task(vm.ref, "ReconfigVM_Task", {"spec": config_spec(step, None)}, timeout=20)
    return [(c["operation"], c["device"]["_typeName"]) for step in sent for c in step.device_changes]


def cards(vcenter):
    estate, vm = read(vcenter)
    return [d for d in estate[vm.ref].get("config.hardware.device") if "macAddress" in d]


def test_adapters_are_added_edited_and_removed(vcenter):
    estate, _ = read(vcenter)
    group = next(f.name for f in estate.of_type("DistributedVirtualPortgroup") if "Uplinks" not in f.name)
    before = cards(vcenter)
    entries = (
        {"type": "vmxnet3", "port_group": group},
        {"type": "vmxnet3", "port_group": group, "mac": "00:50:56:01:02:03"},
        {"type": "e1000e", "port_group": "VM Network", "connected": False},
    )
    added = carry_out(vcenter, *entries)
    assert [operation for operation, _ in added] == ["add"] * len(added)
    assert carry_out(vcenter, *entries) == []
    assert carry_out(vcenter, *reversed(entries)) == []
    after = cards(vcenter)
    assert [d["macAddress"] for d in after][: len(before)] == [d["macAddress"] for d in before]
    assert [d for d in after if d["macAddress"] == "00:50:56:01:02:03"]
    connected = (*entries[:2], {**entries[2], "connected": True})
    assert carry_out(vcenter, *connected) == [("edit", "VirtualE1000e")]
    assert carry_out(vcenter, *connected) == []
    removed = carry_out(vcenter, connected[2], exclusive=True)
    assert sorted(removed) == sorted(("remove", d["_typeName"]) for d in after if d["_typeName"] != "VirtualE1000e")
    assert [d["_typeName"] for d in cards(vcenter)] == ["VirtualE1000e"]


def test_bandwidth_of_an_adapter_is_kept(vcenter):
    estate, _ = read(vcenter)
    group = next(f.name for f in estate.of_type("DistributedVirtualPortgroup") if "Uplinks" not in f.name)
    entry = {"port_group": group, "shares": 60, "limit": 4000}
    carry_out(vcenter, {"port_group": group}, exclusive=True)
    assert carry_out(vcenter, entry, seen=with_nioc) == [("edit", "VirtualVmxnet3")]
    (card,) = cards(vcenter)
    given = card["resourceAllocation"]
    assert (given["share"]["shares"], given["share"]["level"], given["limit"]) == (60, "custom", 4000)
    assert carry_out(vcenter, entry, seen=with_nioc) == []
    back = {"port_group": group, "shares": "normal", "limit": "unlimited"}
    assert carry_out(vcenter, back, seen=with_nioc) == [("edit", "VirtualVmxnet3")]
    assert carry_out(vcenter, {"port_group": group}) == []
