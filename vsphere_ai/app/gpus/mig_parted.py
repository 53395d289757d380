"""Configurations of mig-parted: checked against GPUs, said as a play, or written."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.events import Emit, Remark
from vsphere_ai.app.gpus.mig_host import MigGpu, read_host
from vsphere_ai.documents.gpus.mig import PartedDocument, PartedFitDocument
from vsphere_ai.errors import UsageError
from vsphere_ai.gpu import catalog
from vsphere_ai.gpu.catalog import Board
from vsphere_ai.gpu.corrections import DividedGpus
from vsphere_ai.gpu.mig import parted
from vsphere_ai.gpu.mig.layout import MAX_ITEMS, LayoutItem
from vsphere_ai.gpu.mig.parted import Configs, PartedEntry
from vsphere_ai.gpu.mig.parted_profile import gpu_instances, is_part
from vsphere_ai.gpu.mig.placement import Impossible, transition
from vsphere_ai.language.yaml_files.document import FaultCollector
from vsphere_ai.language.yaml_files.embedded import load_holding
from vsphere_ai.model.names.yaml_text import flow, scalar
from vsphere_ai.model.plain import named
from vsphere_ai.model.state import Target
from vsphere_ai.resources.corrections import plays_of, text_of


@dataclass(frozen=True)
class PartedFit:
    """A configuration on one board: what it wants there, and why it does not fit (empty when it does).

    `entry` is None when the configuration does not speak of the GPU; `pci` is empty when no host was read.
    """

    config: str
    board: Board
    entry: PartedEntry | None
    reasons: tuple[str, ...]
    layout: tuple[str, ...] = ()
    pci: str = ""
    host: str = ""

    @property
    def compute_instances(self) -> tuple[str, ...]:
        """Compute instances that mig-parted makes inside of GPU instances: a play has none."""
        return tuple(item.profile for item in (self.entry.wanted if self.entry else ()) if is_part(item))


def checked_on_board(file: Path, config: str, board_key: str, emit: Emit) -> tuple[PartedFit, ...]:
    """Read a file and check one of its configurations, or all, against a board."""
    board = catalog.board(board_key)
    configs = _chosen(_read(file, config, emit), config)
    return tuple(each for name, entries in configs.items() for each in _on_board(name, entries, board))


def checked_on_host(file: Path, config: str, request: EstateRequest, emit: Emit) -> tuple[PartedFit, ...]:
    """Read a file and check one of its configurations, or all, against the GPUs of the host in the limit."""
    configs = _chosen(_read(file, config, emit), config)
    gpus, _ = read_host(request, emit)
    return tuple(
        _check(name, gpu.board, _entry(entries, gpu), gpu=gpu, host=request.limit)
        for name, entries in configs.items()
        for gpu in gpus
    )


def _entry(entries: Sequence[PartedEntry], gpu: MigGpu) -> PartedEntry | None:
    return parted.entry_for(entries, gpu.index, (gpu.device_id,), gpu.subsystem)


def _on_board(name: str, entries: Sequence[PartedEntry], board: Board) -> Iterator[PartedFit]:
    """Which GPU has which number is known on a host only, so every entry that may be about the board is checked."""
    about = [e for e in entries if e.is_about(None, board.device_ids) and not _skipped(e, board)]
    if not about:
        yield _check(name, board, None)
    for entry in about:
        yield _check(name, board, entry)


def _skipped(entry: PartedEntry, board: Board) -> bool:
    """Return whether mig-parted does not change such a GPU: ``devices: all`` means those that have MIG."""
    return entry.devices is None and not board.mig_capable


def written(request: EstateRequest, emit: Emit) -> str:
    """Return the MIG state of a host (the limit) as the text of a file; a GPU not listed is as `devices` of none."""
    gpus, _ = read_host(request, emit)
    if not gpus:
        raise UsageError(f"{request.limit} has no GPU with MIG", "name a host with GPUs such as A100, A30 or H100")
    states = {
        g.index: PartedEntry(g.enabled, tuple(LayoutItem(i.profile_name) for i in g.present) if g.enabled else ())
        for g in gpus
        if not g.fault
    }
    name = request.limit.partition(".")[0]
    return parted.write({name: parted.together(states)})


def document(found: Sequence[PartedFit]) -> PartedDocument:
    """Return what was found as it is printed."""
    return PartedDocument(configs=tuple(map(_fit_document, found)))


def _fit_document(each: PartedFit) -> PartedFitDocument:
    where = {"host": each.host, "pci": each.pci} if each.pci else {}
    return PartedFitDocument(
        config=each.config,
        board=each.board.key,
        **where,
        applies=each.entry is not None,
        fits=not each.reasons,
        reasons=each.reasons,
        mig_enabled=each.entry.enabled if each.entry else None,
        layout=each.layout,
        compute_instances=each.compute_instances,
    )


def lines(found: Sequence[PartedFit]) -> list[str]:
    """Return a play per configuration, as comments and YAML; the comments say what does not fit."""
    text: list[str] = []
    for name in dict.fromkeys(each.config for each in found):
        own = [each for each in found if each.config == name]
        text += [*([""] if text else []), f"# {json.dumps(name)[1:-1]}"]
        for each in own:
            where = f"GPU {each.pci}" if each.pci else each.board.key
            if each.entry is None:
                none = "" if each.board.mig_capable else ", which has no MIG"
                text.append(f"# says nothing of {where}{none}")
            text += [f"# does not fit on {where}: {reason}" for reason in each.reasons]
        text += _play([each for each in own if each.entry is not None and not each.reasons])
    return text


def _play(own: Sequence[PartedFit]) -> Iterator[str]:
    """Without a host only what is meant for all GPUs can be said: a playbook names single ones by PCI address."""
    for each in (each for each in own if each.compute_instances):
        where = f"GPU {each.pci}" if each.pci else each.board.key
        counts = ", ".join(f"{n} of {name}" for name, n in Counter(each.compute_instances).items())
        yield f"# {where}: {counts} in {', '.join(each.layout)}: mig-parted makes them, a play has no compute instances"
    own = [each for each in own if not each.compute_instances]
    if own and own[0].pci:
        yield f"- hosts: {own[0].host}"
        yield from _block(*map(_divided, own))
        return
    for each in own:
        if each.entry is not None and each.entry.devices is not None:
            numbers = ", ".join(map(str, each.entry.devices))
            yield f"# GPU {numbers}: {text_of(_divided(each))}"
            yield "# with --host it is said as a play, which names GPUs by PCI address"
    everywhere = [each for each in own if each.entry is not None and each.entry.devices is None]
    if everywhere:
        yield "- hosts: gpu_hosts"
        yield f"  {text_of(_divided(everywhere[-1]))}"


def _divided(each: PartedFit) -> DividedGpus:
    """Return what a configuration makes of the GPU that it was checked on, or of all of its board."""
    in_mig = each.entry is not None and each.entry.enabled
    host = Target("host", each.host, "")
    return DividedGpus(host, each.pci, in_mig=in_mig, layout=tuple(each.layout) if in_mig else None)


def _block(*corrections: DividedGpus) -> Iterator[str]:
    """Yield the lines of a play for single GPUs of a host, each on a line of its own."""
    for plays in plays_of(corrections).values():
        for kind, value in plays.items():
            yield f"  {kind}:"
            for field, entries in named(value).items():
                yield f"    {field}:"
                yield from (f"      {scalar(key)}: {flow(entry)}" for key, entry in entries.items())


def _check(
    name: str, board: Board, entry: PartedEntry | None, *, gpu: MigGpu | None = None, host: str = ""
) -> PartedFit:
    pci, driver = (gpu.pci, gpu.driver_major) if gpu else ("", None)
    if gpu and gpu.fault and entry is not None:
        return PartedFit(name, board, entry, (f"nvidia-smi reports of this GPU: {gpu.fault}",), (), pci, host)
    if entry is None or not entry.wanted:
        no_mig = entry is not None and entry.enabled and not board.mig_capable
        return PartedFit(name, board, entry, (f"{board.title} has no MIG",) if no_mig else (), (), pci, host)
    if len(entry.wanted) > MAX_ITEMS:
        return PartedFit(name, board, entry, (f"more than {MAX_ITEMS} instances on a GPU",), (), pci, host)
    present = gpu.present if gpu else ()
    answers = [transition(board, present, need, driver_major=driver) for need in gpu_instances(entry.wanted)]
    answer = next((each for each in answers if not isinstance(each, Impossible)), answers[0])
    if isinstance(answer, Impossible):
        return PartedFit(name, board, entry, answer.reasons, (), pci, host)
    layout = tuple(f"{i.profile_name}:{i.start}" for i in sorted((*answer.keep, *answer.create), key=lambda i: i.start))
    return PartedFit(name, board, entry, (), layout, pci, host)


def _read(file: Path, config: str, emit: Emit) -> Configs:
    """Return the configurations of a file; when one is chosen, what is wrong with the others does not matter."""
    faults, notes = FaultCollector(), FaultCollector()
    document = load_holding(file, parted.CONFIGS, faults)

    def noting(collector: FaultCollector) -> parted.RefuseAt:
        def note(path: parted.Path, message: str, help: str = "") -> None:
            if not config or len(path) < len(("mig-configs", config)) or str(path[1]) == config:
                document.refuse(collector, path, message, help)

        return note

    configs = parted.read(document.data, noting(faults), noting(notes))
    faults.raise_any()
    for found in notes.found:
        emit(Remark("mig.parted", f"{found.mark}: {found.message}; {found.help}"))
    return configs


def _chosen(configs: Configs, name: str) -> Configs:
    if not name:
        return configs
    if name not in configs:
        near = difflib.get_close_matches(name, configs, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UsageError(f"the file has no configuration {name!r}", f"{hint}it has {', '.join(configs) or 'none'}")
    return {name: configs[name]}
