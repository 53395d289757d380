"""`nvidia-smi` of NVIDIA's ESXi host driver: which form was asked for, and the MIG mode switch."""

from __future__ import annotations

from collections.abc import Sequence

from vsphere_ai.lab.hardware.gpu import Activation, LabGpu, Nvml, NvmlError
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.shell import smi_mig, smi_overview, smi_paths, smi_query, smi_vgpu
from vsphere_ai.lab.shell.result import ShellResult
from vsphere_ai.lab.shell.smi_select import NO_DEVICES, pick

_NO_DRIVER = ShellResult(
    9,
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n\n",
)
_BAD_ARGUMENTS = ShellResult(1, "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n")
_BUSY = (
    "{0} is currently being used by one or more other processes (e.g. CUDA application or a monitoring application "
    "such as another instance of nvidia-smi). Please first kill all processes using the device and retry the command "
    "or reboot the system to make MIG mode effective.\n"
)
_NEEDS_RESET = "Reboot the system or try nvidia-smi --gpu-reset to make MIG mode effective on GPU {0}\n"


def main(host: LabHost, argv: Sequence[str]) -> ShellResult:
    """Run ``nvidia-smi ARGV`` on a host."""
    with host.changing():
        if not host.driver:
            return _NO_DRIVER
        if argv[:1] == ["mig"]:
            return smi_mig.main(host, argv[1:])
        if argv[:1] == ["vgpu"]:
            return smi_vgpu.main(host, argv[1:])
        if argv[:1] == ["topo"]:
            gpus = pick(host, None)
            return ShellResult(0, smi_paths.of_host(gpus)) if argv[1:] in (["-m"], ["--matrix"]) else _BAD_ARGUMENTS
        return _top_level(host, list(argv))


def _top_level(host: LabHost, argv: list[str]) -> ShellResult:
    """Carry out the form without a subcommand; options may come in any order."""
    options: dict[str, str] = {}
    while argv:
        word = argv.pop(0)
        name, has_value, value = word.partition("=")
        name = {"--id": "-i", "--multi-instance-gpu": "-mig", "--gpu-reset": "-r", "--list-gpus": "-L"}.get(name, name)
        if name in ("-i", "-mig") and not has_value:
            if not argv:
                return ShellResult(2, f'Option "{word}" is missing its value.\n')
            value = argv.pop(0)
        if name not in ("-i", "-mig", "-r", "-L", "-q", "--query", "--query-gpu", "--format"):
            return _BAD_ARGUMENTS
        options[name] = value
    if "-L" in options and "-i" in options:
        text = "ERROR: Option -i is not valid for this command. Please run 'nvidia-smi -h' for help.\n\n"
        return ShellResult(2, text)
    gpus = pick(host, options.get("-i"))
    if not gpus:
        return NO_DEVICES
    return _form(host, gpus, options)


def _form(host: LabHost, gpus: list[LabGpu], options: dict[str, str]) -> ShellResult:
    if "-mig" in options:
        return _set_mig(host, gpus, options["-mig"])
    if "--query-gpu" in options:
        return smi_query.csv(gpus, options["--query-gpu"], options.get("--format", ""))
    if "-L" in options:
        return ShellResult(0, smi_overview.listing(gpus))
    if "-q" in options or "--query" in options:
        return ShellResult(0, smi_query.log(host, gpus))
    if "-r" in options:
        return ShellResult(Nvml.NOT_SUPPORTED, f"Resetting GPU {gpus[0].smi_bus_id} is not supported.\n")
    return ShellResult(0, smi_overview.table(host, gpus))


def _set_mig(host: LabHost, gpus: list[LabGpu], value: str) -> ShellResult:
    """Switch MIG mode; a change that only becomes pending prints a warning and still exits 0."""
    enabled = _mode(value, lenient=gpus[0].driver_major < 510)
    if enabled is None:
        return ShellResult(2, f"Invalid MIG Mode: {value}\nTerminating early due to previous errors.\n")
    verb = "enable" if enabled else "disable"
    out, status = "", 0
    for gpu in gpus:
        bus, before = gpu.smi_bus_id, (gpu.mig_current, gpu.mig_pending)
        try:
            outcome = gpu.set_mig(enabled)
        except NvmlError as error:
            out += f"Unable to {verb} MIG Mode for GPU {bus}: {error}\n"
            if error.code is not Nvml.NOT_SUPPORTED:
                return ShellResult(error.code, out + "Terminating early due to previous errors.\n")
            out += "Treating as warning and moving on.\n"
            status = Nvml.NOT_SUPPORTED
            continue
        if before != (gpu.mig_current, gpu.mig_pending):
            detail = {"gpu": gpu.pci, "enabled": enabled, "pending": gpu.mig_current != enabled}
            host.ledger.record(host.name, "nvidia-smi -mig", detail, channel="ssh")
            host.notify("mig")
        if outcome is Activation.DONE:
            out += f"{verb.capitalize()}d MIG Mode for GPU {bus}\n"
        else:
            busy = outcome is Activation.IN_USE
            reason = "In use by another client" if busy else "Not Supported"
            out += f"Warning: MIG mode is in pending {verb} state for GPU {bus}:{reason}\n"
            out += (_BUSY if busy else _NEEDS_RESET).format(bus)
    return ShellResult(status, out + "All done.\n")


def _mode(value: str, *, lenient: bool) -> bool | None:
    known = {"0": False, "1": True, "DISABLED": False, "ENABLED": True}.get(value.upper())
    return True if known is None and lenient and value.isdigit() else known
