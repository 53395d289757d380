"""Budget of a fleet: hosts of all vCenters get their turn in order, and its live view has a row per vCenter."""

from __future__ import annotations

import re

import pytest
from support import fleets
from support.terminal import Terminal

pytestmark = pytest.mark.lab
SITES = ("berlin", "munich", "oslo")


@pytest.fixture
def labs(make_lab):
    return {site: make_lab(fleets.hosts(site)) for site in SITES}


@pytest.fixture
def given(cli, labs):
    both = cli.file(fleets.inventory(labs), "three.yml")
    return ("fleet", "apply", cli.file(fleets.FUNCTIONS), "-i", both, "--yes", "--budget", "1", "--reboot", "6")


def test_no_vcenter_waits_until_another_one_has_done_all_of_its_hosts(cli, labs, given):
    assert cli(*given) == 0, cli.out + cli.err
    found = fleets.one_at_a_time(labs)
    assert len(found) == 6
    assert {site for *_, site in found[:3]} == set(SITES), found


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
        # the step has started once it is shown; what has not reached its vCenter by then would be skipped, not finished
        shown.until(lambda: any(lab.get("/lab/faults")["fired"] for lab in labs.values()))
        count = len(shown.frames)
        shown.type("\x03")
        last = shown.after(count, "nothing else starts; Ctrl-C again leaves at once")
        assert any(re.search(r"go on later with: vsphere-ai fleet resume \d{8}-", line) for line in last), last
        for lab in labs.values():
            lab.clear_faults()
        assert shown.wait() == 130
    finally:
        shown.close()
