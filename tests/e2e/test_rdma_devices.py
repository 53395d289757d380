"""`rdma devices` on the simulated farm."""

from __future__ import annotations

import json


def test_the_farm_s_devices(cli, ledger):
    assert cli("rdma", "devices", "-o", "json") == 0, cli.err
    hosts = {h["host"]: h["devices"] for h in json.loads(cli.out)["hosts"]}
    assert set(hosts) == {"esx01.lab.local", "esx02.lab.local", "esx03.lab.local", "esx-odd.lab.local"}
    assert hosts["esx-odd.lab.local"] == []
    (device,) = hosts["esx01.lab.local"]
    assert (device["nic"], device["switch"], device["uplink"]) == ("vmnic4", "dvs-rdma", "Uplink 1")
    assert (device["speed"], device["mtu"], device["state"]) == (100000, 4096, "active")
    assert ledger() == []


def test_some_hosts_and_unknown_ones(cli):
    assert cli("rdma", "devices", "esx0[1:2].lab.local") == 0
    assert [line for line in cli.out.splitlines() if line.startswith("esx")] == ["esx01.lab.local", "esx02.lab.local"]
    assert cli("rdma", "devices", "esx1.lab.local") == 64
    assert "esx1.lab.local" in cli.err
