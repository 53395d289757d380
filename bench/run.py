"""Measures what an operator waits for, against the lab: planning, and reading as the estate grows. Run by `make bench`.

Absolute times depend on the machine; what counts are the ratios. The lab runs on the same machine and is part of them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pyVmomi.SoapAdapter import SoapStubAdapter

from vsphere_ai.app.plan_playbook import make_plan
from vsphere_ai.app.read_estate import read_everything
from vsphere_ai.app.session import EstateRequest, Session
from vsphere_ai.lab import process
from vsphere_ai.language.inventory import CONNECTION, load_inventory
from vsphere_ai.language.playbook import load_playbook
from vsphere_ai.resources import kinds

ROOT = Path(__file__).parents[1]
PLAYBOOK = ROOT / "playbooks" / "ai-ready-cluster.yml"
FARM = """\
name: farm-of-{vms}
clusters: [{{name: gpu-a}}]
switches: [{{name: dvs-lan, port_groups: [{{name: dvpg-lan}}]}}]
hosts:
  - name: esx[001:{hosts:03}].lab.local
    cluster: gpu-a
    nvidia_driver: 535.261.03
    gpus: [{{pci: "0000:3b:00.0", board: a100-80gb}}, {{pci: "0000:86:00.0", board: a100-80gb}}]
    nics: [{{name: vmnic0, pci: "0000:18:00.0", switch: dvs-lan}}]
vms:
  - {{name: "vm-[0001:{vms:04}]", host: "esx[001:{hosts:03}].lab.local", power: on, network: dvpg-lan}}
"""


class Requests:
    """Counts what goes to the server."""

    count = 0

    def __init__(self) -> None:
        invoke = SoapStubAdapter.InvokeMethod

        def counted(stub, *args, **kwargs):
            Requests.count += 1
            return invoke(stub, *args, **kwargs)

        SoapStubAdapter.InvokeMethod = counted


def timed(what, times: int) -> tuple[float, int]:
    """Return the median seconds and the requests of one run of `what`."""
    seconds = []
    for _ in range(times):
        Requests.count = 0
        started = time.perf_counter()
        what()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds), Requests.count


def open_session(directory: Path, playbook=None) -> Session:
    return Session(load_inventory(directory / CONNECTION), playbook, EstateRequest())


def read_estate(directory: Path) -> None:
    with open_session(directory) as session:
        found = read_everything(session)
        assert found.vms


def plan_mission(directory: Path) -> None:
    playbook = load_playbook(PLAYBOOK, kinds())
    with open_session(directory, playbook) as session:
        assert make_plan(session, playbook)[0].steps


def command(directory: Path, *arguments: str) -> None:
    environment = {**os.environ, "VSPHERE_AI_LAB_DIR": str(directory)}
    tool = [sys.executable, "-m", "vsphere_ai", *arguments]
    subprocess.run(tool, env=environment, check=True, capture_output=True)


def farm(folder: Path, vms: int, hosts: int) -> Path:
    directory = folder / f"farm-{vms}"
    directory.mkdir()
    scenario = directory / "scenario.yml"
    scenario.write_text(FARM.format(vms=vms, hosts=hosts), "utf-8")
    process.start(directory, scenario)
    return directory


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="runs per figure; the median is shown")
    parser.add_argument("--vms", type=int, default=1000, help="VMs of the large estate")
    given = parser.parse_args()
    Requests()
    with tempfile.TemporaryDirectory(prefix="vsphere-ai-bench-") as name:
        folder = Path(name)
        directories: list[Path] = []
        try:
            mission = folder / "mission"
            mission.mkdir()
            process.start(mission)
            directories.append(mission)
            for vms in (given.vms // 10, given.vms):
                directories.append(farm(folder, vms, hosts=20))
            report_plan(given.times, mission)
            report_reading(given.times, directories[1:])
        finally:
            for directory in directories:
                process.stop(directory)
    return 0


def report_plan(times: int, mission: Path) -> None:
    startup, _ = timed(lambda: command(mission, "--version"), times)
    planning, requests = timed(lambda: plan_mission(mission), times)
    whole, _ = timed(lambda: command(mission, "plan", str(PLAYBOOK)), times)
    print(f"{'start of the tool (--version)':44} {startup * 1000:8.0f} ms")
    print(f"{'plan of the mission, in process':44} {planning * 1000:8.0f} ms  {requests:4} requests")
    print(f"{'plan of the mission, as a command':44} {whole * 1000:8.0f} ms  {whole / startup:6.1f} x the start")


def report_reading(times: int, farms: list[Path]) -> None:
    seconds, requests = [], []
    for directory in farms:
        took, asked = timed(lambda: read_estate(directory), times)  # noqa: B023 - called before the next round
        print(f"{f'reading an estate: {directory.name}':44} {took * 1000:8.0f} ms  {asked:4} requests")
        seconds.append(took)
        requests.append(asked)
    print(f"10 times the VMs: {seconds[1] / seconds[0]:.1f} x the time, {requests[1] / requests[0]:.1f} x the requests")


if __name__ == "__main__":
    sys.exit(main())
