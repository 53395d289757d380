"""DRS empties a host with VMs that a rule keeps together: they leave together, to one host, or none of them leaves."""

from __future__ import annotations

import pytest
import yaml
from pyVmomi import vim

pytestmark = pytest.mark.lab

LOCKED = {"cpus": 2, "memory_gb": 24, "memory_reservation_locked": True, "power": "on"}


def pair(**rule):
    return {"name": "pair", "kind": "affinity", "vms": ["a", "b"], "mandatory": True, **rule}


def farm(vms, rules):
    """Three hosts with memory for two of the VMs each."""
    return yaml.safe_dump({
        "name": "together",
        "timing": {"task_seconds": 0.005, "vmotion_seconds": 0.02},
        "clusters": [{"name": "a", "rules": rules}],
        "hosts": [{"name": "esx[1:3].lab.local", "cluster": "a", "memory_gb": 64, "system_memory_mb": 6144}],
        "vms": [{"name": name, "host": f"esx{at}.lab.local", **LOCKED, **more} for name, at, more in vms],
    })  # fmt: skip


@pytest.fixture
def begin(make_lab, new_client):
    return lambda vms, *rules: new_client(make_lab(farm(vms, [*rules])))


def short(host):
    return host.name.partition(".")[0]


def homes(soap, *names):
    return [short(soap.vm(name).runtime.host) for name in names]


def dry_run(soap, host="esx1"):
    found = soap.find(vim.ClusterComputeResource, "a").ClusterEnterMaintenanceMode([soap.host(host)])
    moves = [
        a.drsMigration for r in found.recommendations for a in r.action if isinstance(a, vim.cluster.MigrationAction)
    ]
    stuck = {each.vm.name: {type(f).__name__.rpartition(".")[2] for f in each.fault}
             for each in (found.fault.faultsByVm if found.fault else ())}  # fmt: skip
    return {move.vm.name: short(move.destination) for move in moves}, stuck


BESIDE = [("a", 1, {}), ("b", 1, {})]


@pytest.mark.parametrize(
    "rules", [[pair()], [pair(mandatory=False)], [pair(vms=["a", "x"]), pair(name="p", vms=["x", "b"])]]
)
def test_they_go_to_one_host_that_takes_both(begin, rules):
    """The one has left by the time the other follows; one bound to both by rules goes along."""
    extra = [("x", 1, {"memory_gb": 1})] if len(rules) > 1 else []
    soap = begin([*BESIDE, *extra, ("full", 2, {})], *rules)
    names = ["a", "b", *(name for name, _, _ in extra)]
    assert dry_run(soap) == (dict.fromkeys(names, "esx3"), {})
    soap.wait(soap.host("esx1").EnterMaintenanceMode_Task(30))
    assert homes(soap, *names) == ["esx3"] * len(names)


def test_where_no_host_takes_both_neither_leaves(begin):
    """Each alone would find a place. Another VM of the host leaves all the same."""
    soap = begin([*BESIDE, ("small", 1, {"memory_gb": 1}), ("full", 2, {}), ("taken", 3, {})], pair())
    moves, stuck = dry_run(soap)
    assert moves == {}, "the host cannot be emptied"
    assert {*stuck} == {"a", "b"}
    task = soap.host("esx1").EnterMaintenanceMode_Task(2)
    soap.until(lambda: homes(soap, "small") != ["esx1"])
    with pytest.raises(vim.fault.Timedout):
        soap.wait(task)
    assert homes(soap, "a", "b") == ["esx1", "esx1"]


def test_without_the_rule_they_part(begin):
    soap = begin([*BESIDE, ("full", 2, {}), ("taken", 3, {})], pair(enabled=False))
    moves, stuck = dry_run(soap)
    assert ({*moves.values()}, stuck) == ({"esx2", "esx3"}, {})


def test_one_that_cannot_leave_keeps_the_other(begin):
    soap = begin([("a", 1, {"drs": "off"}), ("b", 1, {})], pair())
    moves, stuck = dry_run(soap)
    assert (moves, stuck) == ({}, {"a": {"DrsDisabledOnVm"}, "b": {"RuleViolation"}})


def test_one_follows_to_where_the_other_runs_already(begin):
    soap = begin([("a", 1, {}), ("b", 3, {})], pair())
    assert dry_run(soap) == ({"a": "esx3"}, {})


def test_apart_from_a_third_one(begin):
    """The third one is on the host with the most room."""
    rules = [pair(), {"name": "apart", "kind": "anti-affinity", "vms": ["b", "far"], "mandatory": True}]
    soap = begin(
        [*BESIDE, ("other", 2, {"memory_gb": 1}), ("more", 2, {"memory_gb": 1}), ("far", 3, {"memory_gb": 1})], *rules
    )
    assert dry_run(soap) == ({"a": "esx2", "b": "esx2"}, {})
