"""`nvidia-smi mig`: listing, creating and destroying GPU and compute instances, with the tool's own oddities."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from vsphere_ai.lab.hardware.boards import SimulatedProfile
from vsphere_ai.lab.hardware.gpu import NVML_TEXT, ComputeProfile, GpuInstance, LabGpu, Nvml, NvmlError
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.shell import smi_tables
from vsphere_ai.lab.shell.result import ShellResult
from vsphere_ai.lab.shell.smi_select import NO_DEVICES, pick

_LONG = {
    "--id": "-i",
    "--gpu-instance-id": "-gi",
    "--compute-instance-id": "-ci",
    "--list-gpu-instance-profiles": "-lgip",
    "--list-gpu-instance-possible-placements": "-lgipp",
    "--list-gpu-instances": "-lgi",
    "--create-gpu-instance": "-cgi",
    "--default-compute-instance": "-C",
    "--destroy-gpu-instance": "-dgi",
    "--list-compute-instance-profiles": "-lcip",
    "--list-compute-instance-possible-placements": "-lcipp",
    "--list-compute-instances": "-lci",
    "--create-compute-instance": "-cci",
    "--destroy-compute-instance": "-dci",
}
_VALUED = ("-i", "-gi", "-ci", "-cgi")
_ACTIONS = ("-cgi", "-cci", "-dci", "-dgi", "-lgip", "-lgipp", "-lgi", "-lcip", "-lcipp", "-lci", "-C")
"""In the order in which nvidia-smi prefers them when several are given."""


@dataclass
class _Call:
    host: LabHost
    options: dict[str, str | None]
    gpus: list[LabGpu]
    out: list[str] = field(default_factory=list)

    @property
    def instances(self) -> list[tuple[LabGpu, GpuInstance]]:
        wanted = _ids(self.options.get("-gi"))
        return [(g, i) for g in self.gpus for i in g.instances if wanted is None or i.id in wanted]

    def say(self, line: str) -> None:
        self.out.append(line + "\n")

    def result(self, status: int = 0) -> ShellResult:
        return ShellResult(status, "".join(self.out))

    def record(self, verb: str, gpu: LabGpu, **detail: object) -> None:
        self.host.ledger.record(self.host.name, f"nvidia-smi mig {verb}", {"gpu": gpu.pci, **detail}, channel="ssh")


def main(host: LabHost, argv: Sequence[str]) -> ShellResult:
    """Run ``nvidia-smi mig ARGV``; to be called with the host's lock held."""
    parsed = _parse(host, argv)
    if isinstance(parsed, ShellResult):
        return parsed
    action = next((a for a in _ACTIONS if a in parsed), None)
    gpus = pick(host, parsed.get("-i"))
    if not gpus:
        return NO_DEVICES
    if action is None:
        return ShellResult(1, "Invalid combination of input arguments. Please run 'nvidia-smi mig -h' for help.\n\n")
    modern = gpus[0].driver_major >= 550
    capable = [g for g in gpus if g.mig_capable]
    if not (action in ("-lgip", "-lgipp") and modern and capable):
        capable = [g for g in capable if g.mig_current]
    if not capable:
        return ShellResult(0 if modern else Nvml.NOT_FOUND, "No MIG-enabled devices found.\n")
    return _VERBS[action](_Call(host, parsed, capable))


def _parse(host: LabHost, argv: Sequence[str]) -> dict[str, str | None] | ShellResult:
    options: dict[str, str | None] = {}
    words = list(argv)
    old = host.driver.startswith("470.")
    while words:
        given = words.pop(0)
        option = _LONG.get(given, given)
        if option not in (*_ACTIONS, *_VALUED) or (option == "-lcipp" and old):
            return ShellResult(2, f'Option "{given}" is not recognized.\n')
        has_value = bool(words) and not words[0].startswith("-")
        if option in _VALUED and not has_value:
            return ShellResult(2, f'Option "{given}" is missing its value.\n')
        options[option] = words.pop(0) if has_value and option in (*_VALUED, "-cci") else None
    return options


def _ids(text: str | None) -> set[int] | None:
    return None if text is None else {int(part) for part in text.split(",") if part.strip().isdigit()}


def _failed(call: _Call, line: str, what: str, code: Nvml) -> ShellResult:
    call.say(f"{line}: {NVML_TEXT[code]}")
    call.say(f"Failed to {what}: {NVML_TEXT[code]}")
    return call.result(code)


def _none(call: _Call, what: str) -> ShellResult:
    call.say(f"No {what} found: Not Found")
    return call.result(Nvml.NOT_FOUND)


def _list_profiles(call: _Call) -> ShellResult:
    return ShellResult(0, smi_tables.profiles(call.gpus))


def _list_placements(call: _Call) -> ShellResult:
    return ShellResult(0, smi_tables.placements(call.gpus))


def _listing(table: Callable[[list[tuple[LabGpu, GpuInstance]]], str]) -> Callable[[_Call], ShellResult]:
    def verb(call: _Call) -> ShellResult:
        found = call.instances
        return ShellResult(0, table(found)) if found else _none(call, "GPU instances")

    return verb


def _list_computes(call: _Call) -> ShellResult:
    found = call.instances
    if not found:
        return _none(call, "GPU instances")
    if not any(i.computes for _, i in found):
        return _none(call, "compute instances")
    return ShellResult(0, smi_tables.computes(found))


def _default_computes(call: _Call) -> ShellResult:
    return ShellResult() if any(i.computes for _, i in call.instances) else _none(call, "compute instances")


def _create_instances(call: _Call) -> ShellResult:
    for gpu in call.gpus:
        made: list[str] = []
        try:
            for token in filter(None, (call.options["-cgi"] or "").split(",")):
                try:
                    made.append(_create_instance(call, gpu, token))
                except NvmlError as error:
                    line = f"Unable to create a GPU instance on GPU {gpu.index:2d} using profile {token}"
                    return _failed(call, line, "create GPU instances", error.code)
        finally:
            if made:
                call.record("-cgi", gpu, created=made, compute_instances="-C" in call.options)
                call.host.notify("mig")
    return call.result()


def _create_instance(call: _Call, gpu: LabGpu, token: str) -> str:
    profile, start = _profile_and_start(gpu, token)
    made = gpu.create(profile, start)
    call.say(
        f"Successfully created GPU instance ID {made.id:2d} on GPU {gpu.index:2d} "
        f"using profile MIG {gpu.profile_name(profile)} (ID {profile.id:2d})"
    )
    if "-C" in call.options:
        whole = next(c for c in made.compute_profiles(gpu.board) if c.default)
        _create_compute(call, gpu, made, whole)
    return f"{profile.name}@{made.start}"


def _profile_and_start(gpu: LabGpu, token: str) -> tuple[SimulatedProfile, int | None]:
    """Read ``id|name[:start]`` as leniently as nvidia-smi: a start it cannot read means no start."""
    text, _, start = token.lstrip().partition(":")
    number = re.fullmatch(r"\+?0*(\d+)", text)
    profile = gpu.profile(number[1] if number else text)
    if profile is None:
        raise NvmlError(Nvml.INVALID_ARGUMENT)
    return profile, _start(start)


def _start(text: str) -> int | None:
    leading = re.match(r"\s*\+?(\d+)", text)
    return int(leading[1]) if leading else None


def _create_compute(
    call: _Call, gpu: LabGpu, instance: GpuInstance, profile: ComputeProfile, *, start: int | None = None
) -> None:
    made = instance.create_compute(profile, start)
    call.say(
        f"Successfully created compute instance ID {made.id:2d} on GPU {gpu.index:2d} GPU instance ID {instance.id:2d} "
        f"using profile MIG {smi_tables.compute_name(gpu, instance, profile)} (ID {profile.id:2d})"
    )


def _create_computes(call: _Call) -> ShellResult:
    found = call.instances
    if not found:
        return _none(call, "GPU instances")
    for gpu, instance in found:
        offered = instance.compute_profiles(gpu.board)
        default = next(c for c in offered if c.default)
        for token in filter(None, (call.options["-cci"] or str(default.id)).split(",")):
            text, _, start = token.strip().partition(":")
            names = {smi_tables.compute_name(gpu, instance, c): c for c in offered} | {str(c.id): c for c in offered}
            profile = names.get(text.removeprefix("MIG "))
            try:
                if profile is None:
                    raise NvmlError(Nvml.INVALID_ARGUMENT)
                _create_compute(call, gpu, instance, profile, start=_start(start))
            except NvmlError as error:
                line = (
                    f"Unable to create a compute instance on GPU {gpu.index:2d} "
                    f"GPU instance ID {instance.id:2d} using profile {token}"
                )
                return _failed(call, line, "create compute instances", error.code)
            call.record("-cci", gpu, instance=instance.id, created=[smi_tables.compute_name(gpu, instance, profile)])
            call.host.notify("mig")
    return call.result()


def _destroy_computes(call: _Call) -> ShellResult:
    found = call.instances
    if not found:
        return _none(call, "GPU instances")
    wanted = _ids(call.options.get("-ci"))
    doomed = [(g, i, c) for g, i in found for c in i.computes if wanted is None or c.id in wanted]
    if not doomed:
        return _none(call, "compute instances")
    for gpu, instance, compute in doomed:
        instance.computes.remove(compute)
        call.say(
            f"Successfully destroyed compute instance ID {compute.id:2d} from GPU {gpu.index:2d} "
            f"GPU instance ID {instance.id:2d}"
        )
        call.record("-dci", gpu, instance=instance.id, destroyed=[compute.id])
    call.host.notify("mig")
    return call.result()


def _destroy_instances(call: _Call) -> ShellResult:
    found = call.instances
    if not found:
        return _none(call, "GPU instances")
    for gpu, instance in found:
        try:
            gpu.destroy(instance)
        except NvmlError as error:
            line = f"Unable to destroy GPU instance ID {instance.id:2d} from GPU {gpu.index:2d}"
            return _failed(call, line, "destroy GPU instances", error.code)
        call.say(f"Successfully destroyed GPU instance ID {instance.id:2d} from GPU {gpu.index:2d}")
        call.record("-dgi", gpu, destroyed=[f"{instance.profile.name}@{instance.start}"])
        call.host.notify("mig")
    return call.result()


_VERBS: dict[str, Callable[[_Call], ShellResult]] = {
    "-lgip": _list_profiles,
    "-lgipp": _list_placements,
    "-lgi": _listing(smi_tables.instances),
    "-lci": _list_computes,
    "-lcip": _listing(smi_tables.compute_profiles),
    "-lcipp": _listing(smi_tables.compute_placements),
    "-C": _default_computes,
    "-cgi": _create_instances,
    "-cci": _create_computes,
    "-dci": _destroy_computes,
    "-dgi": _destroy_instances,
}
