"""Requests and bytes that commands take, counted by the lab: hosts with GPUs, and hosts without.

No clock is looked at. Bytes are those of answers, before compression. Changes come before what verifies them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from common import Case, Row, Size, tool
from estates import Estate, lab
from run import alone

MOST_HOSTS = 200
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


def counted(estate: Estate, argv: tuple[str, ...]) -> dict[str, float]:
    """Carry out a command; return its requests, and the bytes of the answers."""
    before = estate.traffic()
    tool(*argv, "-i", estate.inventory, env=estate.env, ok=(0, 1, 2))
    after = estate.traffic()
    calls, size = (sum(after[what].values()) - sum(before[what].values()) for what in ("calls", "bytes"))
    return {"requests": calls, "mb": size / 1e6}


def commands(folder: Path, gpu: int) -> Mapping[str, tuple[str, ...]]:
    """Return the commands, by what they are called."""

    def file(name: str, text: str) -> str:
        (folder / name).write_text(text, "utf-8")
        return str(folder / name)

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


def measure(size: Size, times: int) -> list[Row]:
    """Count once, however often others are measured: of hosts with GPUs, and of as many without."""
    del times
    hosts = min(MOST_HOSTS, size.hosts)
    rows = []
    for gpu, plain in ((hosts, 0), (0, hosts)):
        with tempfile.TemporaryDirectory(prefix="vsphere-ai-bench-") as name:
            folder = Path(name)
            with lab(size, folder / "lab", scenario(gpu, plain)) as estate:
                works = commands(folder, gpu)
                title = f"{hosts} hosts {'with' if gpu else 'without'} GPUs, a VM on each"
                case = Case("requests", title, size, "requests", dict.fromkeys(works, "ours"))
                rows += [case.row(label, [counted(estate, argv)]) for label, argv in works.items()]
    return rows


if __name__ == "__main__":
    alone(__doc__, measure)
