"""VMkernel adapters by port group: what is made, what is changed, what is left alone and what is refused."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from support.estates import ESX1, ESX2, GROUP, SWITCH, estate, host, made, view, wants
from support.judging import judge, plan_one, rules, steps_of
from support.plays import ONE

from vsphere_ai.model.deferred import Deferred, inside, is_deferred
from vsphere_ai.model.facts import Facts
from vsphere_ai.resources.pvrdma_host import PvrdmaHost
from vsphere_ai.resources.vmkernel import VmkernelAdapter, VmkernelAdapters

ALONE = f"{ONE}  vmkernel: {{dvpg-rdma: {{mtu: 4500, pvrdma: true}}}}\n"

OPTION = "option:Net.PVRDMAVmknic"
VNICS = "config.network.vnic"


def ip(text):
    address, _, mask = text.partition("/")
    return {"_typeName": "HostIpConfig", "dhcp": not address, "ipAddress": address, "subnetMask": mask}


def vnic(device, group, address="10.1.0.1/255.255.255.0", mtu=1500):
    port = {"switchUuid": "50 2b", "portgroupKey": group, "portKey": "3"} if group.startswith("dv") else None
    spec = {"ip": ip(address), "mtu": mtu, **({"distributedVirtualPort": port} if port else {"portgroup": group})}
    return {"_typeName": "HostVirtualNic", "device": device, "key": f"key-{device}", "portgroup": "" if port else group,
            "spec": spec}  # fmt: skip


def carried(**selected):
    kinds = ("management", "vmotion", "vsan")
    return tuple(
        {"nicType": kind,
         "candidateVnic": tuple({"key": f"{kind}.{d}", "device": d} for d in ("vmk0", "vmk2")),
         "selectedVnic": tuple(f"{kind}.{d}" for d in selected.get(kind, ()))} for kind in kinds
    )  # fmt: skip


LAN = vnic("vmk0", "dvportgroup-2", "10.0.0.1/255.255.255.0")
ON_RDMA = vnic("vmk2", "dvportgroup-1")


def esx(*vnics, target=ESX1, **more):
    carries = {"config__virtualNicManagerInfo__netConfig": carried(management=("vmk0",))}
    return host(target, **{"config__network__vnic": vnics, **carries, **more})


def wanted(_name="dvpg-rdma", **fields):
    return VmkernelAdapters(adapters={_name: VmkernelAdapter(**fields)})


def words(judged):
    return [s.method for s in judged.steps]


NEW = {"address": "10.1.0.7/24", "mtu": 9000}


def test_a_new_adapter_is_made_on_its_port_group():
    step = judge(wanted(**NEW), ESX1, estate(esx(LAN))).step
    assert (step.path, step.method, step.args["portgroup"]) == ("configManager.networkSystem", "AddVirtualNic", "")
    nic = step.args["nic"]
    assert nic["ip"] == {"_typeName": "HostIpConfig", "dhcp": False, "ipAddress": "10.1.0.7",
                         "subnetMask": "255.255.255.0"}  # fmt: skip
    assert (nic["mtu"], nic["distributedVirtualPort"]["portgroupKey"]) == (9000, "dvportgroup-1")
    assert nic["distributedVirtualPort"]["switchUuid"] == "50 2b"
    assert not step.needs_maintenance


def test_what_a_new_adapter_is_for_is_said_by_its_name_to_come():
    judged = judge(wanted(**NEW, pvrdma=True, services=("vmotion",)), ESX1, estate(esx(LAN)))
    assert words(judged) == ["AddVirtualNic", "SelectVnicForNicType", "UpdateOptions"]
    _, service, option = judged.steps
    path = inside(VNICS, ("spec.distributedVirtualPort.portgroupKey", "dvportgroup-1"), "device")
    assert service.args["device"] == Deferred("Datacenter:dc-1", "HostSystem", "esx01", path)
    assert option.args["changedValue"][0]["value"] == service.args["device"]
    assert "first free number" in judged.notes[0]


@pytest.mark.parametrize(
    ("fields", "methods"),
    [
        ({"address": "10.1.0.1/24", "mtu": 1500}, []),
        ({"address": "10.1.0.2/24"}, ["UpdateVirtualNic"]),
        ({"address": "dhcp"}, ["UpdateVirtualNic"]),
        ({"mtu": 9000}, ["UpdateVirtualNic"]),
        ({"services": ()}, []),
        ({"services": ("vmotion",)}, ["SelectVnicForNicType"]),
        ({"pvrdma": True}, ["UpdateOptions"]),
        ({"pvrdma": False}, []),
        ({}, []),
    ],
)
def test_only_the_difference(fields, methods):
    judged = judge(wanted(**fields), ESX1, estate(esx(LAN, ON_RDMA)))
    assert not judged.problems
    assert words(judged) == methods


def test_an_adapter_that_is_there_is_sent_only_what_changes():
    step = judge(wanted(mtu=9000), ESX1, estate(esx(LAN, ON_RDMA))).step
    assert step.args == {"device": "vmk2", "nic": {"_typeName": "HostVirtualNicSpec", "mtu": 9000}}


def test_services_are_exactly_those_that_are_named():
    carries = carried(management=("vmk0",), vmotion=("vmk2",), vsan=("vmk2",))
    seen = estate(esx(LAN, ON_RDMA, config__virtualNicManagerInfo__netConfig=carries))
    assert not judge(wanted(services=("vsan", "vmotion")), ESX1, seen).steps
    judged = judge(wanted(services=("vmotion",)), ESX1, seen)
    assert [(s.method, s.args, s.needs_maintenance) for s in judged.steps] == [
        ("DeselectVnicForNicType", {"nicType": "vsan", "device": "vmk2"}, True)
    ]
    assert judge(wanted(mtu=9000), ESX1, seen).step.needs_maintenance  # vSAN would lose its network


def test_the_name_for_pvrdma_goes_from_one_adapter_to_another():
    seen = estate(esx(LAN, ON_RDMA, **{OPTION: "vmk0"}))
    state = VmkernelAdapters(
        adapters={"dvpg-lan": VmkernelAdapter(pvrdma=False), "dvpg-rdma": VmkernelAdapter(pvrdma=True)}
    )
    step = judge(state, ESX1, seen).step
    assert step.args["changedValue"][0]["value"] == "vmk2"
    step = judge(wanted("dvpg-lan", pvrdma=False), ESX1, seen).step
    assert step.args["changedValue"][0]["value"] == ""


def test_each_host_takes_its_own_address():
    state = wanted(address={"esx01": "10.1.0.1/24", "esx02": "10.1.0.2/24"})
    seen = estate(esx(LAN), esx(LAN_2, target=ESX2))
    plan = made(seen, {ESX1: wants(state), ESX2: wants(state)})
    assert not plan.problems
    added = [p.step.args["nic"]["ip"]["ipAddress"] for p in plan.steps if hasattr(p.step, "method")]
    assert sorted(added) == ["10.1.0.1", "10.1.0.2"]


LAN_2 = vnic("vmk0", "dvportgroup-2", "10.0.0.2/255.255.255.0")


@pytest.mark.parametrize(
    ("vnics", "fields", "more", "rule"),
    [
        ((LAN,), {"_name": "dvpg-none", **NEW}, {}, "vmkernel.port-group"),
        ((LAN,), NEW, {"config__network__proxySwitch": ()}, "vmkernel.member"),
        ((LAN,), {"mtu": 9000}, {}, "vmkernel.address"),
        ((LAN,), {"address": {"esx02": "10.1.0.1/24"}}, {}, "vmkernel.address"),
        ((LAN, ON_RDMA), {"address": {"esx02": "10.1.0.1/24"}}, {}, "vmkernel.address"),
        ((LAN,), {"address": "10.0.0.1/24"}, {}, "vmkernel.address-taken"),
        ((LAN, ON_RDMA, vnic("vmk3", "dvportgroup-1")), {"mtu": 9000}, {}, "vmkernel.several"),
        ((LAN,), {"_name": "dvpg-lan", "address": "10.0.0.9/24"}, {}, "vmkernel.management"),
        ((LAN,), {"_name": "dvpg-lan", "services": ("vmotion",)}, {}, "vmkernel.management"),
        ((LAN, ON_RDMA), {"services": ("vSphereReplication",)}, {}, "vmkernel.service"),
    ],
)
def test_problems(vnics, fields, more, rule):
    judged = judge(wanted(**fields), ESX1, estate(esx(*vnics, **more)))
    assert set(judged.problems) == {rule}


@pytest.mark.parametrize(
    ("fields", "refused", "noted"),
    [
        ({"address": "10.1.0.1/24", "mtu": 9000}, False, True),
        ({"address": "10.1.0.1/16"}, True, False),
        ({"mtu": 9000}, False, False),
    ],
)
def test_an_address_that_two_have_already_is_refused_only_where_it_changes(fields, refused, noted):
    """What a rollback states of an adapter has its address, too, which it has all the time."""
    twin = esx(LAN_2, vnic("vmk2", "dvportgroup-1", "10.1.0.1/255.255.255.0"), target=ESX2)
    judged = judge(wanted(**fields), ESX1, estate(esx(LAN, ON_RDMA), twin))
    assert set(judged.problems) == ({"vmkernel.address-taken"} if refused else set())
    assert any("also the address of esx02 vmk2" in note for note in judged.notes) == noted


def test_the_mtu_of_the_switch_is_the_limit():
    small = Facts(SWITCH, {"name": "dvs-rdma", "uuid": "50 2b", "config.maxMtu": 1500, "parent": "Folder:group-n1"})
    judged = judge(wanted(mtu=9000), ESX1, estate(esx(LAN, ON_RDMA), small))
    assert "has 1500" in judged.problems["vmkernel.mtu"].message
    assert "switches: {dvs-rdma: {mtu: 9000}}" in judged.problems["vmkernel.mtu"].remedy


def test_an_uplink_port_group_has_no_adapters():
    uplink = Facts(GROUP, {"name": "dvpg-rdma", "key": "dvportgroup-1", "config.uplink": True,
                           "config.distributedVirtualSwitch": SWITCH, "parent": "Folder:group-n1"})  # fmt: skip
    assert set(judge(wanted(**NEW), ESX1, estate(esx(LAN), uplink)).problems) == {"vmkernel.port-group"}


def test_where_it_is_not_known_the_first_adapter_is_that_of_management():
    blind = esx(LAN, ON_RDMA, config__virtualNicManagerInfo__netConfig=None)
    assert "vmkernel.management" in judge(wanted("dvpg-lan", mtu=1400), ESX1, estate(blind)).problems
    assert not judge(wanted(mtu=1400), ESX1, estate(blind)).problems


def test_two_adapters_for_pvrdma():
    state = VmkernelAdapters(
        adapters={"dvpg-lan": VmkernelAdapter(pvrdma=True), "dvpg-rdma": VmkernelAdapter(pvrdma=True)}
    )
    assert set(judge(state, ESX1, estate(esx(LAN, ON_RDMA))).problems) == {"vmkernel.pvrdma"}


@pytest.mark.parametrize(
    ("other", "vnics", "rule"),
    [
        (PvrdmaHost(vmknic="vmk0", firewall=True), (LAN, ON_RDMA), "vmkernel.pvrdma-conflict"),
        (PvrdmaHost(vmknic="vmk0"), (LAN,), "vmkernel.pvrdma-conflict"),
        (PvrdmaHost(vmknic="vmk2"), (LAN, ON_RDMA), None),
        (PvrdmaHost(firewall=True), (LAN, ON_RDMA), None),
    ],
)
def test_what_pvrdma_host_says_besides(other, vnics, rule):
    address = {} if len(vnics) == 2 else {"address": "dhcp"}
    plan = plan_one(estate(esx(*vnics, **{OPTION: "vmk0"})), ESX1, wanted(pvrdma=True, **address), other)
    assert {r for _, r in rules(plan)} == ({rule} if rule else set())
    if rule is None:  # once, whoever says it
        assert [s.method for s in steps_of(plan, ESX1) if hasattr(s, "method")].count("UpdateOptions") == 1


def test_the_conflict_is_seen_where_nothing_changes():
    seen = estate(esx(LAN, ON_RDMA, **{OPTION: "vmk2"}))
    plan = plan_one(seen, ESX1, wanted(pvrdma=True), PvrdmaHost(vmknic="vmk0"))
    assert rules(plan) == {("esx01", "vmkernel.pvrdma-conflict")}


def test_a_new_adapter_cannot_be_named_by_its_number():
    plan = plan_one(estate(esx(LAN)), ESX1, wanted(**NEW), PvrdmaHost(vmknic="vmk1"))
    (problem,) = plan.problems
    assert (problem.rule, "pvrdma: true" in problem.remedy) == ("pvrdma.vmknic-missing", True)
    assert "\x1f" not in problem.message + problem.remedy


def test_those_who_follow_see_the_adapter_and_the_option():
    seen = view(estate(esx(LAN)))
    (facts,) = wanted(**NEW, pvrdma=True).project(ESX1, seen, "plan").facts
    (made_one,) = [v for v in facts.get(VNICS) if is_deferred(v["device"])]
    assert (facts.get(OPTION), made_one["spec"]["mtu"]) == (made_one["device"], 9000)
    assert facts.get(VNICS)[0] == LAN


def test_pvrdma_off_the_path_of_rdma_is_noted():
    judged = judge(wanted("dvpg-lan", pvrdma=True), ESX1, estate(esx(LAN)))
    assert "carries no RDMA" in judged.notes[0]


def test_show_states_what_can_be_stated():
    twice = vnic("vmk3", "Storage", "10.3.0.1/255.255.255.0"), vnic("vmk4", "Storage", "10.3.0.2/255.255.255.0")
    seen = view(estate(esx(LAN, ON_RDMA, *twice, vnic("vmk5", "Backup", "/"), **{OPTION: "vmk2"})))
    state = seen.state(ESX1.ref, "vmkernel")
    shown = state.export(ESX1, seen, "playbook").state.adapters
    assert set(shown) == {"dvpg-lan", "dvpg-rdma", "Backup"}
    assert shown["dvpg-rdma"] == VmkernelAdapter(address="10.1.0.1/24", mtu=1500, pvrdma=True, services=())
    assert (shown["dvpg-lan"].pvrdma, shown["dvpg-lan"].services) == (False, ("management",))
    assert shown["Backup"].address == "dhcp"
    assert "several adapters on Storage" in state.export(ESX1, seen, "playbook").left_out
    again = judge(state.export(ESX1, seen, "playbook").state, ESX1, seen.estate)
    assert (again.fields, again.problems) == ({}, {})


def test_a_host_whose_adapters_are_not_shown():
    gone = esx(LAN, config__network__vnic=None)
    assert VmkernelAdapters.observe((it := estate(gone))[ESX1.ref], it) is None
    assert set(judge(wanted(**NEW), ESX1, estate(gone)).problems) == {"vmkernel.unreadable"}


def test_an_option_that_cannot_be_read():
    facts = esx(LAN, ON_RDMA, **{OPTION: None})
    facts = Facts(facts.ref, facts.properties, {OPTION: "no permission"}, facts.probes)
    assert set(judge(wanted(pvrdma=True), ESX1, estate(facts)).problems) == {"vmkernel.pvrdma-option"}


@pytest.mark.parametrize("address", ["10.1.0.1", "10.1.0.0/24", "10.1.0.255/24", "fe80::1/64", "10.1.0.300/24", ""])
def test_addresses_no_adapter_can_have(address):
    with pytest.raises(ValidationError):
        VmkernelAdapter(address=address)
    with pytest.raises(ValidationError):
        VmkernelAdapter(address={"esx01": address})


@pytest.mark.parametrize(("given", "read_as"), [("dhcp", "dhcp"), ("10.1.0.1/24", "10.1.0.1/24"), ("10.1.0.0/31",) * 2])
def test_addresses(given, read_as):
    assert VmkernelAdapter(address=given).address == read_as
