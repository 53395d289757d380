"""What one shard of a fleet costs: requests, bytes, CPU and memory of plan and run, and its journal, against the lab.

Run it with ``python bench/fleet_costs.py``. Every host of a farm gets a setting that takes a maintenance window and a
reboot, and every VM one reconfigure. The farm is planned and carried out in two sizes, so that what grows with hosts
and VMs is known apart from what does not. The tool is a process of its own: its CPU is counted without the lab's.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import fleet

from vsphere_ai.lab.front import process

FARM = """\
name: shard-of-{hosts}
timing: {{boot_seconds: 0.2, task_seconds: 0.01, shutdown_seconds: 0.05, vmotion_seconds: 0.02}}
clusters: [{clusters}]
hosts:
{entries}
vms:
  - {{name: "vm-[0001:{vms:04}]", host: "esx[001:{hosts:03}].lab.local"}}
"""
PER_CLUSTER = 16
VMS_PER_HOST = 10
PLAYBOOK = """\
- hosts: "esx*"
  sriov: {"0000:18:00.1": 4}
  rolling: {reboot: api, max_unavailable: 2}
- vms: vm-*
  tuning: {extra_config: {bench.round: "1"}}
"""


@dataclass(frozen=True)
class Cost:
    """What a command has cost: seconds of wall and CPU, most memory in MiB, requests, and MB of answers."""

    wall: float
    cpu: float
    memory: float
    requests: int
    megabytes: float


def farm(hosts: int) -> str:
    """Return the scenario of a farm in clusters of `PER_CLUSTER` hosts."""
    names = [f"c{n:02}" for n in range(-(-hosts // PER_CLUSTER))]
    spans = [(1 + n * PER_CLUSTER, min(hosts, (n + 1) * PER_CLUSTER)) for n in range(len(names))]
    entries = "\n".join(
        f'  - {{name: "esx[{first:03}:{last:03}].lab.local", cluster: {name}, '
        'ssh: {running: true, policy: on}, nics: [{name: vmnic1, pci: "0000:18:00.1", model: X710}]}'
        for name, (first, last) in zip(names, spans, strict=True)
    )
    clusters = ", ".join(f"{{name: {name}}}" for name in names)
    return FARM.format(hosts=hosts, vms=hosts * VMS_PER_HOST, clusters=clusters, entries=entries)


def traffic(lab: process.RunningLab) -> tuple[int, float]:
    """Return how many requests the lab has answered, and the MB of its answers."""
    found = lab.get("/lab/traffic")
    return sum(found["calls"].values()), sum(found["bytes"].values()) / 1e6


def measured(lab: process.RunningLab, folder: Path, *arguments: object) -> Cost:
    """Run a command of the tool; `RuntimeError` with what it said where it fails."""
    requests, megabytes = traffic(lab)
    with open(folder / "said", "w", encoding="utf-8") as said:
        began = time.monotonic()
        argv = [sys.executable, "-m", "vsphere_ai", *map(str, arguments)]
        started = subprocess.Popen(argv, stdout=said, stderr=subprocess.STDOUT, env=environment(folder))
        _, status, used = os.wait4(started.pid, 0)
        wall = time.monotonic() - began
    if os.waitstatus_to_exitcode(status):
        raise RuntimeError((folder / "said").read_text("utf-8")[-3000:])
    after = traffic(lab)
    cpu = used.ru_utime + used.ru_stime
    return Cost(wall, cpu, used.ru_maxrss / 1024, after[0] - requests, after[1] - megabytes)


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a command with a state folder of its own."""
    return {**os.environ, "VSPHERE_AI_STATE_DIR": str(folder / "state")}


def shard(hosts: int, folder: Path) -> dict[str, object]:
    """Plan and carry out one shard; return what that has cost."""
    (folder / "state").mkdir(mode=0o700)
    (folder / "scenario.yml").write_text(farm(hosts), encoding="utf-8")
    (folder / "play.yml").write_text(PLAYBOOK, encoding="utf-8")
    lab = process.start(folder / "lab", folder / "scenario.yml", exit_with=os.getpid())
    try:
        inventory = folder / "lab" / "connection.yml"
        given = ("-i", inventory, "--parallel", 16)
        plan = measured(lab, folder, "fleet", "plan", folder / "play.yml", *given, "--to", folder / "fleet.json")
        run = measured(lab, folder, "fleet", "apply", folder / "fleet.json", *given, "--reboot", hosts)
    finally:
        process.stop(folder / "lab")
    (journal,) = (folder / "state" / "runs").glob("*.db")
    with sqlite3.connect(journal) as db:
        (steps,) = db.execute("select count(*) from step").fetchone()
    record = next((folder / "state" / "fleets").glob("*.json"))
    size = journal.stat().st_size
    return {
        "hosts": hosts, "vms": hosts * VMS_PER_HOST, "steps": steps, "plan": vars(plan), "run": vars(run),
        "journal": size, "saved_plan": (folder / "fleet.json").stat().st_size, "record": record.stat().st_size,
    }  # fmt: skip


def main() -> None:
    """Measure and print."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--hosts", type=int, nargs=2, default=(16, 64))
    asked.add_argument("--json", action="store_true")
    asked.add_argument("--processes", action="store_true", help="of a fleet of four small vCenters over Dask, instead")
    chosen = asked.parse_args()
    if chosen.processes:
        with tempfile.TemporaryDirectory() as folder, fleet.labs(Path(folder), 16, 0.5) as running:
            fleet.write_files(Path(folder), running)
            print(*fleet.with_dask(Path(folder))[1], sep="\n")
        return
    found = []
    for hosts in chosen.hosts:
        with tempfile.TemporaryDirectory() as folder:
            found.append(shard(hosts, Path(folder)))
    if chosen.json:
        print(json.dumps(found, indent=2))
        return
    for each in found:
        print(f"{each['hosts']} hosts, {each['vms']} VMs, {each['steps']} steps")
        for name in ("plan", "run"):
            cost = Cost(**each[name])  # type: ignore[arg-type]
            print(
                f"  {name:4}  {cost.wall:6.1f} s  {cost.cpu:5.1f} s CPU  {cost.memory:4.0f} MiB  "
                f"{cost.requests:6} requests  {cost.megabytes:5.1f} MB"
            )
        size, steps = int(str(each["journal"])), int(str(each["steps"]))
        print(
            f"  journal {size / 1e3:.0f} kB, {size / steps:.0f} bytes per step; saved plan {each['saved_plan']} bytes"
        )


if __name__ == "__main__":
    main()
