"""Two boots of a host within a minute, a rollback that is cut off at the second one: each is known for what it is.

The clock of a host may be wrong, and the boot time that it tells wavers by seconds.
"""

from __future__ import annotations

import pytest
from support.cut_off import DIES_BEFORE_ITS_REBOOT, ESX1, dies, killed_in_the_reboot, reboots

from vsphere_ai.runs import journal

pytestmark = pytest.mark.lab
GRAPHICS = f"""
- hosts: {ESX1}
  graphics: {{default_type: shared_direct}}
  rolling: {{evacuate: power_off, reboot: api}}
"""
WRONG_CLOCKS = ["clock_ahead: -30", "clock_ahead: 30", "clock_ahead: -3600", "boot_time_jitter: 15"]


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr("vsphere_ai.app.runs.quiesce.NEVER_DOWN", 6.0)
    monkeypatch.setattr("vsphere_ai.app.runs.quiesce.AT_LEAST", 3.0)
    monkeypatch.setattr("vsphere_ai.app.runs.quiesce.EVENTS_LAG", 1.0)


@pytest.fixture(params=WRONG_CLOCKS)
def lab(make_lab, quick_scenario, monkeypatch, request):
    driver = "    nvidia_driver: 470.256.02\n"
    lab = make_lab(quick_scenario.read_text(encoding="utf-8").replace(driver, f"{driver}    {request.param}\n"))
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    return lab


def apply(cli, farm, via="api"):
    """Reboot esx01; return the run, and the graphics types from before it."""
    before = farm()["hosts"][ESX1]["graphics"]
    assert cli("apply", cli.file(GRAPHICS.replace("api", via)), "--yes") == 0, cli.out + cli.err
    (record,) = journal.every()
    return record.id, before


@pytest.fixture
def applied(cli, farm):
    return apply(cli, farm)


def reboot_of(run):
    """The rollback's step that reboots."""
    (record,) = (b for b in journal.every() if b.id != run)
    return next(s for s in record.steps() if s.what == "reboot")


def is_over(cli, farm, ledger, applied):
    """Everything is as before the run, by two reboots in all."""
    assert reboots(ledger) == [ESX1, ESX1], cli.out + cli.err
    now = farm()["hosts"][ESX1]
    assert (now["graphics"], now["maintenance"]) == (applied[1], False)
    assert all(b.pending() == () for b in journal.every())
    return True


def test_the_second_boot_is_not_taken_for_the_first(lab, cli, ledger, farm, soap, applied):
    first = farm()["hosts"][ESX1]["boot_time"]
    killed_in_the_reboot(lab, applied[0], command="rollback")
    soap.until(lambda: farm()["hosts"][ESX1]["boot_time"] > first)
    assert cli("resume", "--yes") == 0, cli.out + cli.err
    assert reboot_of(applied[0]).state == "done"
    assert is_over(cli, farm, ledger, applied)


@pytest.mark.parametrize("lab", [f"{c}\n    boot_seconds: 4" for c in WRONG_CLOCKS], indirect=True)
def test_a_host_that_is_still_down_is_waited_for(lab, cli, ledger, farm, applied):
    killed_in_the_reboot(lab, applied[0], command="rollback")
    assert farm()["hosts"][ESX1]["state"] == "notResponding"
    assert cli("resume", "--yes") == 0, cli.out + cli.err
    assert reboot_of(applied[0]).state == "done"
    assert is_over(cli, farm, ledger, applied)


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("via", ["ssh", "api"])
@pytest.mark.parametrize("lab", ["boot_time_jitter: 15"], indirect=True)
def test_the_first_boot_is_not_taken_for_the_second(lab, cli, soap, ledger, farm, via, early):
    """The rollback died before its order was sent, and the boot time has moved since it was noted."""
    applied = apply(cli, farm, via)
    host = soap.host("esx01")
    if early:
        host.configManager.firewallSystem.EnableRuleset(id="ntpClient")
    assert dies(lab, DIES_BEFORE_ITS_REBOOT, "rollback", applied[0], "--yes") == 9
    shown = host.runtime.bootTime
    host.configManager.firewallSystem.EnableRuleset(id="sshClient")  # vCenter reads the host again
    assert host.runtime.bootTime != shown
    assert reboots(ledger) == [ESX1]
    assert cli("resume", "--yes") == 0, cli.out + cli.err
    assert is_over(cli, farm, ledger, applied)
