"""Tracing RDMA: every broken link at once, its rule, its fix, and what two VMs use between them."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from click.testing import CliRunner
from support.estates import ESX1, ESX2, GROUP, SWITCH, estate, guest, host, vm
from support.fabrics import DC

from vsphere_ai.app.estate import trace_rdma
from vsphere_ai.cli.look import rdma
from vsphere_ai.compat import gate
from vsphere_ai.fabric.fixes import fixes_for
from vsphere_ai.fabric.pairs import Pair, pairs
from vsphere_ai.fabric.trace import trace
from vsphere_ai.language.playbooks.playbook import load_playbook
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target
from vsphere_ai.report.network.trace_text import fixes_text, trace_document, trace_text
from vsphere_ai.resources import kinds
from vsphere_ai.resources.corrections import plays_of

ONE, TWO, THREE = vm(1), vm(2), vm(3)
KEY = GROUP.partition(":")[2]
OPTION, FIREWALL, PROXY = "option:Net.PVRDMAVmknic", "config.firewall.ruleset", "config.network.proxySwitch"
OPEN = ({"key": "pvrdma", "enabled": True},)


def adapter(key=KEY, protocol="rocev2", **connectable):
    return {"_typeName": "VirtualVmxnet3Vrdma", "key": 4001, "deviceProtocol": protocol,
            "deviceInfo": {"label": "Network adapter 2"}, "connectable": connectable,
            "backing": {"port": {"portgroupKey": key}}}  # fmt: skip


def vnic(device="vmk2", mtu=9000, uuid="50 2b", key=KEY):
    return {"device": device, "spec": {"mtu": mtu, "distributedVirtualPort": {"switchUuid": uuid, "portgroupKey": key}}}


def machine(target, **more):
    """A host on which everything PVRDMA needs is there."""
    ready = {OPTION: "vmk2", FIREWALL: OPEN, "config.network.vnic": (vnic("vmk0", 1500, "lan", "x"), vnic())}
    facts = host(target)
    changes = {**ready, **{k.replace("__", "."): v for k, v in more.items()}}
    return Facts(target.ref, {k: v for k, v in {**facts.properties, **changes}.items() if v is not None})


def train(target, on=ESX1, device=None, **more):
    found = {"config__hardware__device": (adapter(),) if device is None else device}
    return guest(target, on, config__memoryReservationLockedToMax=True, **{**found, **more})


def world(*more, mtu=9000, active=("Uplink 1",)):
    around = estate().objects
    config = {"uplinkTeamingPolicy": {"uplinkPortOrder": {"activeUplinkPort": active}}}
    group = Facts(GROUP, {**around[GROUP].properties, "config.defaultPortConfig": config, "parent": DC.ref})
    switch = Facts(SWITCH, {**around[SWITCH].properties, "config.maxMtu": mtu, "parent": DC.ref})
    return estate(Facts(DC.ref, {"name": DC.name}), group, switch, machine(ESX1), machine(ESX2), *more)


def links(found, verdict="fail"):
    return {h.name: h for t in found for h in t.having(verdict)}


def plays(around, found):
    return {t.name: k for t, k in plays_of(fixes_for(around, found).corrections).items()}


def test_a_whole_path():
    around = world(train(ONE))
    (found,) = trace(around, ONE)
    assert {h.verdict for h in found.links} == {"pass"}
    assert (found.host, found.port_group, found.protocol, found.rdma_mtu) == (ESX1, "dvpg-rdma", "rocev2", 4096)
    text = trace_text(around, [found], [])
    assert "  fail" not in text
    assert text.endswith("1 path: 1 healthy")
    assert fixes_text(around, [found]) == ""


def test_everything_that_is_broken_is_found_at_once():
    devices = host(ESX1).get("config.network.proxySwitch")[0]
    shared = {**devices, "pnic": ("key-vmnic4", "key-vmnic5")}
    around = world(
        machine(ESX1, **{OPTION: "", FIREWALL: ({"key": "pvrdma", "enabled": False},), PROXY: (shared,)}),
        train(ONE, config__version="vmx-11"),
        active=("Uplink 1", "Uplink 2"),
    )
    found = trace(around, ONE)
    assert {name: link.finding.rule for name, link in links(found).items()} == {
        "virtual hardware": "vm.hardware-version",
        "active uplink of the port group": "vm.rdma-path",
        "RDMA NIC is the switch's only uplink": "host.rdma-uplinks",
        "PVRDMA vmknic": "host.pvrdma-vmknic",
        "firewall": "host.pvrdma-firewall",
    }
    assert plays(around, found) == {
        "DC0": {"port_groups": {"dvpg-rdma": {"active_uplinks": ("Uplink 1",)}}},
        "esx01": {
            "uplinks": {"dvs-rdma": {"Uplink 1": "vmnic4"}},
            "vmkernel": {"dvpg-rdma": {"pvrdma": True}},
            "pvrdma_host": {"firewall": True},
        },
        "train-01": {"hardware": {"version": 19}},
    }


@pytest.mark.parametrize(
    ("own", "size", "play"),
    [
        (9000, 1500, {"DC0": {"switches": {"dvs-rdma": {"mtu": 9000}}}}),
        (1500, 9000, {"esx01": {"vmkernel": {"dvpg-rdma": {"mtu": 9000}}}}),
    ],
)
def test_the_smaller_mtu_is_raised(own, size, play):
    around = world(machine(ESX1, config__network__vnic=(vnic(mtu=own),)), train(ONE), mtu=size)
    found = trace(around, ONE)
    assert links(found)["MTU"].finding.rule == "host.pvrdma-mtu"
    assert plays(around, found) == play


def test_what_no_playbook_fixes_is_said_and_left_out():
    found = trace(world(machine(ESX1, config__network__rdmaDevice=()), train(ONE)), ONE)
    (link,) = links(found).values()
    assert (link.name, link.fix) == ("RDMA device of that NIC", None)
    assert "TCP" in link.finding.remedy


def test_a_vm_without_an_adapter_gets_one_that_works():
    around = world(train(ONE, device=()))
    assert plays(around, trace(around, ONE)) == {"train-01": {"pvrdma": ({"port_group": "dvpg-rdma"},)}}
    around = world(machine(ESX1, config__network__rdmaDevice=()), train(ONE, device=()))
    assert plays(around, trace(around, ONE)) == {}


def test_a_host_that_the_vm_cannot_run_on_does_not_count():
    around = world(machine(ESX2, config__network__rdmaDevice=()), train(ONE, device=()))
    assert plays(around, trace(around, ONE)) == {}
    assert plays(around, trace(around, ONE, [ESX1])) == {"train-01": {"pvrdma": ({"port_group": "dvpg-rdma"},)}}


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"config.network.proxySwitch": "no right"}, "host"),
        ({OPTION: "no right"}, "PVRDMA vmknic"),
        ({FIREWALL: "no right"}, "firewall"),
    ],
)
def test_what_cannot_be_read_is_not_called_broken(changes, name):
    ready = machine(ESX1, **dict.fromkeys(changes))
    around = world(Facts(ESX1.ref, ready.properties, changes), train(ONE))
    (found,) = trace(around, ONE)
    assert name in links([found], "unknown")
    assert links([found]) == {}
    assert "1 not known" in trace_text(around, [found], [])


def test_a_host_that_is_away_is_unknown():
    found = trace(world(machine(ESX1, runtime__connectionState="notResponding"), train(ONE)), ONE)
    assert "notResponding" in links(found, "unknown")["host"].seen


@pytest.mark.parametrize(
    ("change", "name", "seen"),
    [
        ({"device": (adapter(connected=False),)}, "VM adapter", "disconnected"),
        ({"config__memoryReservationLockedToMax": False}, "guest memory", "not all"),
    ],
)
def test_the_vm_itself(change, name, seen):
    around = world(train(ONE, **change)) if "device" in change else world(
        guest(ONE, ESX1, config__hardware__device=(adapter(),), **change))  # fmt: skip
    assert seen in links(trace(around, ONE))[name].seen


def test_a_missing_vmkernel_adapter_is_made():
    around = world(machine(ESX1, config__network__vnic=(), **{OPTION: "vmk9"}), train(ONE))
    found = trace(around, ONE)
    new = {"address": "CHOOSE AN ADDRESS", "pvrdma": True, "mtu": 9000}
    assert plays(around, found) == {"esx01": {"vmkernel": {"dvpg-rdma": new}}}
    assert "vmk9 is named" in links(found)["PVRDMA vmknic"].seen


def between(*more, other=ESX2, **kinds_of):
    around = world(train(ONE), train(TWO, other, **kinds_of), *more)
    (pair,) = pairs([t for v in (ONE, TWO) for t in trace(around, v)])
    return pair


@pytest.mark.parametrize(
    ("pair", "use", "words"),
    [
        (lambda: between(), "roce", "RDMA MTU 4096"),
        (lambda: between(other=ESX1), "memory-copy", "esx01"),
        (lambda: between(machine(ESX2, config__network__rdmaDevice=())), "tcp", "TCP"),
        (lambda: between(machine(ESX2, **{OPTION: ""})), "tcp", "TCP"),
        (lambda: between(machine(ESX1, config__network__rdmaDevice=()), other=ESX1), "memory-copy", "esx01"),
        (lambda: between(config__version="vmx-11"), "none", "no RDMA"),
        (lambda: between(device=()), "none", "no RDMA"),
        (lambda: between(device=(adapter(protocol="rocev1"),)), "none", "rocev2, rocev1"),
        (lambda: between(machine(ESX2, runtime__connectionState="disconnected")), "unknown", "disconnected"),
    ],
)
def test_what_two_vms_use(pair, use, words):
    found = pair()
    assert found.use == use
    assert words in found.why


def test_the_cause_is_named():
    pair = between(machine(ESX2, config__network__rdmaDevice=()))
    assert [(g.owner, g.link.name) for g in pair.causes] == [(ESX2, "RDMA device of that NIC")]


def test_of_several_adapters_the_best_two_count():
    around = world(train(ONE, device=(adapter("gone"), adapter())), train(TWO, ESX2), train(THREE, ESX1))
    found = [t for v in (ONE, TWO, THREE) for t in trace(around, v)]
    assert [p.use for p in pairs(found)] == ["roce", "memory-copy", "roce"]


def test_every_rule_named_is_a_rule_of_check():
    shown = machine(ESX1, **{OPTION: "", FIREWALL: ()})
    around = [world(shown, train(ONE, config__version="vmx-11")), world(train(ONE, config__version="vmx-15"), mtu=1500)]
    named = {h.finding.rule for each in around for t in trace(each, ONE) for h in t.links}
    assert named <= {r.id for r in gate.rules()}
    assert {"vm.hardware-version", "vm.pvrdma-endpoints", "host.pvrdma-mtu"} <= named


def test_the_fixes_are_a_playbook(tmp_path):
    around = world(machine(ESX1, **{OPTION: "", FIREWALL: ({"key": "pvrdma", "enabled": False},)}),
                   train(ONE, config__version="vmx-11"), mtu=1500)  # fmt: skip
    path = tmp_path / "fix.yml"
    path.write_text(fixes_text(around, trace(around, ONE)), encoding="utf-8")
    playbook = load_playbook(path, kinds())
    assert [p.pattern for p in playbook.plays] == ["DC0", "esx01", "train-01"]


def test_json_has_all_of_it():
    around = world(machine(ESX1, **{OPTION: ""}), train(ONE), train(TWO, ESX2))
    found = [t for v in (ONE, TWO) for t in trace(around, v)]
    document = trace_document(around, found, tuple(pairs(found))).as_json()
    assert [t["healthy"] for t in document["traces"]] == [False, True]
    (link,) = [h for h in document["traces"][0]["links"] if h["verdict"] == "fail"]
    assert (link["rule"], link["fix"]) == (
        "host.pvrdma-vmknic",
        {"target": "esx01", "line": "vmkernel: {dvpg-rdma: {pvrdma: true}}"},
    )
    assert document["pairs"][0]["causes"] == [
        {"target": "esx01", "link": "PVRDMA vmknic", "message": "Net.PVRDMAVmknic is not set"}
    ]
    assert document["playbook"].startswith("- hosts: esx01\n")


def many(off=0, **broken):
    """Return 16 VMs on two hosts, an estate of them and their traces; the first ones, `off`, are too old for RDMA."""
    chosen = [vm(n) for n in range(10, 26)]
    old = {"config__version": "vmx-11"}
    guests = (train(v, (ESX1, ESX2)[n % 2], **(old if n < off else {})) for n, v in enumerate(chosen))
    around = world(machine(ESX2, **broken), *guests)
    return around, [t for v in chosen for t in trace(around, v)]


def test_paths_that_are_alike_are_shown_once():
    around, found = many()
    text = trace_text(around, found, tuple(pairs(found)))
    assert "16 paths are alike: train-[10:25] on esx01, esx02" in text
    assert text.count("virtual hardware") == 1
    assert ["64 pairs" in text, "56 pairs" in text] == [True, True]  # RoCE between the hosts, memory copy on each
    full = trace_text(around, found, tuple(pairs(found)), full=True)
    assert (full.count("virtual hardware"), full.count(" - train-")) == (16, 120)


def test_what_is_broken_is_counted_by_its_links():
    around, found = many(off=2, **{OPTION: ""})
    text = trace_text(around, found, tuple(pairs(found)))
    alike = [line for line in text.splitlines() if "paths are alike" in line]
    assert [line.partition(":")[2].split(" on ")[0].strip() for line in alike] == [
        "train-12, train-14, train-16, train-18, train-20, train-22, train-24",
        "train-13, train-15, train-17, train-19, train-21, train-23, train-25",
    ]
    between = text.partition("BETWEEN THEM")[2]
    counts = {line.split()[0]: line for line in between.splitlines() if " pairs " in line}
    assert sum(map(int, counts)) == 120
    assert "TCP fall-back because of PVRDMA vmknic of esx02" in counts["49"]
    assert "virtual hardware of train-10" in between


def farm(ready=True):
    """Return 32 hosts with 256 VMs, an estate of them and their traces; hosts and VMs that are not ready lack RDMA."""
    hosts = [Target("host", f"esx{n:02}", f"HostSystem:host-{n}") for n in range(1, 33)]
    chosen = [Target("vm", f"train-{n:03}", f"VirtualMachine:vm-{n}") for n in range(1, 257)]
    closed = {} if ready else {OPTION: "", FIREWALL: ({"key": "pvrdma", "enabled": False},)}
    around = world(*(machine(h, **closed) for h in hosts),
                   *(train(v, hosts[n % 32], device=None if ready else ()) for n, v in enumerate(chosen)))  # fmt: skip
    return around, [t for v in chosen for t in trace(around, v, hosts)], hosts


@pytest.mark.parametrize("columns", [80, 120])
def test_256_vms_on_32_hosts_are_one_screen(columns):
    around, found, _ = farm(ready=False)
    text = trace_text(around, found, tuple(pairs(found)), columns)
    lines = text.splitlines()
    assert len(lines) <= 40, text
    assert max(map(len, lines)) <= columns
    for words in (
        "256 paths are alike: train-[001:256] on esx[01:32]",
        "in a play for 32 hosts, esx[01:32]: pvrdma_host: {firewall: true}",
        "in a play for 256 VMs, train-[001:256]: pvrdma: [{port_group: dvpg-rdma}]",
        "- hosts: esx[01:32]\n  pvrdma_host: {firewall: true}\n",
        "32640 pairs",
    ):
        assert " ".join(words.split()) in " ".join(text.split())
    assert len(trace_text(around, found[:2], (), columns, full=True).splitlines()) > 130, "each link of each path"
    whole = trace_text(*farm()[:2], (), columns)
    assert len(whole.splitlines()) <= 24
    assert whole.endswith("256 paths: 256 healthy")


def test_a_host_that_breaks_the_paths_of_others_is_named_once_and_not_folded_away():
    around, _, hosts = farm()
    bad = [machine(h, **{"config.network.rdmaDevice": ()}) for h in hosts[4:6]]
    new = [Target("vm", f"new-{n}", f"VirtualMachine:new-{n}") for n in range(3)]
    around = estate(*around.objects.values(), *bad, *(train(v, hosts[n], device=()) for n, v in enumerate(new)))
    text = trace_text(around, [t for v in new for t in trace(around, v, hosts)], ())
    assert "3 paths are alike: new-[0:2] on esx[01:03]" in text
    assert "on 2 hosts: esx05, esx06" in text
    assert text.count("fail    RDMA device of that NIC") == 1


def test_plays_with_an_address_to_be_chosen_are_for_one_host_each():
    bare = (machine(h, config__network__vnic=(), **{OPTION: ""}) for h in (ESX1, ESX2))
    around = world(*bare, train(ONE), train(TWO, ESX2))
    text = fixes_text(around, [t for v in (ONE, TWO) for t in trace(around, v)])
    assert [line for line in text.splitlines() if line.startswith("- ")] == ["- hosts: esx01", "- hosts: esx02"]


def test_pairs_are_not_compared_with_each_other(monkeypatch):
    """256 VMs have 32,640 pairs: a screen that looks for each among the others takes minutes."""
    around, found = many(off=2)
    between = tuple(pairs(found))
    compared = []
    monkeypatch.setattr(Pair, "__eq__", lambda *both: compared.append(both) or False)
    trace_text(around, found, between)
    assert not compared


@pytest.mark.parametrize(
    ("one", "form", "code", "words"),
    [
        ({}, "text", 0, "1 path: 1 healthy"),
        ({OPTION: ""}, "text", 2, "1 path: 1 broken"),
        ({OPTION: ""}, "playbook", 2, "pvrdma: true"),
        ({OPTION: ""}, "json", 2, '"schema_version": 1'),
        ({OPTION: None}, "text", 1, "1 path: 1 not known"),
    ],
)
def test_exit_codes(monkeypatch, one, form, code, words):
    around = world(machine(ESX1, **one), train(ONE))
    monkeypatch.setattr(trace_rdma, "open_session", lambda *_: nullcontext())
    monkeypatch.setattr(trace_rdma, "read_vms", lambda session, names: (around, (ONE,)))
    result = CliRunner().invoke(rdma.command, ["trace", "train-01", "-o", form], standalone_mode=False)
    assert (result.exception, result.return_value) == (None, code)
    assert words in result.output


@pytest.mark.parametrize(
    ("device", "entry"),
    [
        (adapter(connected=False), {"connected": True}),
        (adapter(protocol="rocev1"), {"protocol": "rocev2"}),
    ],
)
def test_an_adapter_that_is_alone_on_its_port_group_can_be_named(device, entry):
    info = host(ESX1).get("config.network.rdmaDevice")[0]
    only = {**info, "capability": {"roceV1Capable": False, "roceV2Capable": True}}
    ready = machine(ESX1, config__network__rdmaDevice=(only,))
    around = world(ready, train(ONE, device=(device,)))
    (play,) = plays(around, trace(around, ONE)).values()
    assert play == {"adapters": ({"type": "pvrdma", "port_group": "dvpg-rdma", **entry},)}
    around = world(ready, train(ONE, device=(device, device)))
    assert plays(around, trace(around, ONE)) == {}
