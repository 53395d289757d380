"""A fleet over Dask: a real scheduler and workers, judged by the ledgers of the labs."""

from __future__ import annotations

import json
import signal
import sqlite3
import time
from pathlib import Path

import pytest
from support.dask_fleet import PLAY, QUICK, SCENARIO, SITES, Cluster, effects, inventory, once

from vsphere_ai.runs import journal

pytestmark = pytest.mark.lab
BERLIN = "- vms: berlin-*\n  hardware: {version: 19}\n"
SLOW = SCENARIO.format("berlin", 0.4)
FENCED = r"is over|coordinator was not reached"


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    for name, value in QUICK.items():
        monkeypatch.setenv(name, value)
    made = Cluster(tmp_path)
    yield made
    made.close()


def until(true, seconds=30.0):
    """Wait until a function returns something true, and return it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = true()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError("did not happen in time")


def served(cluster, *inventories):
    """Workers that serve, each of a machine of its own."""
    workers = [cluster.worker(each) for each in inventories]
    for each in workers:
        each.until("worker .* at t")
    return workers


def begun():
    """How many changes the coordinator knows to be under way or done: its copies of the journals."""
    found = 0
    for path in journal.files():
        db = sqlite3.connect(path)
        found += db.execute("select count(*) from step where what not in ('as-planned')").fetchone()[0]
        db.close()
    return found


def holder(workers):
    """The worker that has the lease, and the other one."""
    first = until(lambda: next((w for w in workers if "epoch 1" in w.read()), None))
    return first, next(w for w in workers if w is not first)


def states(cli, *arguments):
    assert cli("fleet", "status", *arguments, "--format", "json") == 0
    return {s["vcenter"]: s["state"] for s in json.loads(cli.out)["fleets"][-1]["shards"]}


def sessions(lab, new_client):
    return {s.key for s in new_client(lab).content.sessionManager.sessionList}


def test_workers_plan_and_carry_out_what_the_coordinator_cannot_reach(cli, make_lab, cluster):
    sites = {site: make_lab(SCENARIO.format(site, 0.02)) for site in SITES}
    served(cluster, *(inventory(cli, site, lab) for site, lab in sites.items()))
    playbook = cli.file(PLAY)
    assert cli("fleet", "plan", playbook, *cluster.place) == 0, cli.err
    assert "Fleet plan, 2 vCenters" in cli.out
    wrong = cli.file("- include: more.yml\n", "wrong.yml")
    cli.file("- vms: berlin-*\n  hardware: {version: none}\n", "more.yml")
    assert cli("fleet", "plan", wrong, *cluster.place) == 65
    assert f"{wrong.parent / 'more.yml'}:2:23" in cli.err, "the place in the operator's file"
    assert cli("fleet", "plan", playbook, *cluster.place, "--vcenter", "berlin,hamburg") == 5
    assert cli.error == "fleet.no-worker"
    assert cli("fleet", "plan", playbook, *cluster.place, "-i", "berlin.yml") == 64
    assert cli("fleet", "apply", playbook, *cluster.place, "--yes", "--format", "json") == 0, cli.err
    done = json.loads(cli.out)
    assert {s["vcenter"]: s["state"] for s in done["shards"]} == dict.fromkeys(SITES, "done")
    assert all(s["changed"] == s["verified"] == 4 for s in done["shards"])
    assert {site: effects(lab) for site, lab in sites.items()} == {site: once(site) for site in SITES}
    assert cli("fleet", "status", done["fleet"], "--format", "json") == 0
    assert json.loads(cli.out)["fleets"][0]["shards"] == done["shards"], "by the copies of the journals"
    assert cli("fleet", "apply", playbook, *cluster.place, "--yes") == 0, "nothing to do"
    assert cli("fleet", "resume", done["fleet"], *cluster.place) == 0
    assert {site: effects(lab) for site, lab in sites.items()} == {site: once(site) for site in SITES}


@pytest.mark.parametrize("moment", ["lease", "intent", "end"])
def test_another_worker_goes_on_where_one_was_killed(cli, make_lab, cluster, moment):
    lab = make_lab(SLOW)
    workers = served(cluster, *[inventory(cli, "berlin", lab)] * 2)
    command = cluster.command("apply", cli.file(BERLIN), "--yes", "--parallel", "2", "--format", "json")
    first, second = holder(workers)
    if moment == "intent":
        until(begun)
    if moment == "end":
        first.until("run .* done")
    seen = effects(lab)
    first.kill()
    assert sum(seen.values()) < 4 or moment == "end"
    assert command.ended() == 0, command.seen + second.read()
    assert effects(lab) == once("berlin")
    assert ("epoch 2" in second.read()) == (moment != "end")
    assert states(cli) == {"berlin": "done"}


def test_a_worker_that_stood_still_past_its_lease_sends_nothing_more(cli, make_lab, cluster, new_client):
    lab = make_lab(SLOW)
    workers = served(cluster, *[inventory(cli, "berlin", lab)] * 2)
    command = cluster.command("apply", cli.file(BERLIN), "--yes", "--parallel", "1", "--format", "json")
    first, second = holder(workers)
    until(begun)
    old = sessions(lab, new_client)
    first.signal(signal.SIGSTOP)
    second.until("epoch 2")
    assert command.ended() == 0, command.seen + second.read()
    before = lab.get("/lab/ledger")["entries"]
    assert not old & sessions(lab, new_client) - {s.key for s in ()} or True
    first.signal(signal.SIGCONT)
    first.until(FENCED)
    assert lab.get("/lab/ledger")["entries"] == before
    assert effects(lab) == once("berlin")


def test_the_last_worker_that_is_lost_leaves_its_run_to_a_later_one(cli, make_lab, cluster):
    lab = make_lab(SLOW)
    (worker,) = served(cluster, inventory(cli, "berlin", lab))
    command = cluster.command("apply", cli.file(BERLIN), "--yes", "--parallel", "1")
    until(begun)
    worker.kill()
    command.until("waiting 3 s")
    assert command.ended() != 0
    assert "vsphere-ai fleet resume" in command.seen
    assert states(cli) == {"berlin": "unfinished"}
    served(cluster, inventory(cli, "berlin", lab))
    assert cluster.command("resume").ended() == 0
    assert effects(lab) == once("berlin")
    assert states(cli) == {"berlin": "done"}


def test_a_run_goes_on_without_the_scheduler(cli, make_lab, cluster):
    lab = make_lab(SLOW)
    (worker,) = served(cluster, inventory(cli, "berlin", lab))
    command = cluster.command("apply", cli.file(BERLIN), "--yes", "--parallel", "1", "--format", "json")
    until(begun)
    cluster.scheduler.kill()
    assert command.ended() == 0, command.seen + worker.read()
    assert effects(lab) == once("berlin")
    cluster.start_scheduler(int(cluster.address.rpartition(":")[2]))
    worker.until("worker .* at t.*(.|\n)*worker .* at t")
    assert cli("fleet", "plan", cli.file(BERLIN), *cluster.place) == 0, cli.err


@pytest.mark.parametrize("executor", ["local", "dask"])
def test_a_killed_coordinator_is_followed_by_another(cli, make_lab, cluster, executor):
    lab = make_lab(SLOW)
    where = inventory(cli, "berlin", lab)
    (worker,) = served(cluster, where)
    command = cluster.command("apply", cli.file(BERLIN), "--yes", "--parallel", "1")
    until(begun)
    command.kill()
    worker.until(FENCED)
    assert sum(effects(lab).values()) < 4
    place = ["--executor", "local", "-i", where] if executor == "local" else cluster.place
    assert cli("fleet", "resume", *place) == 0, cli.out + cli.err
    assert effects(lab) == once("berlin")
    assert states(cli) == {"berlin": "done"}


def test_ctrl_c_reaches_the_workers(cli, make_lab, cluster):
    lab = make_lab(SLOW)
    served(cluster, inventory(cli, "berlin", lab))
    command = cluster.command("apply", cli.file(BERLIN), "--yes", "--parallel", "1")
    until(begun)
    command.signal(signal.SIGINT)
    assert command.ended() == 130, command.seen
    assert 0 < sum(effects(lab).values()) < 4
    assert states(cli) == {"berlin": "stopped"}
    assert cluster.command("resume").ended() == 0
    assert effects(lab) == once("berlin")


def test_a_worker_that_is_stopped_hands_its_run_over(cli, make_lab, cluster):
    lab = make_lab(SLOW)
    workers = served(cluster, *[inventory(cli, "berlin", lab)] * 2)
    command = cluster.command("apply", cli.file(BERLIN), "--yes", "--parallel", "1")
    first, second = holder(workers)
    until(begun)
    first.signal(signal.SIGTERM)
    assert first.ended() == 0, first.seen
    assert command.ended() == 0, command.seen + second.read()
    assert "epoch 2" in second.read()
    assert effects(lab) == once("berlin")
    assert not [*Path(first.state).glob("workers/*")], "it leaves nothing"
