"""Budget of a fleet: hosts of all vCenters get their turn in order, and its live view has a row per vCenter."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from support import fleets
from support.terminal import Terminal

pytestmark = pytest.mark.lab
SITES = ("berlin", "munich", "oslo")
HOSTS = """
name: {0}
timing: {{boot_seconds: 0.4, task_seconds: 0.02, shutdown_seconds: 0.1, vmotion_seconds: 0.02}}
clusters: [{{name: {0}}}]
hosts:
  - name: "esx[01:02].{0}.local"
    cluster: {0}
    ssh: {{running: true, policy: on}}
    nics: [{{name: vmnic1, pci: 0000:18:00.1, model: X710}}]
"""
FUNCTIONS = "- hosts: \"esx*\"\n  sriov: {'0000:18:00.1': 4}\n  rolling: {reboot: api}\n"


@pytest.fixture
def labs(make_lab):
    return {site: make_lab(HOSTS.format(site)) for site in SITES}


@pytest.fixture
def given(cli, labs):
    both = cli.file(fleets.inventory(labs), "three.yml")
    return ("fleet", "apply", cli.file(FUNCTIONS), "-i", both, "--yes", "--budget", "1", "--reboot", "6")


def windows(labs):
    """The windows of all hosts in the order in which they began, by the ledgers: (begin, end, site)."""
    found = []
    for site, lab in labs.items():
        entries = lab.get("/lab/ledger")["entries"]
        began = {e["object"]: e["time"] for e in entries if e["call"] == "EnterMaintenanceMode_Task"}
        ended = {e["object"]: e["time"] for e in entries if e["call"] == "ExitMaintenanceMode_Task"}
        found += [(began[host], ended[host], site) for host in began]
    return sorted(found)


def test_no_vcenter_waits_until_another_one_has_done_all_of_its_hosts(cli, labs, given):
    assert cli(*given) == 0, cli.out + cli.err
    found = windows(labs)
    assert len(found) == 6
    assert {site for *_, site in found[:3]} == set(SITES), found
    assert all(end <= start for (_, end, _), (start, *_) in pairwise(found)), found


def test_the_live_view_has_a_row_for_each_vcenter(cli, labs, given):
    for lab in labs.values():
        lab.set_faults([{"on": "EnterMaintenanceMode_Task", "nth": 1, "do": "hold"}])
    shown = Terminal(labs["berlin"], *given, size=(80, 24))
    try:
        frame = shown.after(0, "enter maintenance mode")
        rows = [line.split()[:2] for line in frame]
        assert {site for site, *_ in rows} >= set(SITES), frame
        assert max(map(len, frame)) < 80, frame
        assert "Ctrl-C finishes what is in flight in all vCenters and stops" in frame[-1]
        count = len(shown.frames)
        shown.type("\x03")
        last = shown.after(count, "nothing else starts; Ctrl-C again leaves at once")
        assert any(re.search(r"go on later with: vsphere-ai fleet resume \d{8}-", line) for line in last), last
        for lab in labs.values():
            lab.clear_faults()
        assert shown.wait() == 130
    finally:
        shown.close()
