"""The adapter for PVRDMA on another switch than the RDMA NIC: never called whole, and its fix is written."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from support.estates import ESX1, ESX2, SWITCH, estate, guest, host, vm
from support.fabrics import DC

from vsphere_ai.fabric.fixes import fixes_for
from vsphere_ai.fabric.pairs import pairs
from vsphere_ai.fabric.trace import trace
from vsphere_ai.model.facts import Facts
from vsphere_ai.report.network.trace_text import fixes_text
from vsphere_ai.resources.corrections import plays_of

ONE, TWO = vm(1), vm(2)
GROUP = "DistributedVirtualPortgroup:dvportgroup-1"
OPTION, VNICS, PROXY = "option:Net.PVRDMAVmknic", "config.network.vnic", "config.network.proxySwitch"
CARD = {"_typeName": "VirtualVmxnet3Vrdma", "key": 4001, "deviceProtocol": "rocev2",
        "connectable": {}, "deviceInfo": {"label": "Network adapter 2"},
        "backing": {"port": {"portgroupKey": "dvportgroup-1"}}}  # fmt: skip


def vnic(device, mtu, uuid="50 2b", key="dvportgroup-1"):
    return {"device": device, "spec": {"mtu": mtu, "distributedVirtualPort": {"switchUuid": uuid, "portgroupKey": key}}}


def world(*, management=1500, own=(9000,), mtu=9000, extra=()):
    """Two hosts with a VM each; on the first PVRDMA uses vmk0, which is on another switch."""
    around = estate().objects
    (proxy,) = host(ESX1).get(PROXY)
    opened = {"config.firewall.ruleset": ({"key": "pvrdma", "enabled": True},)}
    near = tuple(vnic(f"vmk{n}", m) for n, m in enumerate(own, 2))
    first = {**opened, OPTION: "vmk0", VNICS: (vnic("vmk0", management, "lan", "x"), *near),
             PROXY: (proxy, {"dvsUuid": "lan", "dvsName": "dvs-lan", "pnic": ("key-vmnic0",)}, *extra)}  # fmt: skip
    second = {**opened, OPTION: "vmk2", VNICS: (vnic("vmk2", mtu),)}
    machines = [Facts(t.ref, {**host(t).properties, **more}) for t, more in ((ESX1, first), (ESX2, second))]
    teaming = {"uplinkTeamingPolicy": {"uplinkPortOrder": {"activeUplinkPort": ("Uplink 1",)}}}
    group = Facts(GROUP, {**around[GROUP].properties, "config.defaultPortConfig": teaming, "parent": DC.ref})
    switch = Facts(SWITCH, {**around[SWITCH].properties, "config.maxMtu": mtu, "parent": DC.ref})
    vms = [guest(v, t, config__memoryReservationLockedToMax=True, config__hardware__device=(CARD,))
           for v, t in ((ONE, ESX1), (TWO, ESX2))]  # fmt: skip
    return estate(Facts(DC.ref, {"name": DC.name}), group, switch, *machines, *vms)


def seen(around):
    traces = [t for v in (ONE, TWO) for t in trace(around, v)]
    (pair,) = pairs(traces)
    links = {h.name: h for h in traces[0].links}
    plays = {t.name: k for t, k in plays_of(fixes_for(around, traces).corrections).items()}
    return SimpleNamespace(vmknic=links["PVRDMA vmknic"], mtu=links["MTU"], pair=pair, plays=plays, traces=traces)


def test_it_is_not_certain_and_fixed():
    around = world()
    found = seen(around)
    assert (found.vmknic.verdict, found.vmknic.finding.rule) == ("unknown", "host.pvrdma-vmknic")
    assert found.vmknic.seen == "vmk0 is on dvs-lan, not on dvs-rdma"
    assert (found.mtu.verdict, found.mtu.seen.partition(", ")[2][:29]) == ("unknown", "vmk0 1500 (not on dvs-rdma), ")
    assert (found.pair.use, found.pair.why.partition(":")[0]) == ("unknown", "RoCE or TCP, not certain")
    assert found.plays == {"esx01": {"vmkernel": {"dvpg-rdma": {"pvrdma": True}}}}
    assert "pvrdma: true" in fixes_text(around, found.traces)


@pytest.mark.parametrize("management", [1500, 9000])
def test_one_mtu_does_not_make_it_right(management):
    found = seen(world(management=management))
    assert f"vmk0 {management}" in found.mtu.seen
    assert found.mtu.verdict == ("unknown" if management == 1500 else "pass")
    assert found.pair.use == "unknown"


def test_the_adapter_that_takes_over_gets_the_mtu_of_its_switch():
    found = seen(world(own=(1500,)))
    assert found.plays == {"esx01": {"vmkernel": {"dvpg-rdma": {"pvrdma": True, "mtu": 9000}}}}


def test_without_an_adapter_there_an_address_has_to_be_chosen():
    found = seen(world(own=()))
    new = {"address": "CHOOSE AN ADDRESS", "pvrdma": True, "mtu": 9000}
    assert found.plays == {"esx01": {"vmkernel": {"dvpg-rdma": new}}}


def test_it_is_not_taken_off_another_switch_with_an_rdma_nic():
    around = world()
    facts = around[ESX1.ref]
    second = {"device": "vmrdma1", "backing": {"pairedUplink": "key-vmnic0"}}
    more = {"config.network.rdmaDevice": (*facts.get("config.network.rdmaDevice"), second)}
    objects = [f for f in around.objects.values() if f.ref != ESX1.ref]
    found = seen(estate(*objects, Facts(ESX1.ref, {**facts.properties, **more})))
    assert (found.vmknic.verdict, found.vmknic.fix) == ("unknown", None)
    assert found.plays == {}
