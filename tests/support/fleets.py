"""Fleets for tests: labs of a few VMs each, an inventory of them, and how often each effect is in their ledgers."""

from __future__ import annotations

import json
import time
from collections import Counter
from itertools import pairwise

import yaml

from support.gates import LONG

SITES = ("berlin", "munich")
VMS = 4
SCENARIO = """
name: {0}
timing: {{boot_seconds: 0.3, task_seconds: {1}, shutdown_seconds: 0.1, vmotion_seconds: 0.02}}
clusters: [{{name: {0}}}]
hosts: [{{name: esx01.{0}.local, cluster: {0}, ssh: {{running: true, policy: on}}}}]
vms: [{{name: "{0}-[01:04]", host: esx01.{0}.local}}]
"""
HOSTS = """
name: {0}
timing: {{boot_seconds: {1}, task_seconds: 0.02, shutdown_seconds: 0.1, vmotion_seconds: 0.02}}
clusters: [{{name: {0}}}]
hosts:
  - name: "esx[01:02].{0}.local"
    cluster: {0}
    ssh: {{running: true, policy: on}}
    nics: [{{name: vmnic1, pci: 0000:18:00.1, model: X710}}]
"""
FUNCTIONS = "- hosts: \"esx*\"\n  sriov: {'0000:18:00.1': 4}\n  rolling: {reboot: api}\n"
"""A playbook that reboots each host of `hosts` once."""


def scenario(site, task_seconds=0.005):
    """A farm of one host with four VMs, `SITE-01` to `SITE-04`."""
    return SCENARIO.format(site, task_seconds)


def hosts(site, boot_seconds=0.4):
    """A farm of two hosts with a NIC that takes virtual functions."""
    return HOSTS.format(site, boot_seconds)


def playbook(sites=SITES):
    """Upgrades the VMs of each site: one `UpgradeVM_Task` each."""
    return "".join(f"- vms: {site}-*\n  hardware: {{version: 19}}\n" for site in sites)


def inventory(labs, *, ssh=False):
    """The text of an inventory of these labs, by their sites; `ssh`: with how their hosts are reached."""
    more = {site: _ssh(lab) if ssh else "" for site, lab in labs.items()}
    return f"vcenters:\n{''.join(_entry(site, lab) + more[site] for site, lab in labs.items())}"


def _ssh(lab):
    known = yaml.safe_load((lab.directory / "connection.yml").read_text("utf-8"))["ssh"]
    known |= {"password": f"file:{lab.directory / 'ssh_password'}", "known_hosts": str(lab.directory / "known_hosts")}
    return f"    ssh: {json.dumps(known)}\n"


def _entry(name, lab):
    return f"""  {name}:
    address: 127.0.0.1
    port: {lab.port}
    username: administrator@vsphere.local
    password: "file:{lab.directory / "password"}"
    tls: {{ca_file: "{lab.directory / "ca.pem"}"}}
"""


def effects(lab):
    """How often each VM was upgraded, by the lab's ledger."""
    return Counter(e["object"] for e in lab.get("/lab/ledger")["entries"] if e["call"] == "UpgradeVM_Task")


def windows(labs):
    """The windows of all hosts in the order in which they began, by the ledgers: (begin, end, site)."""
    found = []
    for site, lab in labs.items():
        entries = lab.get("/lab/ledger")["entries"]
        began = {e["object"]: e["time"] for e in entries if e["call"] == "EnterMaintenanceMode_Task"}
        ended = {e["object"]: e["time"] for e in entries if e["call"] == "ExitMaintenanceMode_Task"}
        found += [(began[host], ended[host], site) for host in began]
    return sorted(found)


def one_at_a_time(labs):
    """Assert that no two hosts were out of service at once in all labs; return their windows."""
    found = windows(labs)
    assert all(end <= start for (_, end, _), (start, *_) in pairwise(found)), found
    return found


def once(site):
    """Each VM of a site upgraded once."""
    return {f"{site}-{n:02}": 1 for n in range(1, VMS + 1)}


def all_once(labs):
    """Assert that each effect of a whole fleet was made once, by the ledgers of all its labs."""
    assert {site: effects(lab) for site, lab in labs.items()} == {site: once(site) for site in labs}


def hold(lab, nth, call="UpgradeVM_Task"):
    """Let the lab keep a call back, before it takes effect, until the rule is released."""
    lab.set_faults([{"on": call, "nth": nth, "do": "hold"}])


def until(true, seconds=LONG):
    """Wait until a function returns something true; fail where that does not come."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.03)
    return found


def struck(*labs):
    """Wait until a fault of each lab has struck: a call is held there."""
    until(lambda: all(lab.get("/lab/faults")["fired"] for lab in labs))


def open_sessions(lab):
    """The sessions that were left open in a lab."""
    verdict = next(i for i in lab.check()["invariants"] if i["name"] == "sessions")
    return [] if verdict["ok"] else verdict
