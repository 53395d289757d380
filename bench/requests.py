"""Requests and bytes that commands take, counted by the lab: farms of some sizes, hosts with and without GPUs.

Run it with ``python bench/requests.py``. It looks at no clock. Bytes are those of answers, before compression.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vsphere_ai.lab import process

ROOT = Path(__file__).parents[1]
LAB = ROOT / "inventories" / "lab.yml"
FARM = """\
name: requests
timing: {{boot_seconds: 0.2, task_seconds: 0.2, shutdown_seconds: 0.05, vmotion_seconds: 0.02}}
clusters: [{{name: gpu-a}}, {{name: others}}]
switches:
  - {{name: dvs-lan, port_groups: [{{name: dvpg-lan}}]}}
  - {{name: dvs-rdma, mtu: 9000, uplinks: 1, port_groups: [{{name: dvpg-rdma, vlan: 100}}]}}
hosts:
{gpu_hosts}{plain_hosts}vms:
{vms}"""
GPU_HOSTS = """\
  - name: gpu[001:{gpu:03}].lab.local
    cluster: gpu-a
    nvidia_driver: 535.261.03
    graphics_default: sharedDirect
    gpus: [{{pci: "0000:3b:00.0", board: a100-80gb, graphics_type: sharedDirect}}]
    nics:
      - {{name: vmnic0, pci: "0000:18:00.0", switch: dvs-lan}}
      - {{name: vmnic4, pci: "0000:5e:00.0", model: ConnectX-6, switch: dvs-rdma, rdma: vmrdma0}}
    vmkernel: [{{name: vmk0, port_group: dvpg-lan}}]
    ssh: {{running: true, policy: on}}
"""
PLAIN_HOSTS = """\
  - name: esx[001:{plain:03}].lab.local
    cluster: others
    nics: [{{name: vmnic0, pci: "0000:18:00.0", switch: dvs-lan}}]
"""
TRAINING = '  - {{name: "train-[001:{gpu:03}]", host: "gpu[001:{gpu:03}].lab.local", network: dvpg-lan}}\n'
OTHERS = '  - {{name: "vm-[0001:{plain:04}]", host: "esx[001:{plain:03}].lab.local", power: on, network: dvpg-lan}}\n'
VGPU = "- vms: train-001\n  vgpu: [grid_a100dx-20c]\n"
KEYS = "- vms: train-[001:{n:03}]\n  tuning: {{extra_config: {{a.key: '1'}}}}\n"


def scenario(gpu: int, plain: int) -> str:
    """Return a farm with so many hosts with GPUs, and without, and a VM on each."""
    return FARM.format(
        gpu_hosts=GPU_HOSTS.format(gpu=gpu) if gpu else "",
        plain_hosts=PLAIN_HOSTS.format(plain=plain) if plain else "",
        vms=(TRAINING.format(gpu=gpu) if gpu else "") + (OTHERS.format(plain=plain) if plain else ""),
    )


def counted(lab: Any, *argv: str) -> tuple[Counter[str], int]:
    """Carry out a command; return its requests by method, and the bytes of the answers."""
    before = lab.get("/lab/traffic")
    own = {"VSPHERE_AI_LAB_DIR": str(lab.directory), "VSPHERE_AI_STATE_DIR": str(lab.directory / "state")}
    argv = (sys.executable, "-m", "vsphere_ai", *argv, "-i", str(LAB))
    done = subprocess.run(argv, env={**os.environ, **own}, capture_output=True, text=True)
    if done.returncode not in (0, 1, 2):
        raise SystemExit(f"{argv} ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    after = lab.get("/lab/traffic")
    calls, size = (Counter(after[what]) - Counter(before[what]) for what in ("calls", "bytes"))
    return calls, size.total()


def commands(directory: Path, gpu: int) -> Mapping[str, tuple[str, ...]]:
    """Return the commands, by what they are called."""

    def file(name: str, text: str) -> str:
        (directory / name).write_text(text, "utf-8")
        return str(directory / name)

    found: dict[str, tuple[str, ...]] = {name: (name,) for name in ("show", "capacity", "check", "doctor")}
    found["show --kind hardware"] = ("show", "--kind", "hardware")
    if gpu:
        one = file("one.yml", VGPU)
        found["plan: a vGPU for one VM"] = ("plan", one)
        found["apply: a vGPU for one VM"] = ("apply", one, "--yes")
        found["verify: a vGPU for one VM"] = ("verify", one)
        for number in (n for n in (1, 10, 100) if n <= gpu):
            keys = file(f"keys{number}.yml", KEYS.format(n=number))
            found[f"plan: a key of {number} VMs"] = ("plan", keys)
            found[f"apply: a key of {number} VMs"] = ("apply", keys, "--yes")
            found[f"verify: a key of {number} VMs"] = ("verify", keys)
    found["rdma trace"] = ("rdma", "trace", "train-001" if gpu else "vm-0001")
    return found


def main() -> int:
    """Count, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--farm", default=["200,0", "0,200"], nargs="*", help="hosts with GPUs, and without")
    parser.add_argument("-v", action="store_true", help="print the methods of each command")
    given = parser.parse_args()
    for farm in given.farm:
        gpu, plain = map(int, farm.split(","))
        with tempfile.TemporaryDirectory(prefix="vsphere-ai-bench-") as name:
            directory = Path(name)
            (directory / "farm.yml").write_text(scenario(gpu, plain), "utf-8")
            lab = process.start(directory, directory / "farm.yml", exit_with=os.getpid(), timeout=600)
            try:
                print(f"{gpu} hosts with GPUs, {plain} without")
                for label, argv in commands(directory, gpu).items():
                    calls, size = counted(lab, *argv)
                    print(f"  {label:34} {calls.total():6} {size / 1e6:9.2f} MB", flush=True)
                    if given.v:
                        print("     ", ", ".join(f"{m} {n}" for m, n in calls.most_common()))
            finally:
                process.stop(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
