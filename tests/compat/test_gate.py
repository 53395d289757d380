"""Which rules are asked about whom, how often, and what refuses a plan."""

from types import SimpleNamespace

import pytest

from vsphere_ai.compat import gate
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target
from vsphere_ai.resources import kinds
from vsphere_ai.resources.mixins import Judged

ESX02 = Target("host", "esx02", "HostSystem:host-2")
TWO_HOSTS = {"name": "esx02"}
MIG, VGPU, PVRDMA = frozenset({"mig"}), frozenset({"vgpu"}), frozenset({"pvrdma"})


def ids(findings, target=None):
    return {f.rule for f in findings if target is None or f.target == target}


def second(world, **changes):
    return {ESX02.ref: {**world.host_properties, "name": "esx02", **changes}}


def test_rules_are_found_and_have_what_a_page_needs():
    found = gate.rules()
    assert len(found) == len({r.id for r in found}) >= 28
    assert [r.target for r in found] == sorted((r.target for r in found), key=gate.ORDER.index)
    for rule in found:
        assert rule.title
        assert rule.source
        assert rule.doc
        assert {"pass"} <= set(rule.verdicts) <= {"pass", "warn", "fail", "unknown"}
        touching = [name for name, kind in kinds().items() if kind.traits.topics & rule.about]
        assert touching or not rule.about, f"{rule.id}: no kind touches {rule.about}"


def test_properties_are_the_union_by_type():
    union = gate.properties()
    assert {"HostSystem", "VirtualMachine", "DistributedVirtualPortgroup"} <= set(union)
    assert {"software", "config.product", "hardware.pciDevice"} <= set(union["HostSystem"])
    for paths in union.values():
        assert list(paths) == sorted(set(paths))


def test_a_healthy_estate_passes(world):
    everything = {world.host: gate.kinds_of("host"), world.vm: gate.kinds_of("vm")}
    findings = gate.examine(world.view(), everything)
    assert [f for f in findings if f.verdict != "pass"] == []
    assert ids(findings) == {r.id for r in gate.rules()}


def test_only_relevant_rules_are_asked(world):
    for_mig = ids(gate.examine(world.view(), {world.host: MIG}), world.host)
    assert {"host.lockdown", "host.ssh-service", "gpu.mig-capable", "esxi.version"} <= for_mig
    assert not {"host.rdma-device", "gpu.shared-direct"} & for_mig
    for_rdma = ids(gate.examine(world.view(), {world.host: frozenset({"pvrdma_host"})}), world.host)
    assert "host.rdma-device" in for_rdma
    assert not {r for r in for_rdma if r.startswith("gpu.")}


def test_a_vm_brings_the_rules_of_its_hosts_once(world):
    other = {"VirtualMachine:vm-2": {**world.vm_properties, "name": "train-02"}}
    view = world.view({**second(world), **other})
    wanted = {world.vm: VGPU, Target("vm", "train-02", "VirtualMachine:vm-2"): PVRDMA}
    findings = gate.examine(view, wanted)
    assert len(findings) == len({(f.target, f.rule) for f in findings})
    for host in (world.host, ESX02):
        assert {"gpu.vib", "gpu.shared-direct", "host.rdma-device", "esxi.version"} <= ids(findings, host)
        assert "host.lockdown" not in ids(findings, host)


def test_hosts_outside_the_cluster_are_left_alone(world):
    outside = second(world, parent="ComputeResource:domain-s9")
    findings = gate.examine(world.view(outside), {world.vm: VGPU})
    assert ids(findings, ESX02) == set()


def test_findings_come_by_vcenter_host_and_vm(world):
    findings = gate.examine(world.view(second(world)), {world.vm: VGPU, ESX02: MIG})
    kinds = ["vcenter" if f.target is None else f.target.kind for f in findings]
    assert kinds == sorted(kinds, key=gate.ORDER.index)


def test_a_host_without_gpu_does_not_refuse_vms_that_have_another(world):
    view = world.view(second(world, **{"hardware.pciDevice": (world.nic,)}))
    (finding,) = [f for f in gate.examine(view, {world.vm: VGPU}) if (f.target, f.rule) == (ESX02, "gpu.model")]
    assert (finding.verdict, finding.refuses) == ("warn", False)
    assert "other hosts" in finding.message


def test_a_hidden_host_does_not_refuse_vms_that_have_another(world):
    hidden = {"config.product": world.absent, "summary.config.product": world.absent}
    findings = gate.examine(world.view(second(world, **hidden)), {world.vm: frozenset({"hardware"})})
    (finding,) = [f for f in findings if (f.target, f.rule) == (ESX02, "esxi.version")]
    assert (finding.verdict, finding.refuses) == ("unknown", False)


def test_a_vm_without_any_fit_host_is_refused(world):
    none = {"hardware.pciDevice": (world.nic,)}
    view = world.view({**second(world, **none), world.host.ref: none})
    findings = [f for f in gate.examine(view, {world.vm: VGPU}) if f.rule == "gpu.model"]
    assert [(f.verdict, f.refuses) for f in findings] == [("fail", True)] * 2


def test_a_host_in_the_play_refuses_whatever_others_can_do(world):
    view = world.view(second(world, **{"hardware.pciDevice": (world.nic,)}))
    findings = gate.examine(view, {world.vm: VGPU, ESX02: MIG})
    (finding,) = [f for f in findings if (f.target, f.rule) == (ESX02, "gpu.model")]
    assert (finding.verdict, finding.refuses) == ("fail", True)


def test_a_host_in_the_play_answers_for_a_vm_rule_only_if_needed(world):
    shared = ({"pciId": "0000:3b:00.0", "graphicsType": "shared"},)
    changes = {"config.graphicsInfo": shared, "config.graphicsConfig": world.absent}
    findings = gate.examine(world.view(second(world, **changes)), {world.vm: VGPU, ESX02: MIG})
    (finding,) = [f for f in findings if (f.target, f.rule) == (ESX02, "gpu.shared-direct")]
    assert (finding.verdict, finding.refuses) == ("warn", False)


def test_hosts_the_planned_vm_cannot_run_on_are_not_asked(world):
    only_first = {"profiles": ("grid_a100-20c",), "runs_on": lambda host, view: host.name == "esx01"}
    view = world.view(second(world), planned={(world.vm.ref, "vgpu"): only_first})
    assert ids(gate.examine(view, {world.vm: VGPU}), ESX02) == set()
    nowhere = {"profiles": ("grid_a100-20c",), "runs_on": lambda host, view: False}
    view = world.view(second(world), planned={(world.vm.ref, "vgpu"): nowhere})
    assert ids(gate.examine(view, {world.vm: VGPU}), ESX02) != set()


@pytest.mark.parametrize(("rule", "refuses"), [("esxi.version", True), ("gpu.vib", False)])
def test_unknown_refuses_only_where_the_rule_says_so(world, rule, refuses):
    hidden = {"config.product": world.absent, "summary.config.product": world.absent, "software": world.absent}
    findings = gate.examine(world.view({world.host.ref: hidden}), {world.host: MIG})
    (finding,) = [f for f in findings if f.rule == rule]
    assert (finding.verdict, finding.refuses) == ("unknown", refuses)


@pytest.mark.parametrize(("kind", "field", "rule"), [("vgpu", "profiles", "vm.firmware"),
                                                     ("pvrdma", "adapters", "vm.guest-linux64")])  # fmt: skip
def test_taking_devices_away_needs_nothing(world, kind, field, rule):
    unfit = {world.vm.ref: {"config.firmware": "bios", "config.guestId": "winNTGuest"},
             world.host.ref: {"hardware.pciDevice": (world.nic,)}}  # fmt: skip
    wanted = {world.vm: frozenset({kind})}
    some = world.view(unfit, planned={(world.vm.ref, kind): {field: ()}})
    findings = gate.examine(some, wanted)
    assert rule not in ids(findings)
    assert not [f for f in findings if f.refuses]
    assert rule in ids(gate.examine(world.view(unfit), wanted))


def test_the_adapters_kind_brings_the_rules_of_pvrdma_only_with_such_an_adapter(world):
    def asked(*types):
        cards = tuple(SimpleNamespace(type=t, port_group="x:dvportgroup-1", protocol=None) for t in types)
        view = world.view(planned={(world.vm.ref, "adapters"): {"adapters": cards}})
        return ids(gate.examine(view, {world.vm: frozenset({"adapters"})}))

    assert "vm.rdma-path" in asked("vmxnet3", "pvrdma")
    assert "vm.rdma-path" not in asked("vmxnet3")


@pytest.mark.parametrize("target", ["host", "vm"])
def test_every_kind_that_a_rule_names_can_tell_who_is_fit_for_it(target):
    """A new kind declares this itself; no list anywhere else has to be edited."""
    nobody = Facts("x", {"hardware.pciDevice": (), "config.hardware.device": ()})
    judged = {name: kinds()[name] for name in gate.kinds_of(target) if kinds()[name].traits.topics}
    fit = {name for name, kind in judged.items() if issubclass(kind, Judged) and kind.is_fit(nobody)}
    assert fit <= {"hardware"}


def vnic(mtu):
    return {"device": "vmk2", "spec": {"mtu": mtu, "distributedVirtualPort": {"switchUuid": "50 2b"}}}


def with_mtu(world, size, adapter=9000):
    changes = {world.host.ref: {"option:Net.PVRDMAVmknic": "vmk2", "config.network.vnic": (vnic(adapter),)},
               "VmwareDistributedVirtualSwitch:dvs-1": {"config.maxMtu": size}}  # fmt: skip
    return world.view(changes)


@pytest.mark.parametrize("kind", ["switches", "uplinks", "vmkernel", "port_groups", "sriov"])
def test_what_gets_worse_for_hosts_nobody_named_is_said(world, kind):
    (finding,) = gate.worsened(with_mtu(world, 9000), with_mtu(world, 1500), {kind}, ())
    assert (finding.target, finding.rule, finding.verdict, finding.refuses) == (
        world.host, "host.pvrdma-mtu", "warn", False,
    )  # fmt: skip
    assert finding.message.endswith("because of this plan")


def test_what_was_so_before_gets_better_or_was_found_already_is_not_said_again(world):
    good, bad = with_mtu(world, 9000), with_mtu(world, 1500)
    assert gate.worsened(bad, bad, {"switches"}, ()) == ()
    assert gate.worsened(bad, good, {"switches"}, ()) == ()
    assert gate.worsened(good, bad, {"hardware", "mig"}, ()) == ()
    found = gate.worsened(good, bad, {"switches"}, ())
    assert gate.worsened(good, bad, {"switches"}, found) == ()


def test_a_failure_of_somebody_nobody_named_does_not_refuse(world):
    broken = world.view({world.host.ref: {"config.network.rdmaDevice": ()}})
    found = {f.rule: f for f in gate.worsened(world.view(), broken, {"uplinks"}, ())}
    assert found["host.rdma-device"].verdict == "warn"
    assert not any(f.refuses for f in found.values())


def test_nothing_wanted_still_checks_the_vcenter(world):
    assert ids(gate.examine(world.view(), {})) == {r.id for r in gate.rules() if r.target == "vcenter"}


def test_without_a_playbook_everybody_is_checked_by_what_he_has(world):
    odd = second(world, **{"hardware.pciDevice": (world.nic, world.vf), "config.network.rdmaDevice": ()})
    plain = {"VirtualMachine:vm-2": {**world.vm_properties, "name": "web", "config.hardware.device": ({},)}}
    findings = gate.examine_all(world.view({**odd, **plain}))
    assert {"gpu.mig-capable", "host.lockdown", "host.rdma-device"} <= ids(findings, world.host)
    assert {"gpu.model", "host.connected"} - ids(findings, ESX02) == set()  # a VM of the cluster has a vGPU
    assert not {"host.lockdown", "gpu.mig-capable"} & ids(findings, ESX02)
    assert {"vm.firmware", "dvs.version"} <= ids(findings, world.vm)
    web = ids(findings, Target("vm", "web", "VirtualMachine:vm-2"))
    assert "vm.hardware-version" in web
    assert not {"vm.firmware", "dvs.version"} & web


@pytest.mark.parametrize(("device_id", "asked"), [(0x1EB8, False), (0x20F1, True), (0x7FFF, True)])
def test_without_a_playbook_boards_without_mig_are_no_fault(world, device_id, asked):
    view = world.view({world.host.ref: {"hardware.pciDevice": ({**world.a100, "deviceId": device_id},)}})
    assert ("gpu.mig-capable" in ids(gate.examine_all(view), world.host)) == asked


def test_without_a_playbook_what_is_hidden_is_unknown(world):
    view = world.view(
        {world.host.ref: {"hardware.pciDevice": world.absent}, world.vm.ref: {"config.hardware.device": world.absent}}
    )
    findings = {(f.target, f.rule): f.verdict for f in gate.examine_all(view)}
    assert findings[world.host, "gpu.model"] == "unknown"
    assert findings[world.vm, "dvs.version"] == "unknown"
