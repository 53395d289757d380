"""Lost replies, sessions and hosts: the lab's own judge says that nothing happened twice or was forgotten."""

from __future__ import annotations

import pytest
from support.places import PLAYBOOKS
from support.seeds import few

pytestmark = pytest.mark.lab
MISSION = PLAYBOOKS / "ai-ready-cluster.yml"
LOST = [
    "{on: ReconfigVM_Task, nth: 1, do: lost-reply}",
    "{on: UpgradeVM_Task, nth: 2, do: lost-reply}",
    "{on: PowerOnVM_Task, nth: 2, do: lost-reply}",
    "{on: EnterMaintenanceMode_Task, nth: 1, do: lost-reply}",
    "{on: ExitMaintenanceMode_Task, nth: 1, do: lost-reply}",
    "{on: UpdateGraphicsConfig, nth: 1, do: lost-reply}",
    "{on: UpdateGraphicsConfig, nth: 1, when: before, do: reset}",
    "{on: StartService, nth: 1, do: lost-reply}",
    "{on: any, nth: 40, do: expire-session}",
    "{on: any, nth: 90, do: expire-session}",
]


@pytest.fixture(autouse=True)
def _quick(monkeypatch, tmp_path):
    monkeypatch.setattr("vsphere_ai.execution.actions.executor.LOST_CALL", 2.0)
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "state"))


@pytest.mark.parametrize("rule", few(LOST, 3))
def test_a_lost_answer_or_session_changes_nothing_for_the_operator(lab, cli, rule):
    lab.set_faults(f"- {rule}\n")
    assert cli("apply", MISSION, "--yes") == 0, cli.out + cli.err
    assert lab.get("/lab/faults")["fired"], "the fault was never met"
    judged = lab.check()
    assert judged["ok"], judged
    assert cli("plan", MISSION, "--detailed-exitcode") == 0


def test_a_host_that_never_returns_stops_the_roll_out(lab, cli, ledger, farm):
    lab.set_faults("- {on: 'ssh: esxcli system shutdown reboot', nth: 1, when: after, do: host-never-returns}\n")
    text = MISSION.read_text(encoding="utf-8").replace("timeout: 30m", "timeout: 4s")
    assert cli.run("apply", cli.file(text), "--yes") == 6
    assert cli.failed == {("esx01.lab.local", "host.not-back")}
    assert ("maintenance", "esx01.lab.local") in cli.pending()
    assert any(line.startswith("esx01.lab.local") for line in cli.summary["open"])
    assert not [e for e in ledger() if e["object"] in ("esx02.lab.local", "train-03")], "another host was started"
    assert farm()["vms"]["train-03"]["power"] == "poweredOn"
