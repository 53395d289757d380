"""`nvidia-smi` in a guest, in the formats of captures of an H100 (driver 580) and of an A100.

A vGPU shows ``[N/A]`` for what only its host knows: https://github.com/NVIDIA/dcgm-exporter/issues/193.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from vsphere_ai.lab.guest import load
from vsphere_ai.lab.guest.machine import GuestGpu, GuestMachine
from vsphere_ai.lab.shell import smi_paths
from vsphere_ai.lab.shell.result import ShellResult

NA = "[N/A]"
CUDA = {"470": "11.4", "510": "11.6", "525": "12.0", "535": "12.2", "550": "12.4", "560": "12.6", "570": "12.8"}
BUSY_PID = 4559
THROTTLES = {"power": 0x4, "hardware": 0x8, "thermal": 0x40, "power-brake": 0x80, "software-thermal": 0x20}
"""Bits of the throttle reasons, as NVML defines them (nvml.h, nvmlClocksThrottleReason*)."""

Field = Callable[[GuestMachine, GuestGpu], object]
SHARED: Mapping[str, Field] = {
    "index": lambda m, g: g.index,
    "uuid": lambda m, g: g.uuid,
    "gpu_uuid": lambda m, g: g.uuid,
    "name": lambda m, g: g.name,
    "gpu_name": lambda m, g: g.name,
    "count": lambda m, g: len(m.gpus),
    "driver_version": lambda m, g: m.driver,
    "pci.bus_id": lambda m, g: f"0000{g.bus}".upper(),
    "gpu_bus_id": lambda m, g: f"0000{g.bus}".upper(),
    "memory.total": lambda m, g: g.memory_mib,
    "memory.used": lambda m, g: g.memory_mib // 2 if m.defects.first("gpu-busy", vm=m.name) else 6,
    "utilization.gpu": lambda m, g: 100 if m.defects.first("gpu-busy", vm=m.name) or m.pids else 0,
    "persistence_mode": lambda m, g: "Enabled",
    "mig.mode.current": lambda m, g: NA,
}
WHOLE: Mapping[str, Field] = {
    "temperature.gpu": lambda m, g: load.shown(m.defects, m.at(g), loaded=bool(m.pids))[0],
    "power.draw": lambda m, g: load.shown(m.defects, m.at(g), loaded=bool(m.pids))[1],
    "power.limit": lambda m, g: "400.00",
    "clocks.sm": lambda m, g: round(1410 * (load.speed if m.pids else load.slow)(m.defects, m.at(g))),
    "clocks.max.sm": lambda m, g: 1410,
    "clocks_throttle_reasons.active": lambda m, g: f"0x{throttle(m, g):016X}",
    "clocks_event_reasons.active": lambda m, g: f"0x{throttle(m, g):016X}",
    "ecc.mode.current": lambda m, g: "Enabled",
    "ecc.errors.uncorrected.volatile.total": lambda m, g: ecc(m, g),
    "ecc.errors.corrected.volatile.total": lambda m, g: 0,
    "ecc.errors.uncorrected.aggregate.total": lambda m, g: ecc(m, g),
    "remapped_rows.pending": lambda m, g: "Yes" if m.defects.first("remap-pending", **m.at(g)) else "No",
    "remapped_rows.failure": lambda m, g: "No",
    "pcie.link.gen.current": lambda m, g: 4,
    "pcie.link.gen.max": lambda m, g: 4,
    "pcie.link.width.current": lambda m, g: round(16 * m.defects.factor("gpu-pcie", **m.at(g))),
    "pcie.link.width.max": lambda m, g: 16,
}


def throttle(machine: GuestMachine, gpu: GuestGpu) -> int:
    """Return the throttle reasons of the physical GPU; bit 0 is that it is idle."""
    found = (d.text("reason", "thermal") for d in machine.defects.of("gpu-throttled", **machine.at(gpu)))
    return sum(THROTTLES.get(reason, 0x40) for reason in found) or 1


def ecc(machine: GuestMachine, gpu: GuestGpu) -> int:
    """Return how many uncorrected ECC errors the physical GPU has had."""
    return round(sum(d.number("count", 3) for d in machine.defects.of("ecc", **machine.at(gpu))))


def main(machine: GuestMachine, argv: Sequence[str]) -> ShellResult:
    """Answer one call."""
    if not machine.driver or not machine.gpus:
        if not machine.driver:
            text = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
            return ShellResult(9, text + "Make sure that the latest NVIDIA driver is installed and running.\n\n")
        return ShellResult(6, "No devices were found\n")
    options = dict(part.partition("=")[::2] for part in argv)
    if "-L" in options or "--list-gpus" in options:
        lines = (f"GPU {g.index}: {g.name} (UUID: {g.uuid})" for g in machine.gpus)
        return ShellResult(0, "".join(f"{line}\n" for line in lines))
    if argv[:2] == ["topo", "-m"]:
        return ShellResult(0, topology(machine))
    if argv[:2] == ["-q", "-x"]:
        return ShellResult(0, xml(machine))
    for name in ("--query-gpu", "--query-compute-apps"):
        if name in options:
            flags = options.get("--format", "").split(",")
            return _csv(machine, name, options[name].split(","), flags)
    return (
        ShellResult(0, table(machine))
        if not argv
        else ShellResult(2, f"Invalid combination of input arguments: {argv[0]}\n")
    )


def xml(machine: GuestMachine) -> str:
    """Return the part of `nvidia-smi -q -x` about PCIe; of a vGPU it shows N/A."""
    parts = []
    for gpu in machine.gpus:
        rate = sum(d.number("rate", 5.0) for d in machine.defects.of("gpu-replays", **machine.at(gpu)))
        count = "N/A" if gpu.is_vgpu else f"{round(rate * machine.uptime)}"
        bus = f"0000{gpu.bus}".upper()
        parts.append(
            f'\t<gpu id="{bus}">\n\t\t<pci>\n\t\t\t<replay_counter>{count}</replay_counter>\n\t\t</pci>\n\t</gpu>'
        )
    return "<nvidia_smi_log>\n" + "\n".join(parts) + "\n</nvidia_smi_log>\n"


def _csv(machine: GuestMachine, what: str, fields: Sequence[str], flags: Sequence[str]) -> ShellResult:
    if "csv" not in flags:
        return ShellResult(2, '"--format=" switch is missing.\n\n')
    rows = _processes(machine, fields) if what == "--query-compute-apps" else []
    if what == "--query-gpu":
        for field in fields:
            if field not in SHARED and field not in WHOLE:
                return ShellResult(2, f'Field "{field}" is not a valid field to query.\n\n')
        rows = [[_value(machine, gpu, field) for field in fields] for gpu in machine.gpus]
    header = [] if "noheader" in flags else [list(fields)]
    return ShellResult(0, "".join(f"{', '.join(row)}\n" for row in (*header, *rows)))


def _value(machine: GuestMachine, gpu: GuestGpu, field: str) -> str:
    if field in SHARED:
        return str(SHARED[field](machine, gpu))
    return NA if gpu.is_vgpu else str(WHOLE[field](machine, gpu))


def _processes(machine: GuestMachine, fields: Sequence[str]) -> list[list[str]]:
    busy = machine.defects.first("gpu-busy", vm=machine.name)
    found = [(BUSY_PID, gpu) for gpu in machine.gpus if busy] + list(zip(machine.pids, machine.gpus, strict=False))
    name = {"process_name": "python3"}
    own = [{**name, "pid": str(n), "gpu_uuid": g.uuid, "used_memory": str(g.memory_mib // 2)} for n, g in found]
    return [[values.get(field, NA) for field in fields] for values in own]


def topology(machine: GuestMachine) -> str:
    """Return the matrix of `nvidia-smi topo -m`: devices of one NUMA node of the guest share its host bridge."""
    gpus, nics = machine.gpus, [(nic.rdma, nic.numa) for nic in machine.nics if nic.rdma]
    nics += machine.whole_nics_near
    nodes = [*(gpu.numa for gpu in gpus), *(node for _, node in nics)]
    last = machine.mo["config"].hardware.numCPU - 1

    def near(row: int) -> tuple[str, str] | None:
        return (f"0-{last}", str(nodes[row] or 0)) if row < len(gpus) else None

    return smi_paths.matrix(
        [*(f"GPU{gpu.index}" for gpu in gpus), *(f"NIC{n}" for n in range(len(nics)))],
        lambda one, other: "PHB" if nodes[one] == nodes[other] else "SYS",
        near,
        machine.driver,
        [(f"NIC{n}", device) for n, (device, _) in enumerate(nics)],
    )


def table(machine: GuestMachine) -> str:
    """Return what a call without arguments prints, as in the captures; without the list of processes."""
    driver = machine.driver
    cuda = CUDA.get(driver.partition(".")[0], "13.0")
    head = f"| NVIDIA-SMI {driver:<22} Driver Version: {driver:<14} CUDA Version: {cuda:<8} |"
    rule = f"+{'-' * 41}+{'-' * 24}+{'-' * 22}+"
    lines = [f"+{'-' * 89}+", head, rule]
    titles = ("GPU  Name                 Persistence-M", "Bus-Id          Disp.A", "Volatile Uncorr. ECC")
    lines.append("| {:<39} | {:<22} | {:<20} |".format(*titles))
    lines.append("|" + "=" * 41 + "+" + "=" * 24 + "+" + "=" * 22 + "|")
    for gpu in machine.gpus:
        used = f"{_value(machine, gpu, 'memory.used')}MiB / {gpu.memory_mib}MiB"
        bus = f"{_value(machine, gpu, 'pci.bus_id')} Off"
        errors = "N/A" if gpu.is_vgpu else str(ecc(machine, gpu))
        lines.append(f"| {gpu.index:>3}  {gpu.name:<28}  On  | {bus:>22} | {errors:>20} |")
        lines.append(f"| {'N/A  P0':<39} | {used:>22} | {'Default':>20} |")
        lines.append(rule)
    return "\n".join(lines) + "\n"
