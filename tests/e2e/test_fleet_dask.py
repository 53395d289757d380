"""A fleet over Dask: a real scheduler and workers, judged by the ledgers of the labs."""

from __future__ import annotations

import json
import signal
import sqlite3
from pathlib import Path

import pytest
from support.dask_fleet import QUICK, Cluster
from support.fleets import (
    FUNCTIONS,
    SITES,
    all_once,
    effects,
    hold,
    hosts,
    once,
    one_at_a_time,
    playbook,
    scenario,
    struck,
    until,
)
from support.fleets import inventory as text_of

from vsphere_ai.runs import journal
from vsphere_ai.security.state_dir import state_dir

pytestmark = pytest.mark.lab
BERLIN = playbook(["berlin"])
HARDWARE = "  hardware: {version: 19}\n"
SLOW = scenario("berlin", 0.4)
FENCED = r"is over|so nothing is sent"


@pytest.fixture
def make_cluster(tmp_path, monkeypatch):
    for name, value in QUICK.items():
        monkeypatch.setenv(name, value)
    made = []

    def make():
        made.append(Cluster(tmp_path))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def cluster(make_cluster):
    return make_cluster()


def inventory(cli, site, lab):
    """The inventory at a site, which has this vCenter only."""
    return cli.file(text_of({site: lab}), f"{site}.yml")


def served(cluster, *inventories):
    """Workers that serve, each of a machine of its own."""
    workers = [cluster.worker(each) for each in inventories]
    for each in workers:
        each.until("vCenters")
    return workers


def begun():
    """How many changes the coordinator knows to be under way or done: its copies of the journals."""
    found = 0
    for path in journal.files():
        db = sqlite3.connect(path)
        found += db.execute("select count(*) from step where what not in ('as-planned')").fetchone()[0]
        db.close()
    return found


def under_way(command):
    """Wait until a change is; a command that has ended before shows why."""
    until(lambda: begun() or command.process.poll() is not None)
    assert begun(), command.read()


def holder(workers):
    """The worker that has the lease, and the other one."""
    first = until(lambda: next((w for w in workers if "epoch 1" in w.read()), None))
    return first, next(w for w in workers if w is not first)


def states(cli, *arguments):
    assert cli("fleet", "status", *arguments, "-o", "json") == 0
    return {s["vcenter"]: s["state"] for s in json.loads(cli.out)["fleets"][-1]["shards"]}


def sessions(client):
    """Login sessions in a lab, but for the client's own."""
    return {s.key for s in client.content.sessionManager.sessionList} - {client.session.key}


def test_workers_plan_and_carry_out_what_the_coordinator_cannot_reach(cli, make_lab, cluster):
    sites = {site: make_lab(scenario(site, 0.02)) for site in SITES}
    cluster.means(SITES)
    workers = served(cluster, *(inventory(cli, site, lab) for site, lab in sites.items()))
    whole = cli.file(playbook())
    assert cli("fleet", "plan", whole, *cluster.place) == 0, cli.err
    assert "Fleet plan, 2 vCenters" in cli.out
    wrong = cli.file("- include: more.yml\n", "wrong.yml")
    cli.file("- vms: berlin-*\n  hardware: {version: none}\n", "more.yml")
    assert cli("fleet", "plan", wrong, *cluster.place) == 65
    assert f"{wrong.parent / 'more.yml'}:2:23" in cli.err, "the place in the operator's file"
    assert cli("fleet", "plan", whole, *cluster.place, "--vcenter", "berlin,hamburg") == 5
    assert cli.error == "fleet.no-worker"
    assert cli("fleet", "apply", whole, *cluster.place, "--yes", "-o", "json") == 0, cli.err
    done = json.loads(cli.out)
    assert {s["vcenter"]: s["state"] for s in done["shards"]} == dict.fromkeys(SITES, "done")
    assert all(s["changed"] == s["verified"] == 4 for s in done["shards"])
    all_once(sites)
    assert cli("fleet", "status", done["fleet"], "-o", "json") == 0
    assert json.loads(cli.out)["fleets"][0]["shards"] == done["shards"], "by the copies of the journals"
    assert cli("fleet", "apply", whole, *cluster.place, "--yes") == 0, "nothing to do"
    assert cli("fleet", "resume", done["fleet"], *cluster.place) == 0
    all_once(sites)
    require_no_secret(sites, cluster, workers)
    cluster.worker(inventory(cli, "berlin", sites["berlin"]), version="9.9.9").until("vCenters")
    assert cli("fleet", "plan", whole, *cluster.place) == 1
    assert cli.error == "fleet.version"
    assert "9.9.9" in cli.err


def test_a_vcenter_whose_worker_is_away_is_not_left_out_unseen(cli, make_lab, cluster, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(cluster.folder))
    lab = make_lab(scenario("berlin", 0.02))
    served(cluster, inventory(cli, "berlin", lab))
    everywhere = cli.file('- vms: "*"\n  hardware: {version: 19}\n')
    assert cli("fleet", "plan", everywhere, *cluster.away) == 64, "who knows whether there are more"
    assert cli.error == "usage.vcenter"
    assert "workers offer berlin now" in cli.err
    assert "--vcenter berlin" in cli.err
    cluster.means(SITES)
    for command in ("plan", "apply"):
        assert cli("fleet", command, everywhere, *cluster.place) == 5
        assert cli.error == "fleet.no-worker"
        assert "no worker for vCenter munich" in cli.err
        assert f"vsphere-ai fleet worker {cluster.address}" in cli.err, "what to do"
        assert "or leave it out: --vcenter berlin" in cli.err
    assert cli("fleet", "plan", everywhere, *cluster.place, "--vcenter", "berlin") == 0, cli.err
    both = f"- vms: berlin-*\n  vcenter: berlin\n{HARDWARE}- vms: x-*\n  vcenter: SITE\n{HARDWARE}"
    chosen = (*cluster.away, "--vcenter", "berlin")
    assert cli("fleet", "plan", cli.file(both.replace("SITE", "munich")), *cluster.place, "--vcenter", "berlin") == 0, (
        cli.err
    )
    assert cli("fleet", "plan", cli.file(both.replace("SITE", "oslo")), *cluster.place, "--vcenter", "berlin") == 65
    assert "oslo" in cli.err, "no inventory has it"
    assert cli("fleet", "plan", cli.file(both.replace("SITE", "munich")), *chosen) == 65, "it is in no inventory"
    assert "munich" in cli.err
    assert cli("fleet", "plan", everywhere, *cluster.away, "--vcenter", "berlni") == 5
    assert "did you mean 'berlin'?" in cli.err
    assert effects(lab) == {}


def require_no_secret(sites, cluster, workers):
    """No password left its site: it is in the memory of the worker there, and of no other process; and in no file."""
    words = [(lab.directory / "password").read_text().strip() for lab in sites.values()]
    assert [[w.holds(word) for word in words] for w in workers] == [[True, False], [False, True]]
    assert not any(cluster.scheduler.holds(word) for word in words)
    texts = [each.read() for each in cluster.processes]
    files = [path.read_bytes() for path in state_dir().rglob("*") if path.is_file()]
    assert len(files) > 3
    assert not [word for word in words if any(word in t for t in texts) or any(word.encode() in f for f in files)]


def test_what_differs_by_site_is_a_variable_of_each_inventory(cli, make_lab, cluster):
    """References to other playbooks do not travel, and their refusal says this."""
    sites = {site: make_lab(scenario(site, 0.02)) for site in SITES}
    cluster.means(SITES)
    wanted = {"berlin": 18, "munich": 19}
    for site, lab in sites.items():
        own = cli.file(f"{text_of({site: lab})}vars: {{version: {wanted[site]}}}\n", f"{site}.yml")
        served(cluster, own)
    cli.file(playbook(), "other.yml")
    refers = cli.file("- vms: '*'\n  hardware: {version: '${ref:other.version}'}\n", "refers.yml")
    assert cli("fleet", "plan", refers, *cluster.place) == 64
    assert cli.error == "usage.references"
    assert "as vars: into the inventory of each worker" in cli.err
    varies = "- vars: {version: {type: integer}}\n- vms: '*'\n  hardware: {version: '${version}'}\n"
    assert cli("fleet", "apply", cli.file(varies, "varies.yml"), *cluster.place, "--yes") == 0, cli.err
    for site, lab in sites.items():
        versions = {e["detail"]["version"] for e in lab.get("/lab/ledger")["entries"] if e["call"] == "UpgradeVM_Task"}
        assert versions == {f"vmx-{wanted[site]}"}


@pytest.mark.parametrize("moment", ["lease", "intent", "end"])
def test_another_worker_goes_on_where_one_was_killed(cli, make_lab, cluster, moment):
    lab = make_lab(SLOW)
    workers = served(cluster, *[inventory(cli, "berlin", lab)] * 2)
    if moment == "intent":
        hold(lab, 2)  # it has been sent, and takes effect when no one is there any more to get the answer
    command = cluster.command("apply", cli.file(BERLIN), "--yes", "--parallel", "2", "-o", "json")
    first, second = holder(workers)
    if moment == "intent":
        struck(lab)
    if moment == "end":
        first.until("run .* done")
    assert sum(effects(lab).values()) < 4 or moment == "end"
    first.kill()
    lab.clear_faults()
    assert command.ended() == 0, command.seen + second.read()
    assert effects(lab) == once("berlin")
    assert ("epoch 2" in second.read()) == (moment != "end")
    assert states(cli) == {"berlin": "done"}


def test_a_worker_that_stood_still_past_its_lease_sends_nothing_more(cli, make_lab, cluster, new_client):
    lab = make_lab(SLOW)
    client = new_client(lab)
    workers = served(cluster, *[inventory(cli, "berlin", lab)] * 2)
    command = cluster.command("apply", cli.file(BERLIN), "--yes", "--parallel", "1", "-o", "json")
    first, second = holder(workers)
    under_way(command)
    old = sessions(client)
    assert old
    first.signal(signal.SIGSTOP)
    second.until("epoch 2")
    until(lambda: not old & sessions(client))  # ended by the second worker
    assert command.ended() == 0, command.seen + second.read()
    before = lab.get("/lab/ledger")["entries"]
    first.signal(signal.SIGCONT)
    first.until(FENCED)
    assert lab.get("/lab/ledger")["entries"] == before
    assert effects(lab) == once("berlin")


def test_the_last_worker_that_is_lost_leaves_its_run_to_a_later_one(cli, make_lab, cluster):
    lab = make_lab(SLOW)
    (worker,) = served(cluster, inventory(cli, "berlin", lab))
    command = cluster.command("apply", cli.file(BERLIN), "--yes", "--parallel", "1")
    under_way(command)
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
    command = cluster.command("apply", cli.file(BERLIN), "--yes", "--parallel", "1", "-o", "json")
    under_way(command)
    cluster.scheduler.kill()
    assert command.ended() == 0, command.seen + worker.read()
    assert "Traceback" not in command.seen
    lost = [line for line in command.seen.splitlines() if cluster.address in line and "was lost" in line]
    assert len(lost) == 1, command.seen
    assert effects(lab) == once("berlin")
    cluster.start_scheduler(int(cluster.address.rpartition(":")[2]))
    worker.until(r"(vCenters berlin(.|\n)*){2}")
    assert cli("fleet", "plan", cli.file(BERLIN), *cluster.place) == 0, cli.err


@pytest.mark.parametrize("executor", ["local", "dask"])
def test_a_killed_coordinator_is_followed_by_another(cli, make_lab, cluster, executor):
    lab = make_lab(SLOW)
    where = inventory(cli, "berlin", lab)
    (worker,) = served(cluster, where)
    command = cluster.command("apply", cli.file(BERLIN), "--yes", "--parallel", "1")
    under_way(command)
    command.kill()
    worker.until(FENCED)
    assert sum(effects(lab).values()) < 4
    place = ["--executor", "local", "-i", where] if executor == "local" else cluster.place
    assert cli("fleet", "resume", *place) == 0, cli.out + cli.err
    assert "fleet.waiting" in cli.rules
    assert effects(lab) == once("berlin")
    assert states(cli) == {"berlin": "done"}


def test_a_coordinator_that_stood_still_has_its_shards_finished(cli, make_lab, cluster):
    """As where the way to a worker was cut for long: its run stops, and goes on under another lease."""
    lab = make_lab(SLOW)
    (worker,) = served(cluster, inventory(cli, "berlin", lab))
    command = cluster.command("apply", cli.file(BERLIN), "--yes", "--parallel", "1")
    under_way(command)
    command.signal(signal.SIGSTOP)
    worker.until(FENCED)
    assert sum(effects(lab).values()) < 4
    command.signal(signal.SIGCONT)
    assert command.ended() == 0, command.seen + worker.read()
    assert "epoch 2" in worker.read()
    assert effects(lab) == once("berlin")
    assert states(cli) == {"berlin": "done"}


def test_ctrl_c_reaches_the_workers(cli, make_lab, cluster):
    lab = make_lab(SLOW)
    served(cluster, inventory(cli, "berlin", lab))
    command = cluster.command("apply", cli.file(BERLIN), "--yes", "--parallel", "1")
    under_way(command)
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
    under_way(command)
    first.signal(signal.SIGTERM)
    assert first.ended() == 0, first.seen
    assert command.ended() == 0, command.seen + second.read()
    assert "epoch 2" in second.read()
    assert effects(lab) == once("berlin")
    assert not [*Path(first.state).glob("workers/*")], "it leaves nothing"


def test_the_privilege_to_end_sessions_is_asked_for_while_planning(cli, make_lab, cluster):
    lab = make_lab(scenario("berlin", 0.02) + "privileges_denied: [Sessions.TerminateSession]\n")
    served(cluster, inventory(cli, "berlin", lab))
    assert cli("fleet", "plan", cli.file(BERLIN), *cluster.place) == 4
    assert cli.error == "account.privileges"
    assert "Sessions.TerminateSession" in cli.err


@pytest.mark.parametrize("moment", ["lock", "intent"])
def test_the_lock_in_vcenter_of_a_killed_worker_keeps_no_one_off(cli, make_lab, cluster, moment):
    """It names the fleet run before there is a journal, and is in the journal after that."""
    lab = make_lab(SLOW)
    workers = served(cluster, *[inventory(cli, "berlin", lab)] * 2)
    command = cluster.command("apply", cli.file(BERLIN), "--yes", "--lock", "vcenter", "-o", "json")
    first, second = holder(workers)
    until(lambda: calls(lab).count("CreateFolder") >= 5 if moment == "lock" else begun())
    first.kill()
    assert cli("fleet", "status") == 0
    run = json.loads(next((state_dir() / "fleets").glob("*.json")).read_text())["shards"][0]["run"]
    if moment == "intent":
        assert cli("resume", run, "-i", inventory(cli, "berlin", lab)) == 7
        assert cli.error == "run.under-way", "only the fleet run knows when no worker has it any more"
    assert command.ended() == 0, command.seen + second.read()
    assert effects(lab) == once("berlin")
    assert "epoch 2" in second.read()


def calls(lab):
    """The calls since the run has its lease: a lock is whole after five of them. Comparing locks and unlocks before."""
    entries = [e["call"] for e in lab.get("/lab/ledger")["entries"]]
    last = max((n for n, call in enumerate(entries) if call == "Destroy_Task"), default=-1)
    return entries[last + 1 :]


def test_one_worker_serves_two_vcenters_within_one_budget(cli, make_lab, cluster):
    labs = {site: make_lab(hosts(site)) for site in SITES}
    cluster.means(SITES)
    served(cluster, cli.file(text_of(labs), "both.yml"))
    given = ("fleet", "apply", cli.file(FUNCTIONS), *cluster.place, "--yes", "--reboot", "4", "--budget", "1")
    assert cli(*given) == 0, cli.out + cli.err
    assert len(one_at_a_time(labs)) == 4
