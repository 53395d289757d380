"""What a rollout takes against its critical path: hosts of two clusters reboot, a few at a time, in the lab.

Run it with ``python bench/rollout.py``. The critical path is the plan's own steps, laid out in time as the plan screen
does, each as long as the lab takes for it: tasks, shutdowns and boots have set times there, and everything else takes
none. What the run takes beyond that is lost between the steps: looks that come late, reads, the machine itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from common import ROOT, Case, Row, Size
from run import alone

from vsphere_ai.lab.front import process

LAB = ROOT / "inventories" / "lab.yml"
BOOT, TASK, SHUTDOWN = 8.0, 0.3, 1.0
GOES_DOWN = 0.1
"""Seconds until a host of the lab that was told to reboot goes down."""
FARM = """\
name: farm-of-{hosts}
vcenter: {{version: 8.0.2, build: 22617221, api: 8.0.2.0}}
timing: {{boot_seconds: {boot}, task_seconds: {task}, shutdown_seconds: {shutdown}, vmotion_seconds: 0.3}}
clusters: [{{name: gpu-a}}, {{name: gpu-b}}]
hosts:
{each}
vms:
  - {{name: "vm-[01:{hosts:02}]", host: "esx[01:{hosts:02}].lab.local", tools: running, power: on}}
"""
HOST = """\
  - name: esx{number:02}.lab.local
    cluster: gpu-{cluster}
    version: 8.0.2
    build: 22380479
    nvidia_driver: 535.261.03
    gpus: [{{pci: "0000:3b:00.0", board: a100-40gb, device_id: 20f1, graphics_type: sharedDirect}}]
    ssh: {{running: true, policy: on}}
"""
PLAYBOOK = """\
- hosts: esx*
  mig: {{mode: {mode}}}
  rolling: {{max_unavailable: 2, evacuate: power_off, reboot: ssh, timeout: 60s, settle: 20s}}
"""
HOSTS = {"XS": 4}
"""Hosts by the size; 12 of larger ones."""
PATH, OURS = "the critical path", "vsphere-ai"
MARK = "measured "


def seconds_of(step: object) -> float:
    """Return how long the lab takes for a step."""
    from vsphere_ai.model.steps import what

    took = {
        "host-back": GOES_DOWN + BOOT,
        "power-off": SHUTDOWN,
        "power-on": TASK,
        "enter-maintenance": TASK,
        "exit-maintenance": TASK,
    }
    return took.get(what(step), 0.0)  # type: ignore[arg-type] # it is one


def carry_out(argv: list[str]) -> int:
    """Be the tool: run a command, and print what its run took and what it had to take."""
    from vsphere_ai.cli.main import main as tool
    from vsphere_ai.execution.runner import Runner
    from vsphere_ai.planning.scheduling.expected_time import StepTimes, Usual, estimate

    run = Runner.run

    def measured(self: Runner) -> object:
        steps = self._state.plan.steps
        path = estimate(steps, StepTimes({p.id: Usual(seconds_of(p.step), 1) for p in steps}, self._parallel, 1))
        began = time.perf_counter()
        result = run(self)
        found = {"wall": time.perf_counter() - began, "path": path.seconds, "steps": len(steps)}
        found["types"] = spent(result)
        found["expected"] = self._record._journal.documents.approved["expected"]["seconds"]  # type: ignore[attr-defined,index]
        print(MARK + json.dumps(found), file=sys.stderr, flush=True)
        return result

    Runner.run = measured  # type: ignore[method-assign]
    return tool(argv)


def spent(result: object) -> Mapping[str, float]:
    """Return what steps took beyond the lab's own time, by their type."""
    from vsphere_ai.model.steps import what

    found: dict[str, float] = {}
    for outcome in result.outcomes:  # type: ignore[attr-defined]
        step = outcome.planned.step
        name = what(step) or type(step).__name__
        found[name] = found.get(name, 0.0) + outcome.seconds - seconds_of(step)
    return found


def once(directory: Path, number: int) -> dict:
    """Carry out a rollout as a command; return what it took."""
    playbook = directory / "play.yml"
    playbook.write_text(PLAYBOOK.format(mode=("enabled", "disabled")[number % 2]), "utf-8")
    environment = {**os.environ, "VSPHERE_AI_LAB_DIR": str(directory), "VSPHERE_AI_STATE_DIR": str(directory / "state")}
    argv = [sys.executable, __file__, "--tool", "apply", "-i", str(LAB), "--yes", "--parallel", "32", str(playbook)]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"apply ended with {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    line = next(line for line in done.stderr.splitlines() if line.startswith(MARK))
    return json.loads(line.removeprefix(MARK))


def measure(size: Size, times: int) -> list[Row]:
    """Carry out a rollout several times; return what it takes, and its critical path."""
    hosts = HOSTS.get(size.name, 12)
    with tempfile.TemporaryDirectory(prefix="vsphere-ai-bench-") as name, contextlib.ExitStack() as stack:
        directory = Path(name)
        each = "".join(HOST.format(number=n + 1, cluster="ab"[n % 2]) for n in range(hosts))
        scenario = directory / "farm.yml"
        timing = {"boot": BOOT, "task": TASK, "shutdown": SHUTDOWN}
        scenario.write_text(FARM.format(hosts=hosts, each=each, **timing), "utf-8")
        process.start(directory, scenario, exit_with=os.getpid())
        stack.callback(process.stop, directory)
        found = [once(directory, number) for number in range(times + 1)]
    case = Case("rollout", f"{hosts} hosts reboot, 2 per cluster", size, roles={PATH: "limit", OURS: "ours"})
    for run in found:
        lost = sorted(run["types"].items(), key=lambda kv: -kv[1])
        print(", ".join(f"{name} {seconds:.2f} s" for name, seconds in lost if seconds > 0.05), file=sys.stderr)
    # what the first plan expects is a guess; those after it know the runs before
    ours = [
        {"wall": run["wall"], "against the path": run["wall"] / run["path"], "expected": run["expected"]}
        for run in found[1:] or found
    ]
    return [case.row(PATH, [{"wall": run["path"]} for run in found]), case.row(OURS, ours)]


if __name__ == "__main__":
    if "--tool" in sys.argv[1:2]:
        sys.exit(carry_out(sys.argv[2:]))
    alone(__doc__, measure)
