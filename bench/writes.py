"""What carrying out many changes costs: one reconfigure of each of 500 VMs, 64 at a time, against the lab.

Run it with ``python bench/writes.py``. The tool is a process of its own, so that its CPU is counted without the lab's;
requests are those that the lab has answered while the run lasted, from its first step to its end. What counts is the
ratio to the time that the tasks alone take: as many as are in flight at once end together, one after the other.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from common import ROOT, Case, Row, Size
from run import alone

from vsphere_ai.lab.front import process

LAB = ROOT / "inventories" / "lab.yml"
FARM = """\
name: farm-of-{vms}
timing: {{boot_seconds: 0.2, task_seconds: {task}, shutdown_seconds: 0.05, vmotion_seconds: 0.02}}
clusters: [{{name: gpu-a}}]
switches: [{{name: dvs-lan, port_groups: [{{name: dvpg-lan}}]}}]
hosts:
  - name: esx[001:{hosts:03}].lab.local
    cluster: gpu-a
    nvidia_driver: 535.261.03
    gpus: [{{pci: "0000:3b:00.0", board: a100-80gb}}, {{pci: "0000:86:00.0", board: a100-80gb}}]
    nics: [{{name: vmnic0, pci: "0000:18:00.0", switch: dvs-lan}}]
vms:
  - {{name: "vm-[0001:{vms:04}]", host: "esx[001:{hosts:03}].lab.local", network: dvpg-lan}}
"""
PLAYBOOK = """\
- vms: vm-*
  tuning: {{extra_config: {{bench.round: "{round}"}}}}
"""
MARK = "measured "


class Journaled:
    """Counts commits of the journal, and the time in which threads of steps waited for it."""

    def __init__(self) -> None:
        from vsphere_ai.runs import journal

        self.commits, self.waited, self.calls = 0, 0.0, 0
        self._lock = threading.Lock()
        connect = journal._connect

        def connected(*args: object) -> object:
            made = connect(*args)
            made.set_trace_callback(self._statement)
            return made

        journal._connect = connected
        for name in ("begin", "end", "submitted", "sending"):
            self._time(journal.Journal, name)

    def _statement(self, text: str) -> None:
        self.commits += text.strip().upper().startswith("COMMIT")

    def _time(self, owner: type, name: str) -> None:
        method = getattr(owner, name)

        def timed(*args: object, **kwargs: object) -> object:
            began = time.perf_counter()
            try:
                return method(*args, **kwargs)
            finally:
                with self._lock:
                    self.waited += time.perf_counter() - began
                    self.calls += 1

        setattr(owner, name, timed)


def carry_out(directory: Path, argv: list[str]) -> int:
    """Be the tool: run a command, and print what its run cost."""
    from vsphere_ai.cli.main import main as tool
    from vsphere_ai.execution.runner import Runner

    lab = process.find(directory)
    assert lab is not None
    journaled, run = Journaled(), Runner.run

    def measured(self: Runner) -> object:
        calls, commits = lab.get("/lab/traffic")["calls"], journaled.commits
        cpu, lab_cpu, began = _cpu(), _cpu_of(lab.pid), time.perf_counter()
        result = run(self)
        wall, cpu, lab_cpu = time.perf_counter() - began, _cpu() - cpu, _cpu_of(lab.pid) - lab_cpu
        after = lab.get("/lab/traffic")["calls"]
        asked = {k: n - calls.get(k, 0) for k, n in after.items() if n != calls.get(k, 0)}
        found = {"wall": wall, "cpu": cpu, "lab_cpu": lab_cpu, "calls": asked, "waited": journaled.waited}
        found |= {"commits": journaled.commits - commits, "noted": journaled.calls}
        print(MARK + json.dumps(found), file=sys.stderr, flush=True)
        return result

    Runner.run = measured  # type: ignore[method-assign]
    return tool(argv)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def once(directory: Path, number: int, parallel: int) -> dict:
    """Carry out one change of every VM as a command; return what it cost."""
    playbook = directory / "play.yml"
    playbook.write_text(PLAYBOOK.format(round=number), "utf-8")
    state = directory / f"state-{number}"
    environment = {**os.environ, "VSPHERE_AI_LAB_DIR": str(directory), "VSPHERE_AI_STATE_DIR": str(state)}
    argv = [sys.executable, __file__, "--tool", str(directory), "apply", "-i", str(LAB), "--yes"]
    argv += ["--parallel", str(parallel), str(playbook)]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"apply ended with {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    line = next(line for line in done.stderr.splitlines() if line.startswith(MARK))
    return json.loads(line.removeprefix(MARK))


COUNTS = {"XS": 10, "S": 100}
"""VMs that are changed, by the size; 500 of larger ones."""
PARALLEL, TASK = 64, 0.2
TASKS, OURS = "the tasks alone", "vsphere-ai"


def measure(size: Size, times: int) -> list[Row]:
    """Carry out a change of each VM several times; return what it takes, and what the tasks alone take."""
    vms = COUNTS.get(size.name, 500)
    limit = math.ceil(vms / PARALLEL) * TASK
    with tempfile.TemporaryDirectory(prefix="vsphere-ai-bench-") as name, contextlib.ExitStack() as stack:
        directory = Path(name)
        scenario = directory / "farm.yml"
        scenario.write_text(FARM.format(vms=vms, hosts=20, task=TASK), "utf-8")
        process.start(directory, scenario, exit_with=os.getpid())
        stack.callback(process.stop, directory)
        found = [once(directory, number + 1, PARALLEL) for number in range(times)]
    title = f"{vms} reconfigures of {TASK} s, {PARALLEL} at a time"
    case = Case("writes", title, size, roles={TASKS: "limit", OURS: "ours"})
    return [case.row(TASKS, [{"wall": limit}]), case.row(OURS, [_figures(run, vms) for run in found])]


def _figures(run: dict, vms: int) -> dict[str, float]:
    requests = sum(run["calls"].values())
    return {
        "wall": run["wall"],
        "cpu": run["cpu"],
        "requests": requests,
        "CPU ms per VM": run["cpu"] / vms * 1000,
        "requests per VM": requests / vms,
        "lab's CPU ms per VM": run["lab_cpu"] / vms * 1000,
        "notes in the journal": run["noted"],
        "flushes": run["commits"],
        "ms of waiting per note": run["waited"] / run["noted"] * 1000,
        "property collectors": run["calls"].get("CreatePropertyCollector", 0),
    }


if __name__ == "__main__":
    if "--tool" in sys.argv[1:2]:
        sys.exit(carry_out(Path(sys.argv[2]), sys.argv[3:]))
    alone(__doc__, measure)
