"""Four vCenters over a real Dask cluster: workers and scheduler are killed at the worst moments, and the ledgers judge.

The cases are those of the promise of fleets: each effect is made once, whatever dies, and what is left is finished by
another worker or by `fleet resume`.
"""

from __future__ import annotations

import json

import pytest
from support import fleets
from support.dask_fleet import QUICK, Cluster

pytestmark = pytest.mark.lab
SITES = ("berlin", "munich", "oslo", "paris")
TERMS = {"VSPHERE_AI_FLEET_LEASE": "4", "VSPHERE_AI_FLEET_MARGIN": "0.5", "VSPHERE_AI_FLEET_PATIENCE": "20"}
BEFORE_THE_FIRST_INTENT = {"on": "Login", "nth": 3, "do": "hold"}
"""The last session is that of the run, which has noted nothing yet."""
BEFORE_THE_EFFECT = {"on": "UpgradeVM_Task", "nth": 2, "do": "hold"}
AFTER_THE_EFFECT = {"on": "UpgradeVM_Task", "nth": 2, "when": "after", "do": "hang"}
BEFORE_THE_RESULT = {"on": "Logout", "nth": 3, "do": "hold"}
"""The run has ended and is recorded; its worker has not answered yet."""


@pytest.fixture
def labs(make_lab):
    made = {site: make_lab(fleets.scenario(site)) for site in SITES}
    yield made
    for lab in made.values():
        lab.clear_faults()


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    for name, value in {**QUICK, **TERMS}.items():
        monkeypatch.setenv(name, value)
        monkeypatch.setitem(QUICK, name, value)
    made = Cluster(tmp_path, sites=SITES)
    yield made
    made.close()


@pytest.fixture
def workers(cli, labs, cluster):
    """A worker per site."""
    made = {
        site: cluster.worker(cli.file(fleets.inventory({site: lab}), f"{site}.yml"), "--name", site)
        for site, lab in labs.items()
    }
    for each in made.values():
        each.until("worker .* at tls://127.0.0.1")
    return made


@pytest.fixture
def saved(cli, cluster, workers, tmp_path):
    path = tmp_path / "fleet.json"
    assert cli("fleet", "plan", cli.file(fleets.playbook(SITES)), *cluster.place, "--to", path) == 0, cli.err
    return path


def standby(cli, cluster, labs, name="standby"):
    """One more worker, for all sites."""
    made = cluster.worker(cli.file(fleets.inventory(labs), f"{name}.yml"), "--name", name)
    made.until("worker .* at tls://127.0.0.1")
    return made


def states(cli):
    assert cli("fleet", "status", "-o", "json") == 0
    return {s["vcenter"]: s["state"] for s in json.loads(cli.out)["fleets"][-1]["shards"]}


DEATHS = {
    "berlin": BEFORE_THE_FIRST_INTENT,
    "munich": BEFORE_THE_EFFECT,
    "oslo": AFTER_THE_EFFECT,
    "paris": BEFORE_THE_RESULT,
}


def before_any_dies(labs):
    """The moments are those that are meant, by the ledgers."""
    found = {site: sum(fleets.effects(lab).values()) for site, lab in labs.items()}
    assert found == {"berlin": 0, "munich": 1, "oslo": 2, "paris": 4}


def test_a_worker_that_dies_at_any_moment_is_replaced_and_nothing_happens_twice(cli, labs, cluster, workers, saved):
    """All four die, each at another moment; one other worker takes all over, in the same runs."""
    for site, fault in DEATHS.items():
        labs[site].set_faults([fault])
    coordinator = cluster.command("apply", saved, "--yes", "--parallel", "1")
    fleets.struck(*labs.values())
    before_any_dies(labs)
    for each in workers.values():
        each.kill()
    for site in ("berlin", "oslo", "paris"):
        labs[site].clear_faults()
    standby(cli, cluster, labs)
    # the request of the dead worker is still in munich's vCenter, and comes through after another has done its work
    fleets.until(lambda: fleets.effects(labs["munich"]) == fleets.once("munich"), 90)
    labs["munich"].clear_faults()
    assert coordinator.ended(90) == 0, coordinator.seen
    fleets.all_once(labs)
    assert states(cli) == dict.fromkeys(SITES, "done")


def test_a_scheduler_that_dies_stops_nothing_for_good(cli, labs, cluster, workers, saved):
    for lab in labs.values():
        lab.set_faults([BEFORE_THE_EFFECT])
    coordinator = cluster.command("apply", saved, "--yes", "--parallel", "1")
    fleets.struck(*labs.values())
    port = cluster.address.rpartition(":")[2]
    cluster.scheduler.kill()
    for lab in labs.values():
        lab.clear_faults()
    coordinator.ended(120)
    done = states(cli)
    if set(done.values()) != {"done"}:
        for each in workers.values():
            each.kill()
        cluster.start_scheduler(port)
        standby(cli, cluster, labs)
        assert cli("fleet", "resume", *cluster.place) == 0, f"{done}\n{coordinator.seen}\n{cli.out}{cli.err}"
    fleets.all_once(labs)
    assert states(cli) == dict.fromkeys(SITES, "done")


def test_all_die_together_and_a_new_cluster_finishes_it(cli, labs, cluster, workers, saved):
    """Power is lost everywhere but in the vCenters: coordinator, scheduler and workers."""
    for site, fault in DEATHS.items():
        labs[site].set_faults([fault])
    coordinator = cluster.command("apply", saved, "--yes", "--parallel", "1")
    fleets.struck(*labs.values())
    before_any_dies(labs)
    for each in (coordinator, cluster.scheduler, *workers.values()):
        each.kill()
    for lab in labs.values():
        lab.clear_faults()
    assert set(states(cli).values()) != {"done"}
    cluster.start_scheduler()
    standby(cli, cluster, labs, "other")
    assert cli("fleet", "resume", *cluster.place) == 0, cli.out + cli.err
    fleets.all_once(labs)
    assert states(cli) == dict.fromkeys(SITES, "done")
    assert cli("fleet", "resume", *cluster.place) == 64, "there is nothing left"


def test_plays_for_one_vcenter_are_for_that_one_though_workers_know_only_their_own(cli, labs, cluster, workers):
    plays = "".join(f"- vms: {site}-*\n  vcenter: {site}\n  hardware: {{version: 19}}\n" for site in SITES)
    assert cli("fleet", "plan", cli.file(plays), *cluster.place, "-o", "json") == 0, cli.err
    found = {s["vcenter"]: s["plan"] for s in json.loads(cli.out)["shards"]}
    for site in SITES:
        changed = {i["target"]["name"] for i in found[site]["items"] if i["changes"]}
        assert changed == set(fleets.once(site))
    assert cli("fleet", "plan", cli.file(plays), *cluster.place, "--vcenter", "oslo") == 0, cli.err
    wrong = cli.file(plays.replace("vcenter: oslo", "vcenter: olso"), "wrong.yml")
    assert cli("fleet", "plan", wrong, *cluster.place) == 65, "no worker has it"
    assert "olso" in cli.err
    assert not any(fleets.effects(lab) for lab in labs.values())
