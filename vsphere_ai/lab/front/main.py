"""Process of the lab: starts the servers, writes what clients need into its directory, serves until it is stopped."""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from vsphere_ai.errors import VsphereAiError
from vsphere_ai.lab.front import shortcuts
from vsphere_ai.lab.front.control import Lab, LabSecrets
from vsphere_ai.lab.front.record import LabRecord
from vsphere_ai.lab.front.server import Server
from vsphere_ai.lab.front.starting import FILE, StartProgress
from vsphere_ai.lab.guest.server import KEY, USER, write_text
from vsphere_ai.lab.scenario import Scenario, expand
from vsphere_ai.lab.scenario_file import digest, load
from vsphere_ai.lab.tls import make_certificate, write_private


def main(argv: list[str] | None = None) -> int:
    """Run a lab in the foreground; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m vsphere_ai.lab", description=__doc__)
    parser.add_argument("--directory", type=Path, required=True, help="where connection.yml and the keys go")
    parser.add_argument("--scenario", type=Path, help="a scenario file; the built-in one without it")
    parser.add_argument("--port", type=int, default=0, help="HTTPS port; a free one without it")
    parser.add_argument("--exit-with", type=int, default=0, metavar="PID", help="end when this process ends")
    parser.add_argument("--run-jobs", action="store_true", help="let commands in guests be processes of this machine")
    parser.add_argument("--trace", action="store_true", help="log every request")
    given = parser.parse_args(argv)
    shortcuts.take()
    gc.disable()  # what a farm is made of stays: searching it for garbage again and again finds nothing
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        lab, server = start(given.directory, given.scenario, given.port, run_jobs=given.run_jobs)
    except (VsphereAiError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return getattr(error, "exit_code", 70)
    gc.freeze()
    gc.enable()
    lab.trace = given.trace
    while not stop.wait(1.0):
        if given.exit_with and not _alive(given.exit_with):
            break
    (given.directory / "lab.json").unlink(missing_ok=True)
    server.shutdown()
    lab.faults.clear()
    lab.close()
    return 0


def start(
    directory: Path, scenario_file: Path | None = None, port: int = 0, *, run_jobs: bool = False
) -> tuple[Lab, Server]:
    """Start a lab; when ``lab.json`` is there, every other file is, and both protocols answer.

    With `run_jobs` its guests run jobs, also where the scenario does not say so.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    progress = StartProgress(lambda text: (directory / FILE).write_text(text, encoding="utf-8"))
    progress.stage("reading the scenario")
    scenario = load(scenario_file)
    if run_jobs:
        scenario = replace(scenario, guests=replace(scenario.guests, run_jobs=True))
    secret = LabSecrets()
    write_private(directory / "password", f"{secret.password}\n".encode())
    write_private(directory / "ssh_password", f"{secret.ssh_password}\n".encode())
    make_certificate(directory)
    lab = Lab(scenario, directory, secret, progress)
    lab.server = server = Server(lab, directory, port, faults=lab.faults)
    control = Server(lab, directory, serves_api=False)
    lab.guests_changed = lambda: write_connection(lab, directory, server.port)
    lab.guests_changed()
    record = LabRecord(
        pid=os.getpid(),
        url=f"https://127.0.0.1:{server.port}/sdk",
        port=server.port,
        control_port=control.port,
        scenario=scenario.name,
        scenario_file=str(scenario_file.resolve()) if scenario_file else "",
        scenario_digest=digest(scenario_file),
        run_jobs=scenario.guests.run_jobs,
        hosts=len(lab.farm.hosts),
        vms=sum(len(list(expand(vm.name))) for vm in scenario.vms),
        token=lab.token,
    )
    lab.info = {key: value for key, value in vars(record).items() if key != "token"}
    progress.stage("starting to serve")
    server.start()
    control.start()
    write_private(directory / "lab.json.new", record.as_text().encode())
    (directory / "lab.json.new").rename(directory / "lab.json")
    (directory / FILE).unlink()
    return lab, server


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def write_connection(lab: Lab, directory: Path, port: int) -> None:
    """Write how the lab's servers are reached; again whenever there is another guest."""
    lines = [*(s.known_hosts_line() for s in lab.ssh.values()), *lab.guests.known_hosts()]
    write_text(directory / "known_hosts", "".join(f"{line}\n" for line in lines))
    write_text(directory / "connection.yml", connection(lab, port))


def connection(lab: Lab, port: int) -> str:
    """Return the text of ``connection.yml``: how to reach the lab, in the format of an inventory."""
    # JSON is YAML, and its strings are quoted: no host name or address can be mistaken for a number
    document: dict[str, Any] = {
        "vcenters": {
            "lab": {
                "address": "127.0.0.1",
                "port": port,
                "username": lab.scenario.vcenter.username,
                "password": "file:password",
                "tls": {"ca_file": "ca.pem"},
            }
        },
        "ssh": {
            "username": "root",
            "password": "file:ssh_password",
            "known_hosts": "known_hosts",
            "addresses": {name: f"127.0.0.1:{server.port}" for name, server in lab.ssh.items()},
        },
        "guests": {
            "username": USER,
            "key_file": KEY,
            "known_hosts": "known_hosts",
            "addresses": lab.guests.addresses,
        },
        "hosts": _host_groups(lab.scenario),
        "vms": _vm_groups(lab.scenario),
    }
    return "".join(f"{key}: {json.dumps(value, indent=2)}\n" for key, value in document.items())


def _vm_groups(scenario: Scenario) -> dict[str, Any]:
    """Return a group for each folder of VMs, called like it as far as an inventory can have that name."""
    groups: dict[str, Any] = {}
    for folder in dict.fromkeys(v.folder.strip("/") for v in scenario.vms if v.folder.strip("/")):
        plain = [re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-.") for text in (folder.rpartition("/")[2], folder)]
        names = (*plain, f"vms-{plain[1]}", *(f"vms-{plain[1]}-{number}" for number in range(len(scenario.vms))))
        usable = (n for n in names if n not in groups and n != "all" and re.match(r"[A-Za-z_]", n))
        groups[next(usable)] = {"folder": folder}
    return groups


def _host_groups(scenario: Scenario) -> dict[str, Any]:
    gpu_hosts = [h for h in scenario.hosts if h.gpus and h.cluster] or [h for h in scenario.hosts if h.gpus]
    if not gpu_hosts:
        return {}
    group: dict[str, Any] = {"names": [name for h in gpu_hosts for name in expand(h.name)]}
    clusters = {h.cluster for h in gpu_hosts}
    if len(clusters) == 1 and "" not in clusters:
        group = {"cluster": clusters.pop(), **group}
    return {"gpu_hosts": group}
