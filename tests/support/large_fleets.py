"""Documents of large fleets for reports: a run and a plan of as many vCenters as a farm has hosts, at most fifty."""

from __future__ import annotations

from typing import Any

from support import large_reports

MOST = 50


def run(hosts: int, vms: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the record of a fleet run, and those of its runs by vCenter: of seven one failed, another was stopped."""
    count = min(hosts, MOST)
    of = {**large_reports.run(hosts // count, vms // count), "started": "2026-11-24T02:00:00.000+00:00"}
    runs = {f"site-{n:02}": of for n in range(count)}
    return {
        "fleet": "20261124-020000-f1ee",
        "started": "2026-11-24T02:00:00.000+00:00",
        "playbook": "playbooks/farm.yml",
        "budget": 16,
        "halt_on_failure": False,
        "shards": [_shard(name, n) for n, name in enumerate(runs)],
    }, runs


def _shard(name: str, number: int) -> dict[str, Any]:
    state = {3: "failed", 5: "stopped"}.get(number % 7, "done")
    return {
        "vcenter": name,
        "run": f"20261124-020000-{number:04x}",
        "state": state,
        "changed": 40 - number,
        "verified": 40 - number,
        "failed": int(state == "failed"),
        "unknown": 0,
        "left_open": [f"{large_reports.HOSTILE} is in maintenance mode"] if number == 1 or state == "failed" else [],
        "message": "esx01: the host is not back" if state == "failed" else "",
        "rule": "",
    }


def plan(hosts: int, vms: int) -> dict[str, Any]:
    """Return a fleet plan of which no vCenter is refused."""
    count = min(hosts, MOST)
    more: dict[str, Any] = {"desired": {}, "scope": {}, "seal": "0" * 64}
    plans = [{**large_reports.plan(hosts // count, vms // count), **more, "digest": f"{n:064x}"} for n in range(count)]
    return {
        "schema_version": 1,
        "fleet_version": 1,
        "vsphere_ai": "0.1.0",
        "playbook": "playbooks/farm.yml",
        "digest": "f" * 64,
        "totals": {
            "vcenters": count,
            "steps": sum(len(p["steps"]) for p in plans),
            "reboots": sum(len(p["impact"]["reboots"]) for p in plans),
            "power_cycles": 0,
            "destroyed": 0,
            "seconds": 4711.0,
            "budget_bound": True,
        },
        "budget": 16,
        "without": ["site-99"],
        "shards": [{"vcenter": f"site-{n:02}", "plan": p} for n, p in enumerate(plans)],
    }
