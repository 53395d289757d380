"""Four vCenters with Dask against the same four one after another, and what each process of the fleet takes.

The four are labs on this machine whose tasks take seconds, so that waiting for
them is most of the time, as it is for real ones. Both ways do the same work, each on labs that are fresh: a run of
`vsphere-ai apply` per vCenter, and one `vsphere-ai fleet apply` over a scheduler and a worker per vCenter, each a
process of its own. What counts is the ratio of their wall times; starting the scheduler and the workers, which stand
by for weeks, is not in it.
"""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from common import Case, Row, Size
from estates import Absent
from run import alone

from vsphere_ai.lab.front import process

SITES = ("berlin", "munich", "oslo", "paris")
PARALLEL = 4
FARM = """\
name: {site}
timing: {{boot_seconds: 0.2, task_seconds: {task}, shutdown_seconds: 0.05, vmotion_seconds: 0.02}}
clusters: [{{name: {site}}}]
hosts: [{{name: esx01.{site}.local, cluster: {site}}}]
vms: [{{name: "vm-[001:{vms:03}]", host: esx01.{site}.local}}]
"""
TOOL = (sys.executable, "-m", "vsphere_ai")


@contextmanager
def labs(folder: Path, vms: int, task: float) -> Iterator[Mapping[str, process.RunningLab]]:
    """Start a lab per site, and stop them at the end."""
    made = {}
    try:
        for site in SITES:
            own = folder / site
            own.mkdir()
            (own / "scenario.yml").write_text(FARM.format(site=site, vms=vms, task=task), encoding="utf-8")
            made[site] = process.start(own, own / "scenario.yml", exit_with=os.getpid())
        yield made
    finally:
        for site in made:
            process.stop(folder / site)


def write_files(folder: Path, running: Mapping[str, process.RunningLab]) -> None:
    """Write a playbook, an inventory of all sites, and one of each."""
    (folder / "play.yml").write_text("- vms: vm-*\n  hardware: {version: 19}\n", encoding="utf-8")
    entries = {}
    for site, lab in running.items():
        own = lab.directory
        entries[site] = (
            f"  {site}:\n    address: 127.0.0.1\n    port: {lab.port}\n    username: administrator@vsphere.local\n"
            f'    password: "file:{own / "password"}"\n    tls: {{ca_file: "{own / "ca.pem"}"}}\n'
        )
        (folder / f"{site}.yml").write_text(f"vcenters:\n{entries[site]}", encoding="utf-8")
    (folder / "all.yml").write_text("vcenters:\n" + "".join(entries.values()), encoding="utf-8")


def state(folder: Path, name: str) -> dict[str, str]:
    """Return the environment of a process with a state folder of its own."""
    own = folder / f"state-{name}"
    own.mkdir(mode=0o700, exist_ok=True)
    return {**os.environ, "VSPHERE_AI_STATE_DIR": str(own)}


def one_after_another(folder: Path) -> float:
    """Apply the playbook in each vCenter, and return the seconds of all."""
    began = time.monotonic()
    for site in SITES:
        argv = [
            *TOOL,
            "apply",
            folder / "play.yml",
            "-i",
            folder / "all.yml",
            "--vcenter",
            site,
            "--yes",
            "--parallel",
            str(PARALLEL),
        ]
        subprocess.run(argv, check=True, capture_output=True, env=state(folder, "one"))
    return time.monotonic() - began


@contextmanager
def fleet(folder: Path) -> Iterator[tuple[str, dict[str, subprocess.Popen[str]]]]:
    """Start a scheduler and a worker per site; yield its address, and the processes by their names."""
    started: dict[str, subprocess.Popen[str]] = {}

    def begin(name: str, *argv: object) -> subprocess.Popen[str]:
        started[name] = subprocess.Popen(
            [*map(str, argv)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=state(folder, name)
        )
        return started[name]

    try:
        subprocess.run([*TOOL, "fleet", "certificates", folder / "pki"], check=True, capture_output=True)
        scheduler = (sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard", *tls(folder, "-file"))
        address = said(begin("scheduler", *scheduler, "--host", "tls://127.0.0.1:0"), r"Scheduler at:\s+(\S+)")
        for site in SITES:
            worker = (*TOOL, "fleet", "worker", address, "-i", folder / f"{site}.yml", *tls(folder))
            said(begin(site, *worker), r"(worker .* at tls)")
        yield address, started
    finally:
        for each in reversed(started.values()):
            each.terminate()
        for each in started.values():
            each.wait()


def tls(folder: Path, ending: str = "") -> list[object]:
    """Return the options that name the certificates of the fleet; `ending`: that of the authority's in Dask."""
    pki = folder / "pki"
    own = {f"--tls-ca{ending}": "ca.pem", "--tls-cert": "localhost.pem", "--tls-key": "localhost.key"}
    return [word for option, name in own.items() for word in (option, pki / name)]


def said(started: subprocess.Popen[str], pattern: str) -> str:
    """Return what a process says; `RuntimeError` where it ends before."""
    seen = ""
    assert started.stdout is not None
    for line in started.stdout:
        seen += line
        if found := re.search(pattern, line):
            return found[1]
    raise RuntimeError(seen)


def with_dask(folder: Path) -> tuple[float, list[str]]:
    """Apply the playbook as a fleet; return the seconds, and what each process has taken."""
    with fleet(folder) as (address, started):
        began = time.monotonic()
        argv = [*TOOL, "fleet", "apply", folder / "play.yml", "-i", folder / "all.yml", "--yes"]
        argv += ["--executor", f"dask:{address}", "--parallel", str(PARALLEL), *tls(folder)]
        with open(folder / "said", "w", encoding="utf-8") as out:
            coordinator = subprocess.Popen(argv, stdout=out, stderr=out, env=state(folder, "coordinator"))
            _, status, used = os.wait4(coordinator.pid, 0)
        seconds = time.monotonic() - began
        if os.waitstatus_to_exitcode(status):
            raise RuntimeError((folder / "said").read_text("utf-8")[-3000:])
        lines = [f"coordinator  {used.ru_utime + used.ru_stime:5.1f} s CPU  {used.ru_maxrss / 1024:4.0f} MiB"]
        return seconds, lines + [f"{name:11}  {taken(each.pid)}" for name, each in started.items()]


def taken(pid: int) -> str:
    """Return the CPU and the most memory that a process has taken so far."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(") ")[2].split()
    cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text("utf-8"))
    return f"{cpu:5.1f} s CPU  {int(peak[1]) / 1024 if peak else 0:4.0f} MiB"


ALONE = "the tasks alone, of one vCenter"
ONE, DASK = "one after another", "with Dask, a worker for each"
SHORT = {"XS": (2, 0.2)}
"""VMs of each vCenter and seconds of a task, by the size; 24 VMs and 3 s at larger ones."""


def once(way: str, vms: int, task: float) -> dict[str, float]:
    """Apply the playbook in one of the ways, on fresh labs; every VM is upgraded once by their ledgers."""
    with tempfile.TemporaryDirectory() as name, labs(Path(name), vms, task) as running:
        folder = Path(name)
        write_files(folder, running)
        seconds = one_after_another(folder) if way == ONE else with_dask(folder)[0]
        ledgers = [lab.get("/lab/ledger")["entries"] for lab in running.values()]
        done = [sum(e["call"] == "UpgradeVM_Task" for e in ledger) for ledger in ledgers]
        if done != [vms] * len(SITES):
            raise SystemExit(f"{way}: {done} VMs were upgraded, not {vms} in each vCenter")
    return {"wall": seconds}


def measure(size: Size, times: int) -> list[Row]:
    """Measure both ways, and what the tasks alone take in one vCenter."""
    vms, task = SHORT.get(size.name, (24, 3.0))
    try:
        importlib.import_module("distributed")
    except ImportError:
        Absent("fleets over Dask are not measured: the extra [fleet] is not installed").report()
        return []
    title = f"4 vCenters, {vms} tasks of {task} s in each, {PARALLEL} at a time"
    case = Case("fleet", title, size, roles={ALONE: "limit", DASK: "ours"})
    rows = case.compare({ONE: lambda: once(ONE, vms, task), DASK: lambda: once(DASK, vms, task)}, times, [ONE, DASK])
    return [case.row(ALONE, [{"wall": -(-vms // PARALLEL) * task}]), *rows]


if __name__ == "__main__":
    alone(__doc__, measure)
