"""Configuration of NVIDIA mig-parted that a playbook names: read with it, and its entry for each GPU of a host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

from vsphere_ai.gpu.catalog import Board
from vsphere_ai.gpu.mig import parted
from vsphere_ai.gpu.mig.parted import PartedEntry, Path, RefuseAt
from vsphere_ai.gpu.smi import live
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import observed


class Parted(BaseModel):
    """A configuration in a file beside the playbook. `entries` is what it holds, so a saved plan needs no file."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", strict=True)

    file: str = Field(min_length=1)
    config: str = Field(min_length=1)
    entries: tuple[PartedEntry, ...] | None = observed("The configuration as it was read.")

    def read_from(self, data: object, refuse: RefuseAt, unknown: Callable[[str, str], None]) -> Self:
        """Return it with its entries, given what the file holds.

        Every fault of the file, other configurations in it aside, goes to `refuse`; `unknown` gets a message and a help
        when it has no such configuration.
        """
        faulty = False

        def refuse_own(path: Path, message: str, help: str = "") -> None:
            # another configuration may be meant for boards or uses that are no business of this playbook
            if len(path) < 2 or str(path[1]) == self.config:
                nonlocal faulty
                faulty = True
                refuse(path, message, help)

        # what mig-parted only passes over is a fault of a playbook: its plan would do nothing
        configs = parted.read(data, refuse_own, refuse_own, of_vms=True)
        if self.config not in configs and not faulty:
            near = get_close_matches(self.config, configs, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(configs) or 'none'}"
            unknown(f"{self.file} has no configuration {self.config!r}", hint)
        return self.model_copy(update={"entries": configs.get(self.config, ())})

    def by_gpu(self, facts: Facts, boards: dict[str, Board | None]) -> dict[str, PartedEntry]:
        """Return PCI address -> the entry that counts, for the GPUs of a host that it speaks of.

        A GPU without MIG is as an entry wants it that disables MIG, and ``devices: all`` is not about it. GPUs are
        numbered as nvidia-smi numbers them.
        """
        devices = {d["id"]: d for d in facts.get("hardware.pciDevice", ())}
        found = {}
        for gpu in live.readable(facts).gpus:
            device, board = devices.get(gpu.pci), boards.get(gpu.pci)
            known = (device["deviceId"] & 0xFFFF,) if device else ()
            if gpu.index is None:
                continue  # it does not answer, and has no number by which an entry could name it
            entry = parted.entry_for(self.entries or (), gpu.index, known, subsystem_of(device))
            capable = board is not None and board.mig_capable
            unknown = board is None and gpu.mig_current is not None
            if entry is not None and (capable or (entry.enabled and (unknown or entry.devices is not None))):
                found[gpu.pci] = entry
        return found


def subsystem_of(device: Mapping[str, Any] | None) -> int | None:
    """Return subsystem id and vendor of a PCI device as one number, None when it is not shown; vSphere's are signed."""
    if device is None or device.get("subDeviceId") is None or device.get("subVendorId") is None:
        return None
    return (int(device["subDeviceId"]) & 0xFFFF) << 16 | int(device["subVendorId"]) & 0xFFFF
