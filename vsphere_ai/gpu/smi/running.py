"""vGPUs of running VMs as `nvidia-smi vgpu -q` lists them: VM, place on the GPU, licence state, guest driver.

The format is that of NVIDIA's Virtual GPU Software User Guide and of public captures; keys are aligned with blanks, and
newer drivers add keys. That a MIG-backed vGPU shows its GPU instance on ESXi was not seen there, only on KVM.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vsphere_ai.gpu.smi.listings import LOST_GPU, UnreadableOutput, has_value, unreadable
from vsphere_ai.model.names.pci_address import normal_pci

NOT_AVAILABLE = ("N/A", "[N/A]", "Not Available", "")
NO_VGPU_DRIVER = re.compile(r"No supported devices in vGPU mode\.?|No devices were found\.?")

_GPU = re.compile(r"GPU (?P<bus>[0-9A-Fa-f:.]+)")
_STATUS = re.compile(
    r"(?P<state>Licensed|Unlicensed|Unknown|N/A)(?: \((?!Expiry)[^()]*\))?(?: \(Expiry: (?P<date>[^()]+)\))?"
)
_PERCENT = re.compile(r"(\d{1,3}) ?%")


@dataclass(frozen=True)
class RunningVgpu:
    """A vGPU of a running VM; None where nvidia-smi prints N/A, nothing, or what no known driver prints.

    `pci` as vSphere writes it, `type_name` as nvidia-smi prints it (``GRID A100-3-20C``); `gi` is the GPU instance of a
    MIG-backed vGPU; `guest_driver` is None until the guest has loaded a driver; `licence` is nvidia-smi's text, such as
    ``Licensed (Expiry: 2022-11-23 5:2:12 GMT)``. `vm_id` is the number of the VM's world on ESXi, its UUID on KVM.
    """

    pci: str
    id: int
    vm_id: str
    vm_name: str
    type_name: str
    gi: int | None
    guest_driver: str | None
    licence: str | None
    uuid: str = ""
    """The UUID of the vGPU, which the guest's nvidia-smi shows with ``GPU-`` before it; unverified on a real host."""
    placement: int | None = None
    """Where it begins in the frame buffer, in GB (`Placement ID`, R550 and later).

    Newer drivers may show it in same-size mode, too. Seen in captures of KVM; unverified on ESXi.
    """
    load: int | None = None
    """How busy it is, in percent (`Utilization`, `Gpu`; `GPU` from R580 on)."""

    @property
    def profile(self) -> str:
        """The name of its type as vSphere writes it, e.g. ``grid_a100-3-20c``."""
        return self.type_name.lower().replace(" ", "_")

    @property
    def licensed(self) -> bool | None:
        """Whether the guest has a licence; None when that is not shown, or in words that no known driver prints.

        The words are those of NVIDIA/DCGM's vGPU licence states; another text means that a newer driver has more.
        """
        status = _STATUS.fullmatch(self.licence or "")
        return {"Licensed": True, "Unlicensed": False}.get(status["state"]) if status else None

    @property
    def expires(self) -> str:
        """When its licence expires, as nvidia-smi prints it; empty without such a date."""
        status = _STATUS.fullmatch(self.licence or "")
        date = status["date"] if status and self.licensed else None
        return "" if date is None or date in NOT_AVAILABLE else date


class _Line(NamedTuple):
    depth: int
    """Blanks before it."""
    key: str
    value: str | None
    """None for the title of a section."""
    text: str


def parse_running(status: int, stdout: str) -> tuple[RunningVgpu, ...]:
    """Read ``nvidia-smi vgpu -q``; empty when no vGPU runs. `UnreadableOutput` where VMs or GPUs cannot be identified.

    Keys and sections that are not known are passed over: those of captures differ from driver to driver (R470 to R595).
    A GPU that does not answer has no vGPUs here, and hides none of the others.
    """
    lines = list(_lines(stdout))
    if any(line.depth == 0 and _GPU.fullmatch(line.key) for line in lines):
        lines = [line for line in lines if LOST_GPU.fullmatch(line.text) is None]
        status = 0 if len(lines) < len(list(_lines(stdout))) else status
    if lines and all(line.value is None and NO_VGPU_DRIVER.fullmatch(line.key) for line in lines):
        return ()
    if status != 0 or not lines:
        raise unreadable(status, stdout)
    try:
        gpus = [part for part in _parts(lines, 0) if not _is_head(part)]
        if not gpus:
            raise ValueError("there is no GPU")
        return tuple(vgpu for gpu in gpus for vgpu in _gpu(gpu))
    except ValueError as error:
        said = unreadable(status, stdout)
        raise UnreadableOutput(f"{error}: {said.message}", said.remedy) from None


def _is_head(part: Sequence[_Line]) -> bool:
    """Return whether a part is a line or a section before the GPUs, as ``nvidia-smi -q`` has them, of any driver."""
    title, *rest = part
    if title.key.startswith("GPU "):
        return False
    if not rest:
        return title.value is not None or re.fullmatch(r"=+[^=]+=+", title.key) is not None
    return all(line.value is not None and line.key != "vGPU ID" for line in rest)


def _lines(stdout: str) -> Iterator[_Line]:
    for line in stdout.splitlines():
        text = line.strip()
        # a damaged InfoROM adds such a line to any output
        if not text or text.startswith("WARNING: "):
            continue
        depth = len(line) - len(line.lstrip())
        key, colon, value = text.partition(" : ")
        if not colon and text.endswith(" :"):
            key, colon = text[:-2], ":"
        yield _Line(depth, key.strip(), value.strip() if colon else None, text)


def _parts(lines: Sequence[_Line], depth: int) -> Iterator[Sequence[_Line]]:
    """Cut lines into parts that begin at `depth`; every part has the deeper lines after its first."""
    start = 0
    for at, line in enumerate(lines):
        if line.depth < depth or (at == 0 and line.depth != depth):
            raise ValueError(f"{line.key!r} is indented unlike the lines around it")
        if line.depth == depth and at > start:
            yield lines[start:at]
            start = at
    if lines:
        yield lines[start:]


def _gpu(lines: Sequence[_Line]) -> Iterator[RunningVgpu]:
    head, *rest = lines
    named = _GPU.fullmatch(head.key)
    if named is None or head.value is not None or not rest:
        raise ValueError(f"{head.key!r} is not a GPU")
    pci, active, found = normal_pci(named["bus"]), None, 0
    for part in _parts(rest, rest[0].depth):
        first = part[0]
        if first.key == "Active vGPUs":
            # of a GPU in trouble there is a phrase, and no vGPU
            active = 0 if not has_value(first.value or "") or first.value in NOT_AVAILABLE else _number(first)
        elif first.key == "vGPU ID":
            found += 1
            yield _vgpu(pci, part)
    if active != found:
        raise ValueError(f"GPU {pci} has {active} active vGPUs, and {found} are listed")


def _vgpu(pci: str, lines: Sequence[_Line]) -> RunningVgpu:
    head, *rest = lines
    fields: dict[str, str] = {}
    load = None
    for part in _parts(rest, rest[0].depth) if rest else ():
        if part[0].value is None:
            load = _load(part) if part[0].key == "Utilization" else load  # any other section is passed over
        elif part[0].key in fields:
            raise ValueError(f"vGPU {head.value} has {part[0].key} twice")
        else:
            fields[part[0].key] = part[0].value
    for key in ("VM Name", "vGPU Name"):
        if key not in fields:
            raise ValueError(f"vGPU {head.value} has no {key}")
    values = {key: None if text in NOT_AVAILABLE else text for key, text in fields.items()}
    licence = values.get("License Status")
    return RunningVgpu(
        pci=pci,
        id=_number(head),
        vm_id=fields.get("VM ID") or fields.get("VM UUID") or fields["VM Name"],
        vm_name=fields["VM Name"],
        type_name=fields["vGPU Name"],
        gi=_number_at("GPU Instance ID", values),
        guest_driver=values.get("Guest Driver Version"),
        # `N/A (Expiry: N/A)`: the guest is not up
        licence=None if licence is None or licence.startswith("N/A ") else licence,
        uuid=(fields.get("vGPU UUID") or "").lower(),
        placement=_number_at("Placement ID", values),
        load=load,
    )


def _load(section: Sequence[_Line]) -> int | None:
    texts = {line.key.lower(): line.value or "" for line in section[1:]}
    percent = _PERCENT.fullmatch(texts.get("gpu", ""))
    return int(percent[1]) if percent else None


def _number_at(key: str, values: Mapping[str, str | None]) -> int | None:
    text = values.get(key)
    return int(text) if text is not None and text.isascii() and text.isdecimal() else None


def _number(line: _Line) -> int:
    if line.value is None or not (line.value.isascii() and line.value.isdecimal()):
        raise ValueError(f"{line.key} is not a number")
    return int(line.value)
