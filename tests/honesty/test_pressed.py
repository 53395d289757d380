"""Farms on which little is left are such as can be, all that is promised is drawn, and a way is found where one is."""

from __future__ import annotations

import pytest
import yaml
from honesty import cases, pressed
from honesty.case import VERSIONS
from honesty.exhaustive import can_be_done
from honesty.labs import Labs

from vsphere_ai.lab.admission.pool_tree import MEMORY, unreserved
from vsphere_ai.lab.admission.supply import free_memory
from vsphere_ai.lab.build import build
from vsphere_ai.lab.scenario_file import load

DRAWN = [cases.case(1, n) for n in range(cases.PRESSED, cases.PRESSED + 400)]
VM = {"host": "esx01.lab.local", "power": "on", "memory_gb": 8, "tools": "running", "network": "dvpg-lan"}
FARM = {
    "name": "way",
    "clusters": [{"name": "gpu-a", "pools": ["lean"]}],
    "switches": [{"name": "dvs-lan", "port_groups": [{"name": "dvpg-lan"}]}],
    "hosts": [
        {"name": f"esx0{n}.lab.local", "cluster": "gpu-a", "memory_gb": 32,
         "nics": [{"name": "vmnic0", "pci": "0000:18:00.0", "switch": "dvs-lan"}]} for n in (1, 2)
    ],
}  # fmt: skip


def test_all_that_is_promised_is_drawn():
    assert {c.release for c in DRAWN} == {*VERSIONS}
    assert {c.fate for c in DRAWN} == {*pressed.FATES}
    clusters = [c.clusters[pressed.CLUSTER] for c in DRAWN]
    assert {k.get("ha", {}).get("admission_control", "") for k in clusters} == {
        "",
        "off",
        "percentage",
        "slots",
        "hosts",
    }
    kinds = {(r["kind"], r["mandatory"], r["enabled"]) for k in clusters for r in k["rules"]}
    assert {kind for kind, mandatory, enabled in kinds if mandatory and enabled} == {
        "affinity", "anti-affinity", "host-affinity", "host-anti-affinity",
    }  # fmt: skip
    assert {w["way"] for c in DRAWN for w in c.job["windows"]} == {"power_off", "vmotion"}
    windows = [p.body for c in DRAWN for p in c.plays if p.of == "hosts"]
    assert any("nics" in w for w in windows)
    assert any("kernel" in w for w in windows)
    assert any(c.sets and c.plays for c in DRAWN)
    more = {key for c in DRAWN for v in c.vms for key in v.more}
    assert more >= {"pool", "datastore", "iso", "drs", "swap", "memory_reservation_mb", "cpu_reservation_mhz"}


def test_no_host_and_no_pool_begins_with_more_memory_reserved_than_it_has(tmp_path):
    for number, made in enumerate(DRAWN[:40]):
        folder = tmp_path / str(number)
        folder.mkdir()
        made.write(folder)
        farm = build(load(folder / "scenario.yml"), "test")
        for host in made.hosts:
            assert free_memory(farm, farm.named[f"host:{host.name}"]) >= 0, number
        for pool in (p for p in farm.store.objects.values() if p.moid.startswith("resgroup")):
            assert unreserved(farm, pool, MEMORY) >= 0, (number, pool["name"])
        farm.close()


@pytest.fixture(scope="module")
def way(tmp_path_factory):
    labs = Labs()

    def found(vms, job, **more):
        path = tmp_path_factory.mktemp("way") / "scenario.yml"
        path.write_text(yaml.safe_dump({**FARM, **more, "vms": [{**VM, **v} for v in vms]}))
        return labs.ways(path, {"windows": [], "changes": {}, **job})

    yield found
    labs.close()


FULL = {"a": {"memory_reservation": "full"}}
EMPTIED = [{"host": "esx01.lab.local", "way": "vmotion"}]
APART = {"clusters": [{"name": "gpu-a", "rules": [
    {"name": "r", "kind": "anti-affinity", "vms": ["a", "b"], "mandatory": True}]}]}  # fmt: skip
TOGETHER = {"clusters": [{"name": "gpu-a", "rules": [
    {"name": "r", "kind": "affinity", "vms": ["a", "b"], "mandatory": True}]}]}  # fmt: skip
OFF_AFTER = [*EMPTIED, {"host": "esx02.lab.local", "way": "power_off"}]


@pytest.mark.parametrize(
    ("vms", "job", "more", "expected"),
    [
        ([{"name": "a", "memory_gb": 24}], {"changes": FULL}, {}, True),
        ([{"name": "a", "memory_gb": 40}], {"changes": FULL}, {}, False),
        ([{"name": "a"}, {"name": "b", "host": "esx02.lab.local"}], {"windows": EMPTIED}, {}, True),
        ([{"name": "a"}, {"name": "b", "host": "esx02.lab.local"}], {"windows": EMPTIED}, APART, False),
        # DRS brings the one to the other, which can be changed then; but it moves on where that host is emptied, too
        ([{"name": "a"}, {"name": "b", "host": "esx02.lab.local"}], {"changes": {"b": {"cpus": 2}}}, TOGETHER, False),
        ([{"name": "a"}, {"name": "b", "host": "esx02.lab.local"}],
         {"windows": EMPTIED, "changes": {"b": {"cpus": 2}}}, TOGETHER, True),
        ([{"name": "a"}, {"name": "b", "host": "esx02.lab.local"}], {"windows": OFF_AFTER}, TOGETHER, False),
        # both leave together, or none of them does
        ([{"name": "a"}, {"name": "b"}], {"windows": EMPTIED}, TOGETHER, True),
        ([{"name": n, "memory_gb": 15, "memory_reservation_locked": True} for n in ("a", "b")],
         {"windows": EMPTIED}, TOGETHER, False),
        # the one has to give way before the other one fits
        (
            [{"name": "a", "memory_gb": 24},
             {"name": "b", "host": "esx01.lab.local", "memory_gb": 24, "memory_reservation_locked": True}],
            {"changes": {"a": {"memory_reservation": "full"}, "b": {"memory_reservation": 0}}}, {}, True,
        ),
        ([{"name": "image", "power": "off"}],
         {"set": {"names": "n-[01:02]", "cpus": 4, "memory_gb": 20, "locked": True, "hosts": []}}, {}, True),
        ([{"name": "image", "power": "off"}],
         {"set": {"names": "n-[01:03]", "cpus": 4, "memory_gb": 20, "locked": True, "hosts": []}}, {}, False),
    ],
)  # fmt: skip
def test_a_way_is_found_where_one_is(way, vms, job, more, expected):
    assert way(vms, job, **more) is expected


def test_a_search_that_breaks_is_no_answer(tmp_path):
    with pytest.raises(RuntimeError, match="broke"):
        can_be_done(tmp_path / "none.yml", {"windows": [], "changes": {}})
