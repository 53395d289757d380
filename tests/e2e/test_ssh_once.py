"""One login per host and boot: steps and readings of a run share a connection, by the hosts' own counts."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.lab
HOSTS = ("esx01.lab.local", "esx02.lab.local")
ROLLING = "  rolling: {evacuate: power_off, timeout: 20s, settle: 2s}\n"
GPU = "0000:3b:00.0"
ENABLED = f"- hosts: 'esx[01:02].lab.local'\n  mig: {{mode: enabled}}\n{ROLLING}"
CUT = f"- hosts: 'esx[01:02].lab.local'\n  mig: {{gpus: {{'{GPU}': ['3g.20gb:4', '2g.10gb:2']}}}}\n{ROLLING}"
OVER_SSH = ("nvidia-smi", "esxcli")


def logins(lab):
    return {h["name"]: h["ssh"]["login_attempts"] for h in lab.get("/lab/farm")["hosts"] if h["name"] in HOSTS}


@pytest.fixture
def applied(lab, cli, ledger):
    """Apply a playbook; return per host how often it was logged in to, and how often it was changed over SSH."""

    def apply(text):
        before, begun = logins(lab), len(ledger())
        assert cli("apply", cli.file(text), "--yes") == 0, cli.out + cli.err
        calls = {n: [e["call"] for e in ledger()[begun:] if e["object"] == n] for n in HOSTS}
        changed = {n: sum(call.startswith(OVER_SSH) for call in calls[n]) for n in HOSTS}
        return {n: logins(lab)[n] - before[n] for n in HOSTS}, changed

    return apply


def test_planning_steps_and_reading_back_take_one_login_per_boot(applied):
    """Modes of two GPUs are set, the host is told to reboot, and what it lost is made again, over two connections."""
    tried, changed = applied(ENABLED)
    assert min(changed.values()) >= 3, changed
    assert tried == dict.fromkeys(HOSTS, 2)
    tried, changed = applied(CUT)
    assert min(changed.values()) >= 1, changed
    assert tried == dict.fromkeys(HOSTS, 1)


@pytest.mark.parametrize("do", ["reset", "drop"])
def test_a_connection_that_breaks_in_a_reading_is_made_once_more(applied, lab, do):
    applied(ENABLED)
    lab.set_faults([{"on": "ssh: nvidia-smi mig -lgip", "target": HOSTS[0], "nth": 1, "do": do}])
    tried, _ = applied(CUT)
    assert lab.get("/lab/faults")["fired"]
    assert tried == {HOSTS[0]: 2, HOSTS[1]: 1}


def test_a_connection_that_breaks_in_a_change_is_made_once_more_and_the_change_not_sent_again(applied, lab, ledger):
    """The answer is lost after its effect: reading shows that over a new connection, and nothing is done twice."""
    applied(ENABLED)
    begun = len(ledger())
    lab.set_faults([{"on": "ssh: nvidia-smi mig .*-cgi", "target": HOSTS[0], "nth": 1, "when": "after", "do": "reset"}])
    tried, _ = applied(CUT)
    assert lab.get("/lab/faults")["fired"]
    assert tried == {HOSTS[0]: 2, HOSTS[1]: 1}
    assert [e["call"] for e in ledger()[begun:] if e["object"] == HOSTS[0]] == ["nvidia-smi mig -cgi"]
