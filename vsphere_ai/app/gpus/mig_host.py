"""GPUs of one host for MIG: present instances, offered profiles, and the commands that lead to a layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vsphere_ai.app.estate.read_estate import read_everything
from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Emit
from vsphere_ai.errors import HostUnhealthy, Unreachable, UsageError
from vsphere_ai.gpu.catalog import Board
from vsphere_ai.gpu.mig import moves
from vsphere_ai.gpu.mig.layout import LayoutItem
from vsphere_ai.gpu.mig.placement import Impossible, LayoutCase, transition
from vsphere_ai.gpu.mig.search import Instance, Transition
from vsphere_ai.gpu.parted_choice import subsystem_of
from vsphere_ai.gpu.smi import live
from vsphere_ai.gpu.vgpus.listed_board import boards_as_listed
from vsphere_ai.model.facts import Estate, Facts, ProbeFailure
from vsphere_ai.model.names.pci_address import normal_pci


@dataclass(frozen=True)
class MigGpu:
    """A GPU with MIG as its host shows it: nvidia-smi's number, its place, model, and the mode it is in now."""

    index: int
    pci: str
    device_id: int
    subsystem: int | None
    board: Board
    enabled: bool
    pending: bool
    present: tuple[Instance, ...]
    notes: tuple[str, ...]
    driver_major: int | None
    fault: str = ""
    """What nvidia-smi prints of a GPU in trouble: its modes are unknown."""


def gpus_of(estate: Estate, facts: Facts) -> tuple[MigGpu, ...]:
    """Return the GPUs with MIG of a host that was read; raises when nvidia-smi could not be asked or understood."""
    failure = next((o for o in facts.probes.values() if isinstance(o, ProbeFailure)), None)
    if failure is not None:
        raise Unreachable(f"{facts.name}: MIG cannot be read: {failure.reason}", failure.help)
    seen = live.live(facts)
    if seen is None:
        raise HostUnhealthy(f"{facts.name}: MIG was not read", "is the host connected, with an NVIDIA driver?")
    modes = {g.pci: g for g in seen.gpus}
    devices = {d["id"]: d for d in facts.get("hardware.pciDevice", ())}
    found = []
    for pci, listed in boards_as_listed(facts).items():
        status = modes.get(pci)
        if listed.board is None or not listed.board.mig_capable or status is None or status.index is None:
            continue
        found.append(
            MigGpu(
                status.index,
                pci,
                devices[pci]["deviceId"] & 0xFFFF,
                subsystem_of(devices[pci]),
                listed.board,
                bool(status.mig_current),
                bool(status.mig_pending),
                live.present(facts, estate, pci),
                listed.disagreements,
                status.driver_major,
                status.fault,
            )
        )
    return tuple(sorted(found, key=lambda g: g.index))


def read_host(request: EstateRequest, emit: Emit) -> tuple[tuple[MigGpu, ...], Mapping[tuple[str, int], list[int]]]:
    """Return the GPUs of the one host that the limit names, and the compute instances per (PCI address, instance)."""
    with open_session(request, None, emit) as session:
        estate = read_everything(session)
        hosts = [h for h in session.scope.limited(estate, estate.hosts) if h.kind == "host"]
    if len(hosts) != 1:
        raise UsageError(f"{request.limit} names {len(hosts)} hosts", "name one host")
    facts = estate[hosts[0].ref]
    return gpus_of(estate, facts), live.readable(facts).compute


def cases(items: tuple[LayoutItem, ...], gpu: str, request: EstateRequest, emit: Emit) -> dict[str, LayoutCase]:
    """Return the way to a layout per GPU of the host that the limit names, or of the GPU with a PCI address."""
    gpus, compute = read_host(request, emit)
    chosen = [g for g in gpus if not gpu or g.pci == _pci(gpu)]
    if not chosen:
        there = ", ".join(g.pci for g in gpus) or "none"
        raise UsageError(f"{request.limit} has no such GPU with MIG", f"it has {there}; --gpu takes a PCI address")
    found = {}
    for one in chosen:
        answer = _answer(one, items)
        steps = () if isinstance(answer, Impossible) else tuple(moves.moves(one.board, answer, one.pci, compute))
        off: tuple[str, ...] = ()
        if not one.enabled and not isinstance(answer, Impossible):
            steps = (*moves.enabling(one.board, one.pci, pending=one.pending), *steps)
            off = ("MIG is off on this GPU: it has to be on before nvidia-smi creates anything",)
        title = f"{request.limit}, GPU {one.pci}"
        found[one.pci] = LayoutCase(one.board, one.present, items, answer, steps, title, (*off, *one.notes))
    return found


def _answer(gpu: MigGpu, items: tuple[LayoutItem, ...]) -> Transition | Impossible:
    if gpu.fault:
        return Impossible((f"nvidia-smi reports of this GPU: {gpu.fault}",), ())
    return transition(gpu.board, gpu.present, items, driver_major=gpu.driver_major)


def _pci(text: str) -> str:
    try:
        return normal_pci(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is not a PCI address", "with --host, --gpu is such as 0000:3b:00.0") from error
