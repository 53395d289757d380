"""Health on the lab: healthy VMs have no finding; each planted fault is found, by the side that can see it."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest
import yaml
from support.vm_sets import FARM, FULL, INVENTORY

from vsphere_ai.security.state_dir import state_dir

pytestmark = pytest.mark.lab
VM = "train-02"


@pytest.fixture
def farm(cli, make_lab, monkeypatch):
    lab = make_lab(FARM)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    inventory = cli.file(INVENTORY, "inventory.yml")
    playbook = cli.file(FULL.replace("rail: 1,", "rail: 1, mtu: 9000,"))
    assert cli("apply", playbook, "--yes", "-i", inventory) == 0, cli.out + cli.err

    at_once = cli.file("interval: 0\n", "at-once.yml")

    def found(profile=at_once):
        code = cli("health", playbook, "-i", inventory, "-o", "json", "--profile", profile)
        assert cli.out, cli.err
        rows = {(f["rule"], f["verdict"], f["target"]["name"], f["source"]) for f in json.loads(cli.out)["findings"]}
        return code, {row for row in rows if row[1] not in ("pass", "info")}

    found.lab, found.cli, found.inventory, found.playbook = lab, cli, inventory, playbook
    return found


def of(lab, vm):
    farm = lab.get("/lab/farm")
    host = next(v["host"] for v in farm["vms"] if v["name"] == vm)
    gpus = next(h["gpus"] for h in farm["hosts"] if h["name"] == host)
    return host, next(g["pci"] for g in gpus if vm in g["vms"])


def test_each_fault_is_found_by_the_side_that_sees_it(farm):
    assert farm() == (0, set())
    cli = farm.cli
    learned = cli.folder / "learned.yml"
    assert cli("health", "train-01", "-i", farm.inventory, "--learn", learned) == 0, cli.err
    assert cli("health", "train-01", "-i", farm.inventory, "--learn", learned) == 64, "it is there already"
    profile = cli.file(learned.read_text("utf-8") + "interval: 0\n", "profile.yml")
    said = yaml.safe_load(learned.read_text("utf-8"))
    assert (said["gpus"], said["rails"], said["mtu"], said["roce_v2"]) == (1, 1, 9000, True)
    assert farm(profile) == (0, set())
    assert cli("health", "train-*", "-i", farm.inventory, "--learn", cli.folder / "all.yml") == 0
    every = yaml.safe_load((cli.folder / "all.yml").read_text("utf-8"))
    assert every == said | {"numbers": every["numbers"]}, "all are alike"

    host, gpu = of(farm.lab, VM)
    sharing = {vm["name"] for vm in farm.lab.get("/lab/farm")["vms"] if of_gpu(farm.lab, vm["name"]) == (host, gpu)}
    beside = {vm["name"] for vm in farm.lab.get("/lab/farm")["vms"] if vm["host"] == host and vm["name"][:5] == "train"}
    both = {"host": host, "gpu": gpu}
    cases = [
        ({"kind": "gpu-missing", "vm": VM}, ("gpu-count", "fail", "guest"), {VM}),
        ({"kind": "xid", "vm": VM, "number": 79}, ("xid", "fail", "guest"), sharing),
        ({"kind": "xid", "vm": VM, "number": 154}, ("xid", "fail", "guest"), sharing),
        ({"kind": "xid", **both, "number": 54, "seen": "host"}, ("xid", "fail", "host"), sharing),
        ({"kind": "xid", **both, "number": 54, "seen": "host", "hours": 1.5}, ("xid", "fail", "host"), sharing),
        ({"kind": "host-log", "host": host}, ("host-log", "unknown", "host"), beside),
        ({"kind": "ecc", **both}, ("ecc", "fail", "host"), sharing),
        ({"kind": "remap-pending", **both}, ("remap", "warn", "host"), sharing),
        ({"kind": "gpu-throttled", **both, "reason": "thermal"}, ("throttle", "fail", "host"), sharing),
        ({"kind": "gpu-throttled", **both, "reason": "power"}, ("throttle", "warn", "host"), sharing),
        ({"kind": "gpu-pcie", **both, "factor": 0.5}, ("pcie", "fail", "host"), sharing),
        (
            {"kind": "uplink-slow", "host": host, "nic": "vmnic4", "factor": 0.25},
            ("uplink-speed", "fail", "host"),
            beside,
        ),
        ({"kind": "driver", "vm": VM, "version": "525.85.12"}, ("driver-branch", "fail", "host"), {VM}),
        ({"kind": "rail-down", "vm": VM}, ("rdma-link", "fail", "guest"), {VM}),
        ({"kind": "mtu", "vm": VM, "nic": "rdma1", "mtu": 1500}, ("mtu", "fail", "guest"), {VM}),
        ({"kind": "gid", "vm": VM, "nic": "rdma1"}, ("gid", "fail", "guest"), {VM}),
        ({"kind": "rule-missing", "vm": VM}, ("policy-route", "fail", "guest"), {VM}),
        ({"kind": "package", "vm": VM, "name": "torch", "version": "2.1"}, ("versions", "fail", "guest"), {VM}),
    ]
    for defect, (check, verdict, witness), vms in cases:
        farm.lab.set_defects(defect)
        forget(farm)
        code, rows = farm(profile)
        wanted = {(check, verdict, vm, witness) for vm in vms}
        assert rows == wanted, defect
        assert code == {"warn": 0, "unknown": 1, "fail": 2}[verdict], defect
    for defect, (check, verdict, witness), _ in (c for c in cases if c[1][0] in ("mtu", "gid", "policy-route")):
        farm.lab.set_defects(defect)
        assert farm() == (2, {(check, verdict, VM, witness)}), f"{defect}: the playbook says so, without a profile"
        cli("health", farm.playbook, "-i", farm.inventory, "-o", "json")
        (said,) = (f for f in json.loads(cli.out)["findings"] if f["verdict"] not in ("pass", "info"))
        assert (said["target"]["host"], bool(said["target"]["part"]), bool(said["remedy"])) == (host, True, True)
    farm.lab.set_defects()
    forget(farm)
    assert farm(profile) == (0, set())


def of_gpu(lab, vm):
    try:
        return of(lab, vm)
    except StopIteration:
        return None


def forget(farm):
    """Let no earlier check be known: its XIDs and counters count for a week."""
    for path in (state_dir() / "health").glob("*.json"):
        path.unlink()


def test_counters_are_rates_between_two_checks_and_a_silent_guest_is_named(farm):
    farm.lab.set_defects({"kind": "counter", "vm": VM, "name": "link_downed", "rate": 1})
    twice = farm.cli.file("interval: 10\n", "twice.yml")
    assert farm(twice) == (2, {("flapping", "fail", VM, "guest")})
    (kept,) = (state_dir() / "health").glob("*.json")
    known = json.loads(kept.read_text())
    for each in known["counters"].values():  # as if that check had been a little earlier; the guests were on already
        each["taken"] = (datetime.fromisoformat(each["taken"]) - timedelta(seconds=10)).isoformat()
    kept.write_text(json.dumps(known))
    assert farm() == (2, {("flapping", "fail", VM, "guest")}), "against the last check, without a second reading"
    farm.lab.set_defects({"kind": "flood", "vm": VM, "command": "dmesg"})
    forget(farm)
    assert farm() == (1, {("kernel-log", "unknown", VM, "guest")})
