"""Network I/O Control: bandwidth and pools of switches, port groups in pools, and adapters of VMs under it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import ValidationError
from support.estates import ESX1, ESX2, LAN, view, vm
from support.ethernet import LAN_SWITCH, around, card
from support.fabrics import DC, RDMA, fabric, machine, member, nic, port_group, resource, switch
from support.judging import judge, plan_one, steps_of, words

from vsphere_ai.model.facts import Facts
from vsphere_ai.resources.adapters import Adapters
from vsphere_ai.resources.port_groups import PortGroups
from vsphere_ai.resources.switches import Switches

POOL = {"_typeName": "DVSVmVnicNetworkResourcePool", "key": "pool-1", "name": "gpu", "configVersion": "4",
        "allocationInfo": {"reservationQuota": 300}}  # fmt: skip
MEMBERS = (member(ESX1, ("vmnic4", "1")), member(ESX2, ("vmnic4", "1")))


def vm_traffic(reservation, limit=-1):
    made = resource("virtualMachine", "high", 100)
    return {**made, "allocationInfo": {**made["allocationInfo"], "reservation": reservation, "limit": limit}}


def own(reservation=200, pools=(POOL,), **more):
    """A switch with two NICs, whose VMs have something reserved."""
    traffic = (vm_traffic(reservation), resource("vmotion", "normal", 50))
    given = {"config__host": MEMBERS, "config__infrastructureTrafficResourceConfig": traffic,
             "config__vmVnicNetworkResourcePool": tuple(pools), **more}  # fmt: skip
    return switch(RDMA, "dvs-rdma", **given)


def estate(*more, **switch_settings):
    hosts = (machine(ESX1), machine(ESX2))
    return fabric(*hosts, own(**switch_settings), *more)


def judged(of, **wanted):
    return judge(Switches.model_validate({"switches": {"dvs-rdma": wanted}}), DC, of)


# -- switches


def test_what_is_read():
    seen = Switches.observe((it := estate())[DC.ref], it).switches["dvs-rdma"]
    assert {k: (b.reservation, b.limit) for k, b in seen.bandwidth.items()} == {
        "virtual_machine": (200, "unlimited"), "vmotion": (0, "unlimited"),
    }  # fmt: skip
    assert seen.resource_pools == {"gpu": 300}
    state = Switches.observe((it := estate())[DC.ref], it)
    shown = state.export(DC, view(estate()), "playbook").state
    assert set(shown.switches["dvs-rdma"].bandwidth) == {"virtual_machine"}
    assert shown.switches["dvs-lan"].bandwidth is None


def test_bandwidth_keeps_what_is_not_said():
    found = judged(estate(), bandwidth={"virtual_machine": {"limit": 5000}})
    (given,) = found.step.args["spec"]["infrastructureTrafficResourceConfig"]
    assert given["allocationInfo"] == {
        "reservation": 200, "limit": 5000, "shares": {"_typeName": "SharesInfo", "shares": 100, "level": "high"},
    }  # fmt: skip
    assert found.fields == {"dvs-rdma virtual_machine limit": ("unlimited", 5000)}


@pytest.mark.parametrize(
    ("wanted", "specs"),
    [
        ({"gpu": 300}, []),
        ({"gone": "absent"}, []),
        ({"gpu": 100}, [[("edit", "pool-1", "4", 100)]]),
        ({"new": 100}, [[("add", None, None, 100)]]),
        ({"gpu": "absent"}, [[("remove", "pool-1", "4", None)]]),
        ({"new": 100, "gpu": 50}, [[("add", None, None, 100)], [("edit", "pool-1", "4", 50)]]),
        # too much for both at once: one change, what shrinks first
        ({"new": 300, "gpu": 50}, [[("edit", "pool-1", "4", 50), ("add", None, None, 300)]]),
    ],
)
def test_pools(wanted, specs):
    found = judged(estate(), resource_pools=wanted)
    assert found.problems == {}
    assert set(words(found.steps)) <= {"DvsReconfigureVmVnicNetworkResourcePool_Task"}
    sent = [
        [(s["operation"], s.get("key"), s.get("configVersion"), s.get("allocationInfo", {}).get("reservationQuota"))
         for s in step.args["configSpec"]]
        for step in found.steps
    ]  # fmt: skip
    assert sent == specs


def test_what_shrinks_comes_last_and_pools_before_what_they_are_part_of():
    wanted = {"bandwidth": {"virtual_machine": {"reservation": 20}}, "resource_pools": {"gpu": 30}, "mtu": 9000}
    found = judged(estate(), **wanted)
    assert [(s.method[:18], s.comes_last) for s in found.steps] == [
        ("ReconfigureDvs_Tas", False), ("DvsReconfigureVmVn", True), ("ReconfigureDvs_Tas", True),
    ]  # fmt: skip
    assert "maxMtu" in found.steps[0].args["spec"]
    assert "infrastructureTrafficResourceConfig" in found.steps[2].args["spec"]


def test_it_is_switched_off_after_what_needs_it_on():
    found = judged(estate(), nioc=False, resource_pools={"gpu": "absent"})
    assert [s.method for s in found.steps][-1] == "EnableNetworkResourceManagement"
    assert all(s.comes_last for s in found.steps)
    assert found.problems == {}


@pytest.mark.parametrize(
    ("wanted", "settings", "rule", "said"),
    [
        ({"resource_pools": {"gpu": 301}, "nioc": False}, {}, "switches.nioc", "off"),
        ({"resource_pools": {"gpu": 301}}, {"config__networkResourceControlVersion": "version2"}, "switches.nioc",
         "version2"),
        ({"resource_pools": {"gpu": 401}}, {}, "switches.resource-pools", "401 Mbit/s; there are 400"),
        ({"bandwidth": {"virtual_machine": {"reservation": 149}}}, {}, "switches.resource-pools", "there are 298"),
        ({"bandwidth": {"virtual_machine": {"limit": 199}}}, {}, "switches.reservation", "its limit is 199"),
        ({"bandwidth": {"vmotion": {"reservation": 74_801}}}, {}, "switches.reservation", "75 % of 100000"),
        ({"bandwidth": {"vmotion": {"reservation": 9_801}}}, {"config__pnicCapacityRatioForReservation": 10},
         "switches.reservation", "10 % of 100000"),
    ],
)  # fmt: skip
def test_problems_of_a_switch(wanted, settings, rule, said):
    found = judged(estate(**settings), **wanted)
    assert rule in found.problems
    assert said in found.problems[rule].message


@pytest.mark.parametrize(
    "wanted",
    [
        {"resource_pools": {"gpu": 400}},
        {"bandwidth": {"virtual_machine": {"reservation": 150}}},
        {"bandwidth": {"vmotion": {"reservation": 74_800}}},
        {"bandwidth": {"virtual_machine": {"limit": 200}}},
    ],
)
def test_up_to_the_bounds(wanted):
    assert judged(estate(), **wanted).problems == {}


def test_the_slowest_nic_with_link_counts():
    slow = {**nic("vmnic4"), "linkSpeed": {"speedMb": 1000}}
    of = fabric(machine(ESX1), machine(ESX2, nics=(slow, nic("vmnic0"))), own())
    found = judged(of, bandwidth={"vmotion": {"reservation": 551}})
    assert "vmnic4 of esx02" in found.problems["switches.reservation"].message
    assert judged(of, bandwidth={"vmotion": {"reservation": 550}}).problems == {}


def test_what_is_there_already_is_not_in_the_way():
    assert judged(estate(reservation=1), resource_pools={"gpu": 300}, mtu=9000).problems == {}


def test_a_pool_with_port_groups_is_not_removed():
    used = port_group("dvportgroup-1", "dvpg-rdma", config__vmVnicNetworkResourcePoolKey="pool-1")
    found = judged(estate(used), resource_pools={"gpu": "absent"})
    assert set(found.problems) == {"switches.pool-in-use"}
    assert "dvpg-rdma" in found.problems["switches.pool-in-use"].message


@pytest.mark.parametrize(
    "wanted",
    [
        {"resource_pools": {"default": 5}},
        {"resource_pools": {"a": -1}},
        {"resource_pools": {"": 1}},
        {"resource_pools": {"a": "lots"}},
        {"bandwidth": {"tea": {"limit": 1}}},
        {"bandwidth": {"vmotion": {"limit": 0}}},
        {"bandwidth": {"vmotion": {"reservation": "unlimited"}}},
    ],
)
def test_what_cannot_be_said(wanted):
    with pytest.raises(ValidationError):
        Switches.model_validate({"switches": {"dvs-rdma": wanted}})


# -- port groups


def grouped(of, **wanted):
    return judge(PortGroups.model_validate({"port_groups": {"dvpg-rdma": wanted}}), DC, of)


def test_only_the_pool_is_sent():
    found = grouped(estate(), resource_pool="gpu")
    assert found.fields == {"dvpg-rdma resource_pool": ("default", "gpu")}
    assert found.step.args["spec"] == {
        "_typeName": "DVPortgroupConfigSpec", "configVersion": "7", "vmVnicNetworkResourcePoolKey": "pool-1",
    }  # fmt: skip


def test_back_to_the_pool_without_a_reservation():
    used = port_group("dvportgroup-1", "dvpg-rdma", config__vmVnicNetworkResourcePoolKey="pool-1")
    assert grouped(estate(used), resource_pool="default").step.args["spec"]["vmVnicNetworkResourcePoolKey"] == "-1"
    assert grouped(estate(used), resource_pool="gpu").steps == ()
    assert grouped(estate(), resource_pool="default").steps == ()
    observed = PortGroups.observe((it := estate(used))[DC.ref], it)
    assert observed.export(DC, view(estate(used)), "playbook").state.port_groups["dvpg-rdma"].resource_pool == "gpu"
    assert observed.export(DC, view(estate(used)), "playbook").state.port_groups["dvpg-lan"].resource_pool is None
    assert observed.export(DC, view(estate(used)), "rollback").state.port_groups["dvpg-lan"].resource_pool == "default"


def test_a_pool_that_this_plan_makes_is_looked_up():
    pool = Switches.model_validate({"switches": {"dvs-rdma": {"resource_pools": {"new": 0}}}})
    group = PortGroups.model_validate({"port_groups": {"dvpg-rdma": {"resource_pool": "new"}}})
    plan = plan_one(estate(), DC, pool, group)
    assert plan.problems == ()
    (key,) = (s.args["spec"]["vmVnicNetworkResourcePoolKey"] for s in steps_of(plan, DC)
              if getattr(s, "method", "") == "ReconfigureDVPortgroup_Task")  # fmt: skip
    assert key.name == "dvs-rdma"


@pytest.mark.parametrize(
    ("pool", "settings", "said"),
    [
        ("tea", {}, "no network resource pool tea"),
        ("gpu", {"config__networkResourceManagementEnabled": False}, "off or older"),
        ("gpu", {"config__networkResourceControlVersion": "version2"}, "off or older"),
    ],
)
def test_problems_of_a_port_group(pool, settings, said):
    found = grouped(estate(**settings), resource_pool=pool)
    assert said in found.problems["port_groups.resource-pool"].message


# -- adapters

VM = vm(1)
ALLOCATION = "VirtualEthernetCardResourceAllocation"


def bounded(key=4000, shares=50, level="normal", reservation=0, limit=-1, **more):
    share = {"_typeName": "SharesInfo", "shares": shares, "level": level}
    given = {"_typeName": ALLOCATION, "share": share, "reservation": reservation, "limit": limit}
    return card(key, resourceAllocation=given, **more)


def lan(pools=(POOL,), reservation=200, **more):
    """The switch of dvpg-lan, under Network I/O Control."""
    return Facts(LAN_SWITCH, {
        "name": "dvs-lan", "uuid": "50 2c", "parent": "Folder:group-n1",
        "config.networkResourceManagementEnabled": True,
        "config.networkResourceControlVersion": "version3",
        "config.infrastructureTrafficResourceConfig": (vm_traffic(reservation),),
        "config.vmVnicNetworkResourcePool": tuple(pools),
        **{k.replace("__", "."): v for k, v in more.items()},
    })  # fmt: skip


def want(**entry):
    return Adapters.model_validate({"adapters": ({"port_group": "dvpg-lan", **entry},)})


def asked(of, **entry):
    return judge(want(**entry), VM, of)


def world(*cards, pool="pool-1", **of_switch):
    group = Facts(LAN, {**around(VM)[LAN].properties, "config.vmVnicNetworkResourcePoolKey": pool})
    of = around(VM, *cards)
    return replace(of, objects={**of.objects, LAN: group, LAN_SWITCH: lan(**of_switch)})


def test_bandwidth_of_an_adapter_is_read():
    of = world(bounded(4000), bounded(4001, 100, "high", 30, 500), bounded(4002, 33, "custom"), card(4003))
    found = Adapters.observe(of[VM.ref], of).adapters
    assert [n.bandwidth for n in found] == [(None,) * 3, ("high", 30, 500), (33, None, None), (None,) * 3]
    assert str(found[1]).endswith("(shares high, 30 Mbit/s reserved, limit 500 Mbit/s)")
    shown = Adapters.observe(of[VM.ref], of).export(VM, view(of), "playbook").state
    assert [n.bandwidth for n in shown.adapters] == [n.bandwidth for n in found]


@pytest.mark.parametrize(
    "entry",
    [{}, {"shares": "normal"}, {"shares": 50}, {"reservation": 0}, {"limit": "unlimited"}],
)
def test_what_is_said_out_loud_is_what_is_there(entry):
    assert asked(world(bounded()), **entry).steps == ()
    assert asked(world(card(4000)), **entry).steps == ()


def test_an_adapter_is_changed_while_the_vm_runs():
    step = asked(world(bounded(reservation=10, limit=90)), shares=60, reservation=20).step
    assert not step.needs_power_off
    (change,) = step.device_changes
    assert change["device"]["resourceAllocation"] == {
        "_typeName": ALLOCATION, "reservation": 20, "limit": 90,
        "share": {"_typeName": "SharesInfo", "shares": 60, "level": "custom"},
    }  # fmt: skip


def test_a_new_adapter_has_what_is_said_and_else_what_vcenter_gives():
    (change,) = asked(world(), limit=700).step.device_changes
    assert change["device"]["resourceAllocation"]["limit"] == 700
    assert change["device"]["resourceAllocation"]["share"]["level"] == "normal"
    (change,) = asked(world()).step.device_changes
    assert "resourceAllocation" not in change["device"]


def test_a_rollback_says_defaults_out_loud_where_the_run_said_anything():
    of = world(bounded())
    before = Adapters.observe(of[VM.ref], of)
    stated = view(of, stated={(VM.ref, "adapters"): want(shares="high")})
    (back,) = before.export(VM, stated, "rollback").state.adapters
    assert back.bandwidth == ("normal", 0, "unlimited")
    (back,) = before.export(VM, view(of, stated={(VM.ref, "adapters"): want()}), "rollback").state.adapters
    assert back.bandwidth == (None, None, None)


@pytest.mark.parametrize(
    ("entry", "of", "rule", "said"),
    [
        ({"reservation": 201}, {}, "adapters.reservation", "VMs have 200 reserved"),
        ({"reservation": 200}, {"reservation": 400, "pools": ({**POOL, "allocationInfo": {"reservationQuota": 199}},)},
         "adapters.reservation", "of pool gpu, which reserves 199"),
        ({"reservation": 10, "limit": 9}, {}, "adapters.bandwidth", "the limit is 9"),
        ({"shares": "low"}, {"config__networkResourceManagementEnabled": False}, "adapters.bandwidth", "is off"),
        ({"limit": 9}, {"config__networkResourceControlVersion": "version2"}, "adapters.bandwidth", "not version 3"),
        ({"port_group": "VM Network", "shares": "low"}, {}, "adapters.bandwidth", "no distributed switch"),
    ],
)  # fmt: skip
def test_problems_of_an_adapter(entry, of, rule, said):
    found = asked(world(**of), **entry)
    assert said in found.problems[rule].message


def test_up_to_the_quota_and_where_there_is_no_pool():
    assert asked(world(), reservation=200).problems == {}
    small = ({**POOL, "allocationInfo": {"reservationQuota": 10}},)
    assert "adapters.reservation" in asked(world(pools=small), reservation=200).problems
    assert asked(world(pools=small, pool="-1"), reservation=200).problems == {}


def test_an_adapter_as_it_is_is_not_in_the_way():
    off = {"config__networkResourceManagementEnabled": False}
    assert asked(world(bounded(reservation=900), **off), connected=False).problems == {}


def test_sriov_passes_it_by():
    found = asked(world(card(4000, typ="VirtualSriovEthernetCard")), type="sriov", shares="high")
    assert "passes Network I/O Control by" in found.problems["adapters.bandwidth"].message
