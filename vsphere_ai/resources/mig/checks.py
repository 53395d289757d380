"""Checks of MIG layouts: what a host lists, and ids that mean something else there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from vsphere_ai.gpu.mig.placement import Impossible
from vsphere_ai.gpu.smi import live
from vsphere_ai.gpu.smi.listings import UnreadableOutput
from vsphere_ai.gpu.vgpus.listed_board import ListedBoard, boards_as_listed
from vsphere_ai.model.facts import Facts, ProbeFailure
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers import factories
from vsphere_ai.resources.mig.gpu import GpuMig, Slot, boards_of, way_to

problem = partial(factories.problem, "mig")
UNLISTED = "have mode: enabled applied first; the layout once the host lists the GPU's profiles"


def read_problems(target: Target, facts: Facts) -> Iterator[Problem]:
    """Yield that nvidia-smi was not asked, or that its answer cannot be read."""
    outputs = (facts.probes.get(probe.name) for probe in live.PROBES)
    failure = next((o for o in outputs if isinstance(o, ProbeFailure)), None)
    if failure is not None:
        yield problem(target, failure.rule, f"MIG cannot be read: {failure.reason}", failure.help)
        return
    try:
        if live.live(facts) is None:
            yield problem(target, "not-read", "MIG was not read on this host", "add an ssh: section to the inventory")
    except UnreadableOutput as error:
        yield problem(target, "unreadable", error.message, error.remedy)


def meanings_of(boards: Mapping[str, ListedBoard], ids: Mapping[str, Sequence[str]]) -> dict[str, dict[str, str]]:
    """Return id -> PCI address -> the profile it stands for there."""
    found: dict[str, dict[str, str]] = {}
    for pci, listed in boards.items():
        for number in ids[pci]:
            profile = listed.board.find_profile(number) if listed.board else None
            if profile is not None:
                found.setdefault(number, {})[pci] = profile.name
    return found


def id_problems(target: Target, facts: Facts, ids: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
    """A number means one profile on an A100 and another on an A30."""
    boards = {pci: listed for pci, listed in boards_as_listed(facts).items() if pci in ids}
    for pci, listed in boards.items():
        for number in dict.fromkeys(ids[pci]):
            other = listed.other_meaning(number)
            if other is not None:
                meant = f"id {number} is {other[1].name} on this host, {other[0].name} in the catalogue"
                yield problem(target, "id", f"GPU {pci}: {meant}", "write the profile's name")
    for number, meanings in meanings_of(boards, ids).items():
        if len({name.partition("g.")[0] for name in meanings.values()}) > 1:
            each = " and ".join(f"{name} on {pci}" for pci, name in meanings.items())
            yield problem(target, "id", f"id {number} is {each}", "write profile names, per GPU under gpus")


def gpu_problems(
    target: Target, view: View, gpus: Mapping[str, GpuMig], left: Mapping[str, GpuMig]
) -> Iterator[Problem]:
    """Yield GPUs that a host does not have or that have no MIG, and layouts that do not fit on what is `left` there."""
    boards, faults = boards_of(view.facts(target.ref)), live.readable(view.facts(target.ref)).faults
    for pci, wanted in gpus.items():
        board = boards.get(pci)
        if pci not in boards:
            there = f"it has {', '.join(boards) or 'none'}"
            yield problem(target, "gpu-unknown", f"there is no NVIDIA GPU {pci}", there)
        elif pci in faults:
            message = f"nvidia-smi reports of GPU {pci}: {faults[pci]}"
            yield problem(target, "gpu-fault", message, "repair the GPU, or name the others under mig: {gpus: …}")
        elif board is None or not board.mig_capable:
            message = f"GPU {pci} ({board.title if board else 'unknown board'}) has no MIG"
            yield problem(target, "not-capable", message, "leave it out, or name GPUs under mig: {gpus: …}")
        else:
            yield from layout_problems(view, Slot(target, pci, board), wanted, left.get(pci))


def layout_problems(view: View, slot: Slot, wanted: GpuMig, before: GpuMig | None) -> Iterator[Problem]:
    """Yield why a GPU cannot have its layout; `before` is what stands on it then."""
    target, pci, board = slot
    if board is None or wanted.layout is None or (wanted.mode == "disabled" and not wanted.layout):
        return
    if wanted.mode == "disabled":
        yield problem(
            target,
            "contradiction",
            f"GPU {pci}: a layout needs mode: enabled",
            "write mode: enabled, or leave out the layout",
        )
    way = way_to(view, slot, wanted.layout, before)
    if isinstance(way, Impossible):
        close = "; ".join(f"{n.short} (-cgi {n.cgi})" for n in way.nearest)
        what = f"cut into {', '.join(wanted.layout)}" if wanted.layout else "emptied"
        remedy = f"closest legal layouts: {close}" if close else UNLISTED if board.named_profiles else ""
        yield problem(target, "layout", f"GPU {pci} ({board.title}) cannot be {what}: {'; '.join(way.reasons)}", remedy)
