"""Crossovers that something strikes: a verdict is right or missing, and what is not back is named, and resumed."""

from __future__ import annotations

import pytest
from reliability.harness import picture
from support.crossovers import VGPUS
from support.seeds import FULL

from vsphere_ai.app import EstateRequest, NodesRequest, ResumeRequest, resume
from vsphere_ai.app.training.benchmarks.crossover import CrossoverOptions, CrossoverRequest, bench_crossover
from vsphere_ai.errors import VsphereAiError
from vsphere_ai.execution.actions import executor
from vsphere_ai.runs import journal

pytestmark = pytest.mark.lab
LIVE, SWAP = {"to_host": "esx05.lab.local"}, {"swap_with": "trn-03"}
MOVE, ON = "MigrateVM_Task", "PowerOnVM_Task"
STRIKES = {
    "the move is refused": (LIVE, f"{{on: {MOVE}, nth: 1, do: {{fault: InvalidState}}}}"),
    "the move fails": (LIVE, f"{{on: {MOVE}, nth: 1, do: {{task-fails: InvalidState}}}}"),
    "the move back is refused once": (LIVE, f"{{on: {MOVE}, nth: 2, do: {{fault: InvalidState}}}}"),
    "the move back is refused always": (LIVE, f"{{on: {MOVE}, nth: 2, times: 9, do: {{fault: InvalidState}}}}"),
    "the second move is refused": (SWAP, f"{{on: {MOVE}, nth: 2, do: {{fault: InvalidState}}}}"),
    "a move back of a swap is refused always": (SWAP, f"{{on: {MOVE}, nth: 3, times: 9, do: {{fault: InvalidState}}}}"),
    "power-on fails on the other host": (SWAP, f"{{on: {ON}, nth: 1, do: {{task-fails: InvalidState}}}}"),
    "power-on fails on its own host": (SWAP, f"{{on: {ON}, nth: 3, do: {{task-fails: InvalidState}}}}"),
    "power-on fails always": (SWAP, f"{{on: {ON}, nth: 1, times: 9, do: {{task-fails: InvalidState}}}}"),
    "the session is lost with the move": (LIVE, f"{{on: {MOVE}, nth: 1, when: after, do: expire-session}}"),
    "the session is lost with the move back": (SWAP, f"{{on: {MOVE}, nth: 4, when: after, do: expire-session}}"),
    "the answer to the move is lost": (LIVE, f"{{on: {MOVE}, nth: 1, do: lost-reply}}"),
    "the answer to the second move is lost": (SWAP, f"{{on: {MOVE}, nth: 2, do: lost-reply}}"),
    "vCenter restarts during the move": (SWAP, f"{{on: {MOVE}, nth: 2, when: after, do: {{restart: 1s}}}}"),
    "vCenter restarts at a power-on": (SWAP, f"{{on: {ON}, nth: 2, do: {{restart: 1s}}}}"),
    "a guest does not shut down by itself": (SWAP, "{on: ShutdownGuest, nth: 1, do: {fault: InvalidState}}"),
}
DEFECTS = {
    "host": {"kind": "gpu-slow", "host": "esx02*", "factor": 0.75},
    "vm": {"kind": "gpu-slow", "vm": "trn-02", "factor": 0.75},
}


@pytest.fixture
def lab(make_lab, monkeypatch):
    monkeypatch.setattr(executor, "LOST_CALL", 1.0)
    return make_lab(VGPUS)


@pytest.mark.parametrize("planted", DEFECTS if FULL else ["host"])
@pytest.mark.parametrize("strike", STRIKES)
def test_what_is_said_is_true(lab, strike, planted):
    before, (way, rule) = picture(lab), STRIKES[strike]
    lab.set_defects(DEFECTS[planted])
    lab.set_faults(f"- {rule}\n")
    estate = EstateRequest(inventory=lab.directory / "connection.yml")
    options = CrossoverOptions(vm="trn-02", suffix="_mpi", timeout=30, boot_timeout=20, **way)
    known = {record.id for record in journal.every()}
    result = bench_crossover(CrossoverRequest(NodesRequest(("trn-*",), estate=estate), options, yes=True))
    assert lab.get("/lab/faults")["fired"], "the fault was never met"
    assert result.verdict in (planted, "not-measured")
    back, run = picture(lab) == before, result.run
    assert run is not None
    assert back == (not run.run.open), run.run.open
    assert run.exit_code or back
    if not back:
        lab.set_faults("[]")
        (made,) = [record.id for record in journal.every() if record.id not in known]
        assert resume(ResumeRequest(made, estate.inventory, yes=True)).exit_code == 0
    assert picture(lab) == before
    assert [each["name"] for each in lab.check(since=0)["invariants"] if not each["ok"]] == []
    assert not [record for record in journal.every() if record.id not in known and record.pending()]


def test_nothing_is_done_where_the_plan_is_refused(lab, new_client):
    soap = new_client(lab)
    soap.wait(soap.host("esx05").EnterMaintenanceMode_Task(5))
    before = len(lab.get("/lab/ledger")["entries"])
    lab.set_defects(DEFECTS["host"])
    estate = EstateRequest(inventory=lab.directory / "connection.yml")
    for dry_run in (True, False):
        options = CrossoverOptions(vm="trn-02", suffix="_mpi", dry_run=dry_run, **LIVE)
        with pytest.raises(VsphereAiError) as refused:
            bench_crossover(CrossoverRequest(NodesRequest(("trn-*",), estate=estate), options, yes=True))
        assert refused.value.rule == "plan.refused"
    assert len(lab.get("/lab/ledger")["entries"]) == before
