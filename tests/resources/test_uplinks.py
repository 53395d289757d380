"""NICs of hosts under distributed switches: joined and moved by name, never under the management network."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from support.estates import ESX1, ESX2, made, view, wants
from support.fabrics import DC, LAN, PG, RDMA, fabric, machine, nic, order, port_group, proxy, switch, tagged, vmk
from support.judging import judge, plan_one, words
from support.plays import ONE

from vsphere_ai.fabric.route import broken_link
from vsphere_ai.model.deferred import chosen, is_deferred
from vsphere_ai.model.facts import Facts
from vsphere_ai.resources.switches import Switches
from vsphere_ai.resources.uplinks import Uplinks

ALONE = f"{ONE}  uplinks: {{dvs-rdma: {{}}}}\n"


def state(**switches):
    return Uplinks.model_validate({"uplinks": {k.replace("_", "-"): v for k, v in switches.items()}})


def judged(of, **switches):
    return judge(state(**switches), ESX1, of)


def sent(step):
    """Return (switch, operation, NICs by port) of a step."""
    (member,) = step.args["spec"]["host"]
    assert member["host"] == ESX1.ref
    specs = (member.get("backing") or {}).get("pnicSpec", ())
    return step.on, member["operation"], {s["uplinkPortKey"]: s["pnicDevice"] for s in specs}


def on(*proxies, **more):
    return fabric(machine(ESX1, *proxies, **more))


def test_a_member_gets_exactly_the_named_nics():
    found = judged(on(proxy("dvs-rdma", {"Uplink 1": "vmnic4", "Uplink 2": "vmnic5"})), dvs_rdma={"Uplink 1": "vmnic4"})
    assert found.problems == {}
    assert sent(found.step) == (RDMA, "edit", {"dvs-rdma/0": "vmnic4"})
    assert found.step.args["spec"]["configVersion"] == "3"


def test_a_nic_changes_its_uplink():
    found = judged(on(proxy("dvs-rdma", {"Uplink 1": "vmnic4"})), dvs_rdma={"Uplink 2": "vmnic4"})
    assert sent(found.step) == (RDMA, "edit", {"dvs-rdma/1": "vmnic4"})


def test_what_is_as_wanted_is_left_alone_and_so_is_what_is_not_named():
    of = on(proxy("dvs-rdma", {"Uplink 1": "vmnic4"}), proxy("dvs-lan", {"Uplink 1": "vmnic0"}))
    found = judged(of, dvs_rdma={"Uplink 1": "vmnic4"})
    assert (found.fields, found.steps) == ({}, ())


def test_a_host_joins_first_and_its_ports_are_looked_up_then():
    found = judged(on(), dvs_rdma={"Uplink 1": "vmnic4"})
    join, give = found.steps
    assert sent(join) == (RDMA, "add", {})
    assert "backing" not in join.args["spec"]["host"][0]
    ((port, device),) = sent(give)[2].items()
    deferred = port
    assert (device, deferred.managed, deferred.name) == ("vmnic4", "HostSystem", "esx01")
    assert chosen((proxy("dvs-lan"), proxy("dvs-rdma")), deferred.path) == "dvs-rdma/0"
    assert give.args["spec"]["host"][0]["backing"]["pnicSpec"][0]["uplinkPortgroupKey"] == "up-dvs-rdma"


def test_a_host_joins_without_nics():
    found = judged(on(), dvs_rdma={})
    assert [sent(s) for s in found.steps] == [(RDMA, "add", {})]


def test_a_nic_is_taken_from_one_switch_before_the_other_gets_it():
    of = on(proxy("dvs-rdma"), proxy("dvs-lan", {"Uplink 1": "vmnic0", "Uplink 2": "vmnic5"}))
    found = judged(of, dvs_rdma={"Uplink 1": "vmnic5"}, dvs_lan={"Uplink 1": "vmnic0"})
    assert found.problems == {}
    assert [sent(s) for s in found.steps] == [
        (LAN, "edit", {"dvs-lan/0": "vmnic0"}),
        (RDMA, "edit", {"dvs-rdma/0": "vmnic5"}),
    ]


def test_two_switches_change_their_nics():
    of = on(proxy("dvs-rdma", {"Uplink 1": "vmnic4"}), proxy("dvs-lan", {"Uplink 1": "vmnic5"}))
    found = judged(of, dvs_rdma={"Uplink 1": "vmnic5"}, dvs_lan={"Uplink 1": "vmnic4"})
    freed, done = found.steps[:2], found.steps[2:]
    assert [(sent(s)[0], sent(s)[2]) for s in freed] == [(RDMA, {}), (LAN, {})]
    assert [(sent(s)[0], list(sent(s)[2].values())) for s in done] == [(RDMA, ["vmnic5"]), (LAN, ["vmnic4"])]
    assert all(is_deferred(port) for s in done for port in sent(s)[2]), "its membership is another one by then"


def test_neither_maintenance_nor_reboot():
    plan = plan_one(on(), ESX1, state(dvs_rdma={"Uplink 1": "vmnic4"}))
    assert words([p.step for p in plan.steps]) == ["ReconfigureDvs_Task", "ReconfigureDvs_Task", "as-planned"]
    assert plan.impact.maintenance == ()


def test_the_switch_and_its_new_uplink_may_be_of_the_same_plan():
    new = Switches.model_validate(
        {"switches": {"new": {"uplinks": ("A",)}, "dvs-rdma": {"uplinks": ("Uplink 1", "Uplink 2", "C")}}}
    )
    of = on(proxy("dvs-rdma", {"Uplink 1": "vmnic4"}))
    plan = made(of, {DC: wants(new), ESX1: wants(state(new={"A": "vmnic5"}, dvs_rdma={"C": "vmnic4"}))})
    assert plan.problems == ()
    own = [p.step for p in plan.steps if p.step.target == ESX1 and hasattr(p.step, "method")]
    assert [s.on.name if is_deferred(s.on) else s.on for s in own] == ["new", "new", RDMA]
    assert is_deferred(next(iter(sent(own[2])[2]))), "the port of the new uplink is looked up"


# -- problems


@pytest.mark.parametrize(
    ("wanted", "rule", "said"),
    [
        ({"dvs-x": {}}, "uplinks.switch", "no distributed switch dvs-x"),
        ({"dvs-rdma": {"Uplink 9": "vmnic4"}}, "uplinks.uplink", "no uplink Uplink 9"),
        ({"dvs-rdma": {"Uplink 1": "vmnic9"}}, "uplinks.nic", "no vmnic9"),
        ({"dvs-rdma": {"Uplink 1": "vmnic4", "Uplink 2": "vmnic4"}}, "uplinks.twice", "vmnic4"),
        ({"dvs-rdma": {"Uplink 1": "vmnic0"}}, "uplinks.taken", "belongs to dvs-lan"),
        ({"dvs-rdma": {"Uplink 1": "vmnic1"}}, "uplinks.taken", "belongs to vSwitch0"),
    ],
)
def test_problems(wanted, rule, said):
    standard = ({"name": "vSwitch0", "pnic": ("key-vmnic1",)},)
    of = on(proxy("dvs-rdma"), proxy("dvs-lan", {"Uplink 1": "vmnic0"}), config__network__vswitch=standard)
    found = judge(Uplinks.model_validate({"uplinks": wanted}), ESX1, of)
    assert set(found.problems) == {rule}
    assert said in found.problems[rule].message


def test_an_old_host_does_not_join_a_newer_switch():
    old = {"version": "6.7.0", "_typeName": "AboutInfo"}
    assert set(judged(on(config__product=old), dvs_rdma={}).problems) == {"uplinks.version"}
    stays = judged(on(proxy("dvs-rdma"), config__product=old), dvs_rdma={"Uplink 1": "vmnic4"})
    assert stays.problems == {}


def test_link_aggregation_is_left_alone():
    lag = ({"lagKey": "1", "lagName": "lag1", "uplinkPort": ({"key": "p1", "value": "lag1-0"},)},)
    of = on(proxy("dvs-rdma", {"p1": "vmnic4"}, hostLag=lag))
    assert set(judged(of, dvs_rdma={"Uplink 1": "vmnic5"}).problems) == {"uplinks.lag"}
    now = view(of).state(ESX1.ref, "uplinks")
    assert now.uplinks == {"dvs-rdma": {"lag1-0": "vmnic4"}}
    assert now.export(ESX1, view(of), "playbook").state is None
    assert "dvs-rdma" in now.export(ESX1, view(of), "playbook").left_out


def test_a_host_that_cannot_be_read():
    gone = Facts(ESX1.ref, {"name": "esx01", "parent": "Folder:group-h1"})
    assert set(judged(fabric(gone), dvs_rdma={}).problems) == {"uplinks.unreadable"}


@pytest.mark.parametrize("name", ["eth0", "vmnic", "vmnic4; reboot", "VMNIC4", ""])
def test_a_nic_is_spelled_vmnic_and_a_number(name):
    with pytest.raises(ValidationError):
        state(dvs_rdma={"Uplink 1": name})


# -- the management network


def managed(nics, *, tag="vmk0", down=(), teaming=None, **more):
    cards = tuple(nic(n, link=n not in down) for n in ("vmnic0", "vmnic1", "vmnic4", "vmnic5"))
    group = port_group("dvportgroup-2", "dvpg-lan", LAN, **({"uplinkTeamingPolicy": teaming} if teaming else {}))
    adapters = (vmk("vmk0", "dvs-lan", "dvportgroup-2"), vmk("vmk1", "dvs-rdma", "dvportgroup-1"))
    tags = {"config__virtualNicManagerInfo__netConfig": tagged(tag)} if tag else {}
    host = machine(ESX1, proxy("dvs-lan", nics), proxy("dvs-rdma", {"Uplink 1": "vmnic4"}), nics=cards, vmks=adapters,
                   **tags, **more)  # fmt: skip
    return fabric(group, host)


@pytest.mark.parametrize(
    ("nics", "wanted", "refused"),
    [
        ({"Uplink 1": "vmnic0"}, {}, True),
        ({"Uplink 1": "vmnic0"}, {"Uplink 2": "vmnic0"}, True),
        ({"Uplink 1": "vmnic0"}, {"Uplink 1": "vmnic1"}, True),
        ({"Uplink 1": "vmnic0"}, {"Uplink 1": "vmnic0", "Uplink 2": "vmnic1"}, False),
        ({"Uplink 1": "vmnic0", "Uplink 2": "vmnic1"}, {"Uplink 1": "vmnic0"}, False),
        ({"Uplink 1": "vmnic0", "Uplink 2": "vmnic1"}, {"Uplink 2": "vmnic1"}, False),
        ({"Uplink 1": "vmnic0", "Uplink 2": "vmnic1"}, {"Uplink 1": "vmnic5"}, True),
        ({}, {"Uplink 1": "vmnic0"}, False),
    ],
)
def test_one_nic_of_the_management_network_stays_where_it_is(nics, wanted, refused):
    found = judged(managed(nics), dvs_lan=wanted)
    assert set(found.problems) == ({"uplinks.management"} if refused else set())


def test_a_nic_without_link_or_on_an_unused_uplink_does_not_count():
    both = {"Uplink 1": "vmnic0", "Uplink 2": "vmnic1"}
    only_first = {"uplinkPortOrder": order("Uplink 1")}
    assert judged(managed(both, down=("vmnic1",)), dvs_lan={"Uplink 2": "vmnic1"}).problems
    assert judged(managed(both, teaming=only_first), dvs_lan={"Uplink 2": "vmnic1"}).problems
    standby = {"uplinkPortOrder": order("Uplink 1", standby=("Uplink 2",))}
    assert not judged(managed(both, teaming=standby), dvs_lan={"Uplink 2": "vmnic1"}).problems


def test_the_tag_decides_and_without_tags_it_is_vmk0():
    elsewhere = managed({"Uplink 1": "vmnic0"}, tag="vmk1")
    assert not judged(elsewhere, dvs_lan={}).problems
    assert set(judged(elsewhere, dvs_rdma={}).problems) == {"uplinks.management"}
    assert set(judged(managed({"Uplink 1": "vmnic0"}, tag=""), dvs_lan={}).problems) == {"uplinks.management"}


def test_a_swap_with_the_management_network_in_it_is_refused():
    found = judged(managed({"Uplink 1": "vmnic0"}), dvs_lan={"Uplink 1": "vmnic4"}, dvs_rdma={"Uplink 1": "vmnic0"})
    assert set(found.problems) == {"uplinks.management"}


NICS = ("vmnic0", "vmnic1", "vmnic4", "vmnic5")
MAPPING = st.dictionaries(st.sampled_from(["Uplink 1", "Uplink 2"]), st.sampled_from(NICS), max_size=2)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_whatever_is_wanted_the_management_network_has_a_nic_after_every_step(data):
    """Carry the steps out on a small model of the host: NICs never have two owners, management always has one."""
    left = list(NICS)

    def assign():
        found = {}
        for uplink in data.draw(st.lists(st.sampled_from(["Uplink 1", "Uplink 2"]), unique=True)):
            if left:
                found[uplink] = left.pop(data.draw(st.integers(0, len(left) - 1)))
        return found

    lan, rdma = assign(), assign()
    if not lan:
        return
    host = machine(
        ESX1, proxy("dvs-lan", lan), proxy("dvs-rdma", rdma), vmks=(vmk("vmk0", "dvs-lan", "dvportgroup-2"),)
    )
    wanted = {n: data.draw(MAPPING) for n in data.draw(st.lists(st.sampled_from(["dvs-lan", "dvs-rdma"]), unique=True))}
    found = judge(Uplinks.model_validate({"uplinks": wanted}), ESX1, fabric(host))
    have = {LAN: dict(lan), RDMA: dict(rdma)}
    for step in found.steps:
        ref, operation, nics = sent(step)
        assert operation == "edit"
        name = "dvs-lan" if ref == LAN else "dvs-rdma"
        have[ref] = {uplink_of(port, name): device for port, device in nics.items()}
        owners = [device for each in have.values() for device in each.values()]
        assert len(set(owners)) == len(owners)
        assert any(have[LAN].get(u) == n for u, n in lan.items())
    if not found.problems:
        expected = {"dvs-lan": lan, "dvs-rdma": rdma, **wanted}
        assert {"dvs-lan": have[LAN], "dvs-rdma": have[RDMA]} == expected


def uplink_of(port, name):
    key = chosen((proxy("dvs-lan"), proxy("dvs-rdma")), port.path) if is_deferred(port) else port
    return {f"{name}/0": "Uplink 1", f"{name}/1": "Uplink 2"}[key]


# -- what others see, and show


def test_the_chain_of_rdma_holds_over_what_is_planned():
    group = port_group("dvportgroup-1", "dvpg-rdma", uplinkTeamingPolicy={"uplinkPortOrder": order("Uplink 1")})
    of = fabric(group, machine(ESX1), machine(ESX2, proxy("dvs-rdma", {"Uplink 1": "vmnic4", "Uplink 2": "vmnic5"})))
    for target in (ESX1, ESX2):
        assert broken_link(of, target.ref, of[f"{PG}:dvportgroup-1"])
        seen = view(of)
        wanted = state(dvs_rdma={"Uplink 1": "vmnic4"}).settle(target, seen)
        after = seen.with_facts(wanted.project(target, seen, "plan").facts).estate
        assert broken_link(after, target.ref, after[f"{PG}:dvportgroup-1"]) is None


def test_show_gives_a_playbook_whose_plan_is_empty():
    of = on(proxy("dvs-rdma", {"Uplink 1": "vmnic4"}), proxy("dvs-lan"))
    seen = view(of)
    shown = seen.state(ESX1.ref, "uplinks").export(ESX1, seen, "playbook").state
    again = Uplinks.model_validate_json(json.dumps(shown.model_dump(mode="json", exclude_none=True)))
    assert again.uplinks == {"dvs-rdma": {"Uplink 1": "vmnic4"}, "dvs-lan": {}}
    assert judge(again, ESX1, of).fields == {}
    assert view(fabric(machine(ESX1))).state(ESX1.ref, "uplinks").export(ESX1, seen, "playbook").state is None


def test_a_plan_shows_uplinks_in_words():
    plan = plan_one(
        on(proxy("dvs-rdma", {"Uplink 1": "vmnic4"})), ESX1, state(dvs_rdma={"Uplink 2": "vmnic5"}, dvs_lan={})
    )
    (item,) = plan.items
    assert {f.name: (f.before, f.after) for f in item.fields} == {
        "dvs-rdma": (("Uplink 1 = vmnic4",), ("Uplink 2 = vmnic5",)),
        "dvs-lan": (None, ("no NIC",)),
    }


def test_a_switch_that_loses_its_last_nic_is_remarked():
    assert "cut off" in judged(on(proxy("dvs-rdma", {"Uplink 1": "vmnic4"})), dvs_rdma={}).notes[0]
    assert judged(on(), dvs_rdma={}).notes == ()


def test_a_switch_of_the_same_name_elsewhere_is_not_meant():
    far = (
        Facts("Datacenter:dc-2", {"name": "DC1", "parent": "Folder:group-d1"}),
        switch("VmwareDistributedVirtualSwitch:dvs-9", "dvs-far", parent="Datacenter:dc-2"),
    )
    assert set(judged(fabric(machine(ESX1), *far), dvs_far={}).problems) == {"uplinks.switch"}
