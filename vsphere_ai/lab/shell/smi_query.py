"""`nvidia-smi --query-gpu` (CSV) and the parts of `nvidia-smi -q` about MIG and vGPU mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from vsphere_ai.lab.hardware.gpu import LabGpu
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.shell.result import ShellResult

_NA = "[N/A]"
_PRE_SRIOV = ("turing", "volta", "pascal", "maxwell")


def memory_used(gpu: LabGpu) -> int:
    """Return the used framebuffer in MiB: what vGPUs hold, and a little for the driver."""
    return sum(v.framebuffer_gb for v in gpu.vgpus) * 1024 + 6


def mig_mode(gpu: LabGpu, enabled: bool) -> str:
    """Return a MIG mode as CSV shows it."""
    return ("Enabled" if enabled else "Disabled") if gpu.mig_capable else _NA


_PLAIN: Mapping[str, Callable[[LabGpu], object]] = {
    "timestamp": lambda g: datetime.now(UTC).strftime("%Y/%m/%d %H:%M:%S.%f")[:-3],
    "driver_version": lambda g: g.driver,
    "index": lambda g: g.index,
    "name": lambda g: g.name,
    "gpu_name": lambda g: g.name,
    "uuid": lambda g: g.uuid,
    "gpu_uuid": lambda g: g.uuid,
    "pci.bus_id": lambda g: g.smi_bus_id,
    "gpu_bus_id": lambda g: g.smi_bus_id,
    "pci.domain": lambda g: f"0x{g.pci[0:4]}".upper().replace("X", "x"),
    "pci.bus": lambda g: f"0x{g.pci[5:7]}".upper().replace("X", "x"),
    "pci.device": lambda g: f"0x{g.pci[8:10]}".upper().replace("X", "x"),
    "pci.device_id": lambda g: f"0x{g.device_id:04X}10DE",
    "pstate": lambda g: "P0",
    "persistence_mode": lambda g: "Enabled",
    "compute_mode": lambda g: "Default",
    "mig.mode.current": lambda g: mig_mode(g, g.mig_current),
    "mig.mode.pending": lambda g: mig_mode(g, g.mig_pending),
    "ecc.mode.current": lambda g: "Enabled",
    "ecc.mode.pending": lambda g: "Enabled",
    "temperature.gpu": lambda g: 68 if g.loads.is_loaded() else 34,
    "clocks.sm": lambda g: 1410,
    "clocks.max.sm": lambda g: 1410,
    "clocks_throttle_reasons.active": lambda g: "0x0000000000000001",
    "ecc.errors.uncorrected.volatile.total": lambda g: 0,
    "ecc.errors.corrected.volatile.total": lambda g: 0,
    "remapped_rows.pending": lambda g: "No",
    "remapped_rows.failure": lambda g: "No",
    "pcie.link.gen.current": lambda g: 4,
    "pcie.link.gen.max": lambda g: 4,
    "pcie.link.width.current": lambda g: 16,
    "pcie.link.width.max": lambda g: 16,
}
_WITH_UNIT: Mapping[str, tuple[str, Callable[[LabGpu], object]]] = {
    "memory.total": ("MiB", lambda g: g.memory_mib),
    "memory.used": ("MiB", memory_used),
    "memory.free": ("MiB", lambda g: g.memory_mib - memory_used(g)),
    "utilization.gpu": ("%", lambda g: _NA if g.mig_current else 100 if g.loads.is_loaded() else 0),
    "utilization.memory": ("%", lambda g: _NA if g.mig_current else 0),
    "power.draw": ("W", lambda g: "389.40" if g.loads.is_loaded() else "36.25"),
    "power.limit": ("W", lambda g: "250.00"),
}


def csv(gpus: list[LabGpu], fields: str, layout: str) -> ShellResult:
    """Answer ``--query-gpu=FIELDS --format=LAYOUT``; LAYOUT must say csv, and may add noheader and nounits."""
    wanted = [field.strip() for field in fields.split(",")]
    for field in wanted:
        if field not in _PLAIN and field not in _WITH_UNIT and field != "count":
            return ShellResult(2, f'Field "{field}" is not a valid field to query.\n\n')
    flags = {flag.strip() for flag in layout.split(",")}
    if "csv" not in flags or flags - {"csv", "noheader", "nounits"}:
        return ShellResult(
            2, "--format= switch is missing or not valid. Only csv, noheader and nounits are supported.\n\n"
        )
    lines = [] if "noheader" in flags else [", ".join(_title(field) for field in wanted)]
    for gpu in gpus:
        lines.append(", ".join(_value(gpu, field, len(gpus), "nounits" not in flags) for field in wanted))
    return ShellResult(0, "".join(f"{line}\n" for line in lines))


def _title(field: str) -> str:
    return f"{field} [{_WITH_UNIT[field][0]}]" if field in _WITH_UNIT else field


def _value(gpu: LabGpu, field: str, count: int, units: bool) -> str:
    if field == "count":
        return str(count)
    if field in _PLAIN:
        return gpu.readings.get(field) or str(_PLAIN[field](gpu))
    unit, read = _WITH_UNIT[field]
    value = str(read(gpu))
    return value if value == _NA or not units else f"{value} {unit}"


def log(host: LabHost, gpus: list[LabGpu]) -> str:
    """Answer ``-q``: identity, MIG mode, virtualisation mode and memory of each GPU."""
    now = datetime.now(UTC).strftime("%a %b %e %H:%M:%S %Y")
    lines = ["", "==============NVSMI LOG==============", ""]
    lines += [_line("Timestamp", now), _line("Driver Version", host.driver), _line("CUDA Version", "Not Found")]
    lines += ["", _line("Attached GPUs", len(gpus))]
    for gpu in gpus:
        lines += _gpu_log(gpu)
    return "\n".join(lines) + "\n\n"


def _gpu_log(gpu: LabGpu) -> list[str]:
    shared_direct = gpu.active == "sharedDirect"
    vgpu_mode = "Non SR-IOV" if gpu.board.architecture in _PRE_SRIOV else "SR-IOV"
    mode = {flag: mig_mode(gpu, flag).strip("[]") for flag in (True, False)}
    used = memory_used(gpu)
    return [
        f"GPU {gpu.smi_bus_id}",
        _line("Product Name", gpu.name, 1),
        _line("Product Architecture", gpu.board.architecture.capitalize(), 1),
        _line("Persistence Mode", "Enabled", 1),
        "    MIG Mode",
        _line("Current", mode[gpu.mig_current], 2),
        _line("Pending", mode[gpu.mig_pending], 2),
        _line("MIG Device", "None", 1),
        _line("GPU UUID", gpu.uuid, 1),
        "    GPU Virtualization Mode",
        _line("Virtualization Mode", "Host VGPU" if shared_direct else "VSGA", 2),
        _line("Host VGPU Mode", vgpu_mode if shared_direct else "N/A", 2),
        "    PCI",
        _line("Bus", f"0x{gpu.pci[5:7].upper()}", 2),
        _line("Device Id", f"0x{gpu.device_id:04X}10DE", 2),
        _line("Bus Id", gpu.smi_bus_id, 2),
        "    FB Memory Usage",
        _line("Total", f"{gpu.memory_mib} MiB", 2),
        _line("Used", f"{used} MiB", 2),
        _line("Free", f"{gpu.memory_mib - used} MiB", 2),
        _line("Compute Mode", "Default", 1),
        "    Ecc Mode",
        _line("Current", "Enabled", 2),
        _line("Pending", "Enabled", 2),
    ]


def _line(label: str, value: object, depth: int = 0) -> str:
    return f"{'    ' * depth + label:<42}: {value}"
