"""MIG of one GPU: its wanted mode and layout, and the transition to them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, BeforeValidator

from vsphere_ai.gpu.catalog import Board
from vsphere_ai.gpu.mig import layout as layouts
from vsphere_ai.gpu.mig.parted import PartedEntry
from vsphere_ai.gpu.mig.placement import Impossible, transition
from vsphere_ai.gpu.mig.search import Transition
from vsphere_ai.gpu.smi import live
from vsphere_ai.gpu.vgpus.listed_board import boards_as_listed
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.names.pci_address import PciAddress, distinct
from vsphere_ai.model.state import Settings, Target
from vsphere_ai.model.view import View


def _readable(value: object) -> object:
    """Refuse what nvidia-smi would silently misread, while the place in the playbook is still known."""
    if isinstance(value, bool) or not isinstance(value, int | str | list | tuple):
        raise ValueError("a layout is a list of profiles\nwrite e.g. [3g.20gb, 2g.10gb], or [] for none")
    try:
        items = layouts.parse((value,) if isinstance(value, int) else value) if value not in ((), []) else ()
    except layouts.LayoutError as error:
        raise ValueError(f"{error.message}\n{error.remedy}") from error
    return tuple(str(i) for i in items)


def _mode(value: str) -> str:
    if value not in ("enabled", "disabled"):
        raise ValueError(f"'{value}' is no MIG mode\nwrite 'enabled' or 'disabled'")
    return value


Layout = Annotated[tuple[str, ...], BeforeValidator(_readable)]


class GpuMig(Settings):
    """MIG of one GPU. An observed mode says as well what it waits for, e.g. ``disabled (enabled after a reboot)``."""

    mode: Annotated[str, AfterValidator(_mode)] | None = None
    layout: Layout | None = None

    def beside(self, every: GpuMig) -> GpuMig:
        """Return what is wanted of the GPU with what holds for every GPU of its host; a mode alone has no layout."""
        own = self.layout if self.layout is not None else None if self.mode else every.layout
        return GpuMig.model_construct(mode=self.mode or ("enabled" if own else every.mode), layout=own)


def as_gpu(value: object) -> object:
    """Return a bare layout as the settings of a GPU."""
    return value if isinstance(value, Mapping | GpuMig) else {"layout": value}


ByAddress = Annotated[Mapping[PciAddress, Annotated[GpuMig, BeforeValidator(as_gpu)]], BeforeValidator(distinct)]
"""PCI address, in any of its spellings -> the settings of the GPU."""


def boards_of(facts: Facts) -> dict[str, Board | None]:
    """Return PCI address -> board of every GPU of a host, as its own list has it; None for an unknown one."""
    return {pci: listed.board for pci, listed in boards_as_listed(facts).items()}


def of_entry(entry: PartedEntry) -> GpuMig:
    """Return an entry of mig-parted as the settings of a GPU."""
    layout = tuple(str(i) for i in entry.wanted) if entry.enabled else None
    return GpuMig.model_construct(mode="enabled" if entry.enabled else "disabled", layout=layout)


class Slot(NamedTuple):
    """One GPU of a host."""

    target: Target
    pci: str
    board: Board | None


def way_to(view: View, slot: Slot, layout: Sequence[str], have: GpuMig | None) -> Transition | Impossible | None:
    """Return the transition of a GPU to a layout, or why there is none; None for an unknown board."""
    if slot.board is None:
        return None
    facts = view.facts(slot.target.ref)
    present = live.present(facts, view.estate, slot.pci) if have is not None and have.layout else ()
    items = layouts.parse(tuple(layout)) if layout else ()
    return transition(slot.board, present, items, driver_major=live.readable(facts).driver_major(slot.pci))


def shown_mode(current: bool, pending: bool | None) -> str:
    """Return a mode in words, with the one that waits for a reboot."""
    words = {True: "enabled", False: "disabled"}
    return words[current] if pending in (None, current) else f"{words[current]} ({words[bool(pending)]} after a reboot)"


def after_boot(mode: str | None) -> str | None:
    """Return the mode a GPU has once the host has booted: what was pending is then current."""
    found = re.search(r"\((\w+) after a reboot\)", mode or "")
    return found[1] if found else mode


def gpus_read(listed: live.LiveGpus) -> dict[str, GpuMig]:
    """Return PCI address -> mode and instances as nvidia-smi lists them, of boards with MIG."""
    return {
        gpu.pci: GpuMig.model_construct(
            mode=shown_mode(gpu.mig_current, gpu.mig_pending),
            layout=tuple(f"{i.profile_name}:{i.start}" for i in listed.instances[gpu.pci]),
        )
        for gpu in listed.gpus
        if gpu.mig_current is not None
    }


def gpus_rebooted(gpus: Mapping[str, GpuMig], boards: Mapping[str, Board | None]) -> dict[str, GpuMig]:
    """Return what a reboot leaves: no instances, and the mode where the board keeps it."""
    keeping = {pci for pci, board in boards.items() if board is not None and board.mig_mode_persists}
    # a pending mode stays visible as such: it is a reason for the reboot, and must not vanish because of it
    modes = {pci: gpu.mode if pci in keeping else "disabled" for pci, gpu in gpus.items()}
    return {pci: GpuMig.model_construct(mode=mode, layout=()) for pci, mode in modes.items()}
