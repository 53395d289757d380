"""A fleet over Dask: a real scheduler and workers, judged by the ledgers of the labs."""

from __future__ import annotations

import json

import pytest
from support.dask_fleet import PLAY, QUICK, SCENARIO, SITES, Cluster, effects, inventory, once

pytestmark = pytest.mark.lab


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    for name, value in QUICK.items():
        monkeypatch.setenv(name, value)
    made = Cluster(tmp_path)
    yield made
    made.close()


@pytest.fixture
def sites(make_lab):
    return {site: make_lab(SCENARIO.format(site, 0.02)) for site in SITES}


def test_workers_plan_and_carry_out_what_the_coordinator_cannot_reach(cli, sites, cluster):
    workers = [cluster.worker(inventory(cli, site, lab)) for site, lab in sites.items()]
    for each in workers:
        each.until("worker .* at tcp://127.0.0.1")
    playbook = cli.file(PLAY)
    assert cli("fleet", "plan", playbook, *cluster.place) == 0, cli.err
    assert "Fleet plan, 2 vCenters" in cli.out
    assert cli("fleet", "apply", playbook, *cluster.place, "--yes", "--format", "json") == 0, cli.err
    done = json.loads(cli.out)
    assert {s["vcenter"]: s["state"] for s in done["shards"]} == dict.fromkeys(SITES, "done")
    assert all(s["changed"] == s["verified"] == 4 for s in done["shards"])
    assert {site: effects(lab) for site, lab in sites.items()} == {site: once(site) for site in SITES}
    assert cli("fleet", "status", done["fleet"], "--format", "json") == 0
    assert json.loads(cli.out)["fleets"][0]["shards"] == done["shards"], "by the copies of the journals"
