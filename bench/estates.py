"""Estates to measure on, each with as many hosts and VMs as a size says: the lab's, and that of VMware's own simulator.

In the lab every eighth host has two GPUs, and there are 64 VMs for training on those, or as many as there are GPUs.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from common import BUILD, ROOT, Size

from vsphere_ai.lab import tls
from vsphere_ai.lab.front import process
from vsphere_ai.language.inventories.inventory import CONNECTION, load_inventory

GOPATH = Path("/usr/share/gocode")
GOVMOMI = GOPATH / "src/github.com/vmware/govmomi"
PACKAGES = "apt-get install golang-go golang-github-vmware-govmomi-dev"
TASK = 0.005
FARM = """\
name: farm-of-{vms}
timing: {{boot_seconds: 0.2, task_seconds: {task}, shutdown_seconds: 0.05, vmotion_seconds: 0.02}}
clusters: [{{name: gpu-a}}, {{name: others}}]
switches:
  - {{name: dvs-lan, port_groups: [{{name: dvpg-lan}}]}}
  - {{name: dvs-rdma, mtu: 9000, uplinks: 1, port_groups: [{{name: dvpg-rdma, vlan: 100}}]}}
hosts:
  - name: gpu[0001:{gpu_hosts:04}].lab.local
    cluster: gpu-a
    nvidia_driver: 470.256.02
    graphics_default: sharedDirect
    gpus:
      - {{pci: "0000:3b:00.0", board: a100-40gb, device_id: 20f1, mig: true, graphics_type: sharedDirect}}
      - {{pci: "0000:86:00.0", board: a100-40gb, device_id: 20f1, mig: true, graphics_type: sharedDirect}}
    nics:
      - {{name: vmnic0, pci: "0000:18:00.0", switch: dvs-lan}}
      - {{name: vmnic4, pci: "0000:5e:00.0", model: ConnectX-6, switch: dvs-rdma, rdma: vmrdma0}}
    vmkernel: [{{name: vmk0, port_group: dvpg-lan}}, {{name: vmk2, port_group: dvpg-rdma}}]
    ssh: {{running: true, policy: on}}
  - name: esx[0001:{plain_hosts:04}].lab.local
    cluster: others
    nics: [{{name: vmnic0, pci: "0000:18:00.0", switch: dvs-lan}}]
vms:
  - {{name: "train-[0001:{training:04}]", host: "gpu[0001:{gpu_hosts:04}].lab.local", folder: ai, network: dvpg-lan}}
  - {{name: "vm-[00001:{others:05}]", host: "esx[0001:{plain_hosts:04}].lab.local", power: on, network: dvpg-lan}}
"""
TRAINING = """\
- hosts: gpu[0001:{gpu_hosts:04}].lab.local
  pvrdma_host: {{vmknic: vmk2, firewall: true}}
- vms: train-[0001:{training:04}]
  hardware: {{version: 19}}
  vgpu: [grid_a100-3-20c]
  pvrdma: [{{port_group: dvpg-rdma, protocol: rocev2}}]
"""
"""A playbook for the VMs for training and their hosts."""
EVERY_VM = "- vms: {names}\n  hardware: {{version: {version}}}\n  tuning: {{extra_config: {{bench.round: one}}}}\n"
"""A playbook that changes the hardware of every VM."""


class Absent(Exception):
    """What a measurement needs is not installed; the text says what."""

    said: ClassVar[set[str]] = set()

    def report(self) -> None:
        """Print what is not measured, once."""
        if str(self) not in self.said:
            self.said.add(str(self))
            print(f"  {self}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Estate:
    """A vCenter that answers, and how to log in to it."""

    name: str
    size: Size
    folder: Path
    port: int
    username: str
    password: str
    inventory: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def ca(self) -> Path:
        """Certificate to trust."""
        return self.folder / "ca.pem"

    def traffic(self) -> dict[str, dict[str, int]]:
        """Return calls and bytes up to now, by method; empty where the server does not count."""
        lab = process.find(self.folder) if self.name == "lab" else None
        return lab.get("/lab/traffic") if lab else {}

    def requests(self) -> int:
        """Return how many calls were answered up to now; 0 where the server does not count."""
        return sum(self.traffic().get("calls", {}).values())


def parts(size: Size) -> dict[str, int]:
    """Return hosts with and without GPUs, VMs for training and others, by their names in the scenario."""
    gpu_hosts = max(1, size.hosts // 8)
    training = min(64, 2 * gpu_hosts)
    return {
        "vms": size.vms,
        "gpu_hosts": gpu_hosts,
        "plain_hosts": size.hosts - gpu_hosts,
        "training": training,
        "others": size.vms - training,
    }


@contextlib.contextmanager
def lab(size: Size, folder: Path, text: str = "", task: float = TASK) -> Iterator[Estate]:
    """Run a lab of a size, or with another scenario, in a folder of its own."""
    folder.mkdir(exist_ok=True)
    scenario = folder / "farm.yml"
    scenario.write_text(text or FARM.format(task=task, **parts(size)), "utf-8")
    running = process.start(folder, scenario, exit_with=os.getpid())
    try:
        settings = next(iter(load_inventory(folder / CONNECTION).vcenters.values()))
        password = (folder / "password").read_text("utf-8").strip()
        env = {"VSPHERE_AI_LAB_DIR": str(folder), "VSPHERE_AI_STATE_DIR": str(folder / "state")}
        inventory = folder / CONNECTION
        yield Estate("lab", size, folder, running.port, settings.username, password, inventory, env)
    finally:
        process.stop(folder)


@contextlib.contextmanager
def vcsim(size: Size, folder: Path) -> Iterator[Estate]:
    """Run VMware's own simulator with one cluster, its VMs powered off; raise Absent where it cannot be built."""
    program = go_program("vcsim", ROOT / "tests" / "vcsim")
    folder.mkdir(exist_ok=True)
    tls.make_certificate(folder)
    options = ["-cert", folder / "ca.pem", "-key", folder / "key.pem", "-password", "vcsim-pass", "-esxi", "7.0.3"]
    options += ["-hosts", 0, "-cluster-hosts", size.hosts, "-vms", size.vms, "-off"]
    env = {**os.environ, "TMPDIR": str(folder)}  # it leaves its datastores there
    command = [str(program), *map(str, options)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(command, **streams, env=env, preexec_fn=_end_with_parent) as server:
        try:
            port = int(server.stdout.readline().strip().rpartition(":")[2])
            inventory = folder / "inventory.yml"
            inventory.write_text(
                f'vcenters:\n  sim: {{address: 127.0.0.1, port: {port}, username: user, password: "env:VCSIM_PASSWORD",'
                f" tls: {{ca_file: {folder / 'ca.pem'}}}}}\n",
                "utf-8",
            )
            own = {"VCSIM_PASSWORD": "vcsim-pass", "VSPHERE_AI_STATE_DIR": str(folder / "state")}
            yield Estate("vcsim", size, folder, port, "user", "vcsim-pass", inventory, own)
        finally:
            server.terminate()


def _end_with_parent() -> None:
    """Let this process be ended when the one that has started it is killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def go_program(name: str, sources: Path) -> Path:
    """Return a program built from Debian's sources of govmomi, built once; raise Absent without them."""
    if shutil.which("go") is None or not GOVMOMI.is_dir():
        raise Absent(f"{name} is not built: {PACKAGES}")
    target = BUILD / name
    newest = max(file.stat().st_mtime for file in sources.glob("*.go"))
    if not target.exists() or target.stat().st_mtime < newest:
        BUILD.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f"{name}.{os.getpid()}")  # two that build at a time never run a half of a file
        env = {**os.environ, "GO111MODULE": "off", "GOPATH": str(GOPATH)}
        subprocess.run(["go", "build", "-o", str(part), "."], cwd=sources, env=env, check=True)
        part.replace(target)
    return target
