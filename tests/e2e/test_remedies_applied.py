"""Where the help of a problem names a play, `plan` accepts what comes of following it, on hosts of every release."""

from __future__ import annotations

import re
from copy import deepcopy

import pytest
import yaml

pytestmark = pytest.mark.lab
NAMED = re.compile(
    r"(?:^|; |: |, )add (?P<kind>\w+): (?P<value>\{.*?\}+) to (?:the play|a play for (?P<host>\S+?))(?=,|;|$)"
)
RAISED = re.compile(r"write version: (?P<version>\d+) under hardware: in the play for \S+")
NEWER_HOSTS = re.compile(r"^upgrade the host to ESXi|^hardware version \d+ needs ESXi \S+ or later on every host")
ROUNDS = 5
GPUS = [{"pci": f"0000:{bus}:00.0", "board": "a100-40gb", "device_id": "20f1"} for bus in ("3b", "86")]
NICS = [
    {"name": "vmnic0", "pci": "0000:18:00.0", "switch": "dvs-lan"},
    {"name": "vmnic4", "pci": "0000:5e:00.0", "model": "ConnectX-6", "switch": "dvs-rdma", "rdma": "vmrdma0"},
]


def farm(versions, hardware):
    """A cluster of equal hosts but for their releases, and a VM of a hardware version on the first one."""
    hosts = [
        {"name": f"esx0{n}.lab.local", "cluster": "c", "version": version, "nvidia_driver": "525.85.07",
         "gpus": GPUS, "nics": NICS, "pvrdma_vmknic": "vmk2", "ssh": {"running": "true", "policy": "on"},
         "vmkernel": [{"name": "vmk0", "port_group": "dvpg-lan"}, {"name": "vmk2", "port_group": "dvpg-rdma"}]}
        for n, version in enumerate(versions, 1)
    ]  # fmt: skip
    return yaml.safe_dump({
        "name": "remedies", "timing": {"task_seconds": "0.005"}, "clusters": [{"name": "c"}],
        "vcenter": {"version": max(versions)},
        "switches": [
            {"name": "dvs-lan", "uplinks": "1", "port_groups": [{"name": "dvpg-lan"}]},
            {"name": "dvs-rdma", "mtu": "9000", "uplinks": "1", "port_groups": [{"name": "dvpg-rdma", "vlan": "100"}]},
        ],
        "hosts": hosts,
        "vms": [{"name": "one", "host": "esx01.lab.local", "network": "dvpg-lan", "hardware": str(hardware)}],
    })  # fmt: skip


PLAYS = {
    "pvrdma": {"pvrdma": [{"port_group": "dvpg-rdma"}]},
    "several vgpus": {"vgpu": ["grid_a100-40c"] * 2},
    "several vgpus and too low a version": {"vgpu": ["grid_a100-40c"] * 2, "hardware": {"version": 14}},
    "a mig-backed vgpu": {"vgpu": ["grid_a100-3-20c"]},
    "a device by its model": {"pci_devices": [{"vendor": "10de", "device": "20f1"}]},
    "both": {"pvrdma": [{"port_group": "dvpg-rdma"}], "vgpu": ["grid_a100-40c"] * 2},
}
RELEASES = [("7.0.2", "7.0.2"), ("7.0.2", "7.0.1"), ("7.0.0", "7.0.2"), ("6.7.0", "7.0.2"), ("8.0.2", "8.0.0")]


@pytest.mark.parametrize("versions", RELEASES, ids="+".join)
def test_following_the_help_is_accepted(cli, make_lab, monkeypatch, versions):
    lab = make_lab(farm(versions, 11))
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    for what, wanted in PLAYS.items():
        follow(cli, what, wanted, too_old=min(versions) < "7.0.2")


def follow(cli, what, wanted, *, too_old):
    """Do what the help says, until it names no more play: all is accepted, but for what takes newer hosts."""
    plays, helped = {("vms", "one"): deepcopy(wanted)}, set()
    for _ in range(ROUNDS):
        text = yaml.safe_dump([{by: name, **play} for (by, name), play in plays.items()], sort_keys=False)
        problems = cli.plan(cli.file(text))["problems"]
        again = [p for p in problems if (p["target"]["name"], p["rule"], p["remedy"]) in helped]
        hosts = [p for p in problems if p["rule"] == "vm.hardware-hosts"]
        assert not again, (what, text, again)
        assert not hosts, (what, text, hosts)
        named = [p for p in problems if obey(plays, p)]
        if not named:
            break
        helped |= {(p["target"]["name"], p["rule"], p["remedy"]) for p in named}
    else:
        raise AssertionError((what, "no end of plays", problems))
    left = [p for p in problems if not NEWER_HOSTS.search(p["remedy"])]
    assert helped, what
    assert not left, (what, left, plays)
    assert not problems or too_old, (what, problems)


def obey(plays, problem):
    """Add the play that a problem's help names; tell whether it names one."""
    if raised := RAISED.search(problem["remedy"]):
        plays["vms", problem["target"]["name"]]["hardware"]["version"] = int(raised["version"])
        return True
    found = NAMED.search(problem["remedy"])
    if found is None or re.search(r"[A-Z]{4}|vmkN|: N\b", found["value"]):
        return False
    own = ("vms" if problem["target"]["kind"] == "vm" else "hosts", problem["target"]["name"])
    play = plays.setdefault(("hosts", found["host"]) if found["host"] else own, {})
    value = yaml.safe_load(found["value"])
    assert found["kind"] not in play or play[found["kind"]] == value, (problem, plays)
    play[found["kind"]] = value
    return True
