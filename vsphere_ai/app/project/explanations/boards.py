"""GPU boards, their MIG profiles and vGPU types, explained from the catalogue."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.gpu.catalog import Board, Profile, TimeSliced, boards
from vsphere_ai.model.records.explained import ExplanationPart, NameExplained
from vsphere_ai.model.text import counted

SOURCE = "NVIDIA Multi-Instance GPU User Guide; NVIDIA AI Enterprise User Guide, Virtual GPU Types"
PAGE = "docs/catalogue.md"


def mode_text(board: Board) -> str:
    """Return what switching the MIG mode of a board takes."""
    reboot = "needs a reboot of the ESXi host" if board.mig_needs_reboot_on_esxi else "needs no reboot"
    kept = "survives later reboots" if board.mig_mode_persists else "is lost when the driver is unloaded"
    return f"Switching MIG mode {reboot}; the mode {kept}."


def names_text(board: Board) -> str:
    """Return how names of vGPU types begin, by product: vSphere names types by the device, not by the family."""
    found = []
    for product in board.products:
        names = " or ".join(f"`{name}-`" for name in product.vgpu_names) or "not published"
        ids = ", ".join(f"{number:04x}" for number in product.device_ids)
        found.append(f"{names} ({product.name}{': ' if ids else ''}{ids})")
    return ", ".join(found)


def size_text(size: TimeSliced) -> str:
    """Return a size of time-sliced vGPUs with its maximum per GPU: all of one size, and of mixed sizes."""
    equal, mixed = ("?" if n is None else str(n) for n in (size.max_equal, size.max_mixed))
    return f"{size.fb_gb}C {equal}/{mixed}"


def explained() -> Iterator[NameExplained]:
    """Yield every board (by each of its names), every MIG profile, and every vGPU type of a board."""
    profiles: dict[str, list[tuple[str, str]]] = {}
    types: dict[str, list[tuple[str, str]]] = {}
    for board in boards():
        yield from (_board(name, board) for name in (board.key, *board.also_called))
        for p in board.profiles:
            for name in (p.name, *p.aliases):
                profiles.setdefault(name, []).append((board.key, _profile(p)))
        for begin in board.vgpu_names:
            for ending, count in board.types.items():
                where = "a GPU instance of MIG" if ending.count("-") else "a time-sliced GPU"
                text = f"on {where}, at most {count} per GPU"
                types.setdefault(f"{begin}-{ending.lower()}", []).append((board.key, text))
    for name, on in profiles.items():
        yield NameExplained(
            name,
            "MIG profile",
            "A MIG profile",
            parts=(ExplanationPart("Boards", tuple(on)),),
            source=SOURCE,
            page=PAGE,
        )
    for name, on in types.items():
        yield NameExplained(
            name, "vGPU type", "A vGPU type", parts=(ExplanationPart("Boards", tuple(on)),), source=SOURCE, page=PAGE
        )


def _board(name: str, board: Board) -> NameExplained:
    trust = "" if board.verified else "Ids or starts by analogy: check `nvidia-smi mig -lgip` on the host."
    slices = f"{board.compute_slices} compute slices, {board.memory_slices or 'unknown'} memory slices."
    mig = (slices, mode_text(board)) if board.mig_capable else ("It has no MIG.",)
    sizes = ", ".join(map(size_text, board.time_sliced)) or "not published"
    pairs = (
        ("memory", "not known" if board.memory_gb is None else f"{board.memory_gb} GB"),
        ("PCI ids", ", ".join(f"{number:04x}" for number in board.device_ids)),
        ("driver from", f"R{board.min_driver}" if board.min_driver else "not published"),
        ("vGPU names", names_text(board)),
        ("time-sliced", f"{sizes} (at most per GPU: all of one size/mixed sizes)"),
    )
    named = tuple((n, "NVIDIA publishes its name only") for n in board.named_profiles)
    found = named or tuple((" or ".join((p.name, *p.aliases)), _profile(p)) for p in board.profiles)
    parts = (
        ExplanationPart("", tuple(p for p in pairs if p[1])),
        *((ExplanationPart("MIG profiles", found),) if found else ()),
    )
    text = tuple(filter(None, (*mig, trust)))
    return NameExplained(name, "board", board.title, text, parts, SOURCE, PAGE)


def _profile(p: Profile) -> str:
    starts = ", ".join(map(str, p.starts))
    text = f"id {p.id}, {counted(p.compute_slices, 'compute slice')}, {counted(p.memory_slices, 'memory slice')}"
    text += f", starts at {starts}, at most {p.max_instances} per GPU"
    text += f"; vGPU type {p.vgpu_suffix}" if p.vgpu_suffix else ""
    return f"{text}; driver from R{p.min_driver}" if p.min_driver else text
