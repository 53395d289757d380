"""Capacity as text: what runs on each GPU, what still fits, and whether VMs find room."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from vsphere_ai.capacity.host import GivenVgpu
from vsphere_ai.capacity.verdict import Fit, Undecided
from vsphere_ai.gpu.mig.drawing import draw
from vsphere_ai.gpu.mig.fragmentation import Fragmentation, fragmentation
from vsphere_ai.gpu.smi.running import RunningVgpu
from vsphere_ai.gpu.vgpus.slot import GpuSlot
from vsphere_ai.gpu.vgpus.vgpu import parse
from vsphere_ai.model.names.name_ranges import fold
from vsphere_ai.model.text import counted, safe
from vsphere_ai.planning.capacity_report import FitVerdict, GpuUse, UsedVgpu
from vsphere_ai.report.findings_text import TWO_SCREENS
from vsphere_ai.report.folding import FEW, NAMED, alike, names, of_sample, shape
from vsphere_ai.report.gpus.capacity_document import left_over, room_by_profile
from vsphere_ai.report.layout import grouped

WIDTH = 80
ROOM = ("capacity.", "vgpu.")
MOST_PLACES = 16
"""VMs up to which each is shown where it goes."""
_ASSUMED = "where running VMs stand could not be read, and is assumed"
_AT_MOST = "at most: what running VMs hold was not read"


def capacity_text(hosts: Mapping[str, Sequence[GpuUse]], verdict: FitVerdict | None, *, full: bool = False) -> str:
    """Return what is on each GPU of hosts, and whether the VMs fit. Lines of at most 80 columns.

    Of more than a few hosts that are alike but for the names of their VMs, one is shown. Where this is more than two
    screens, hosts have a line by what is on their GPUs and what still fits. With `full` each host is shown.
    """
    lines = [safe(line) for line in _lines(hosts, verdict, full=full)]
    if len(lines) > TWO_SCREENS and not full:
        lines = [safe(line) for line in _overview(hosts, verdict)]
    return "\n".join(lines)


def _lines(hosts: Mapping[str, Sequence[GpuUse]], verdict: FitVerdict | None, *, full: bool) -> Iterator[str]:
    for same in grouped((_kind(gpus), host) for host, gpus in hosts.items() if gpus).values():
        if len(same) > FEW and not full:
            yield from _wrapped(f"{len(same)} hosts alike: ", [f"{', '.join(fold(same))}. The first (--full has all):"])
            same = same[:1]
        for host in same:
            yield from _host_lines(host, hosts[host])
    yield from _without(hosts)
    if verdict is not None:
        yield from _verdict_lines(verdict, full=full)


def _without(hosts: Mapping[str, Sequence[GpuUse]]) -> Iterator[str]:
    without = [host for host, gpus in hosts.items() if not gpus]
    if without:
        terms = fold(without)
        more = [f"and {len(terms) - NAMED} more"] if len(terms) > NAMED else []
        yield from _wrapped("No GPU that gives vGPUs: ", [*terms[:NAMED], *more])
        yield "  what it takes: vsphere-ai explain graphics"


def _overview(hosts: Mapping[str, Sequence[GpuUse]], verdict: FitVerdict | None) -> Iterator[str]:
    """Yield the environment as a whole, then hosts with as many vGPUs and as much room together, most hosts first."""
    own = {host: gpus for host, gpus in hosts.items() if gpus}
    every = [gpu for gpus in own.values() for gpu in gpus]
    tail = [*_without(hosts), *(_verdict_lines(verdict, full=False) if verdict is not None else ())]
    yield from _wrapped("", [f"{counted(len(own), 'host')} with {counted(len(every), 'GPU')}, {_used(every)}"])
    yield from _wrapped("  fits  ", [_room(every)])
    yield ""
    rows = grouped((_summary(gpus), host) for host, gpus in own.items())
    left = TWO_SCREENS - len(tail) - 6
    hidden: list[str] = []
    for (boards, used, room), names_of in sorted(rows.items(), key=lambda row: -len(row[1])):
        terms = fold(names_of)
        more = f" and {len(terms) - NAMED} more" if len(terms) > NAMED else ""
        many = f" ({counted(len(names_of), 'host')})" if len(names_of) > 1 else ""
        per_host = " each" if len(names_of) > 1 else ""
        lines = [
            *_wrapped("", [f"{', '.join(terms[:NAMED])}{more}{many}"]),
            *_wrapped("  ", [f"{boards}, {used}{per_host}"]),
        ]
        lines += _wrapped("  fits  ", [room])
        left -= len(lines)
        if left < 0:
            hidden += names_of
        else:
            yield from lines
    yield ""
    if hidden:
        yield from _wrapped("not shown: ", [f"{counted(len(hidden), 'host')} in other layouts"])
    yield "--full shows each host and GPU"
    yield from tail


def _summary(gpus: Sequence[GpuUse]) -> tuple[str, str, str]:
    """Return the boards of a host, what runs on them, and what still fits."""
    boards = Counter(f"{_board(gpu)}{' MIG' if gpu.slot.mode == 'mig' else ''}" for gpu in gpus)
    return ", ".join(f"{n} x {board}" for board, n in boards.items()), _used(gpus), _room(gpus)


def _used(gpus: Sequence[GpuUse]) -> str:
    return counted(sum(len(gpu.running) for gpu in gpus), "vGPU")


def _room(gpus: Sequence[GpuUse]) -> str:
    """Return how many more vGPUs of each profile fit, each profile by itself."""
    room: Counter[str] = Counter()
    for gpu in gpus:
        room.update(room_by_profile(gpu.slot))
    written = _short if len({gpu.slot.board.title for gpu in gpus}) == 1 else str
    choices = " or ".join(f"{count} x {written(name)}" for name, count in room.items() if count)
    return f"{choices or 'nothing more'}{f' ({_AT_MOST})' if any(gpu.slot.guessed for gpu in gpus) else ''}"


def _board(gpu: GpuUse) -> str:
    return gpu.slot.board.title.partition(",")[0].partition(" (")[0]


def _kind(gpus: Iterable[GpuUse]) -> tuple[str, ...]:
    """Return what is shown of the GPUs of a host but for the names of its VMs."""
    unnamed = (replace(gpu, running=tuple(replace(used, vm="") for used in gpu.running)) for gpu in gpus)
    return tuple(line for gpu in unnamed for line in _gpu_lines(gpu))


def _host_lines(host: str, gpus: Sequence[GpuUse]) -> Iterator[str]:
    vms = {used.vm for gpu in gpus for used in gpu.running}
    yield f"{host}  {counted(len(gpus), 'GPU')}, {counted(len(vms), 'VM')}"
    for gpu in gpus:
        yield from _gpu_lines(gpu)
    yield ""


def _gpu_lines(gpu: GpuUse) -> Iterator[str]:
    slot, mig = gpu.slot, gpu.slot.mode == "mig"
    mode = "MIG" if mig else f"time-sliced, {'mixed' if slot.kind.mixed else 'equal'} sizes"
    yield f"  {slot.pci}  {_board(gpu)}  {mode}"
    found = fragmentation(slot.board, slot.present, driver_major=slot.driver_major) if mig else None
    if found:
        yield from _slice_lines(slot, found)
    if gpu.running:
        yield from _wrapped("    runs    ", [f"{used.vm} ({_short(used.profile)})" for used in gpu.running])
        yield from _guest_lines(gpu.running)
    room = [f"{count} x {_short(name)}" for name, count in room_by_profile(slot).items() if count]
    yield from _wrapped("    fits    ", room or ["nothing more"], " or ")
    if slot.guessed and not found:
        yield f"            {_AT_MOST if room else _ASSUMED}"
    for gain in (r for r in found.profiles if r.move) if found else ():
        move = " and ".join(f"{i.profile_name} at {i.start}" for i in gain.move)
        busy = sum(i.in_use for i in gain.move)
        cost = f", {counted(busy, 'VM')} off and on" if busy else ""
        yield from _wrapped("    move    ", [f"{move}: room for one more {gain.profile}{cost}"])


def _guest_lines(running: Iterable[UsedVgpu]) -> Iterator[str]:
    """Group running vGPUs by what their guests report; nothing where nvidia-smi reports nothing."""
    shown = (_guest(used.vm, used.guest) for used in running if used.guest)
    for reported, vms in grouped(filter(None, shown)).items():
        yield from _wrapped(f"    guests  {reported}: ", vms)


def _guest(vm: str, guest: RunningVgpu) -> tuple[str, str] | None:
    """Return what a guest reports of driver and licence, and its VM."""
    if (guest.gi, guest.guest_driver, guest.licence) == (None, None, None):
        return None
    driver = f"driver {guest.guest_driver}" if guest.guest_driver else "no driver loaded"
    licence = (guest.licence or "licence not shown").partition(" (")[0].lower()
    return f"{driver}, {licence}", f"{vm}{f' (GPU instance {guest.gi})' if guest.gi is not None else ''}"


def _slice_lines(slot: GpuSlot, found: Fragmentation) -> Iterator[str]:
    for line in draw(slot.board, slot.present):
        yield f"    {line}"
    stranded = ", ".join(map(str, found.stranded))
    noun = "slice" if len(found.stranded) == 1 else "slices"
    lost = f", {noun} {stranded} unusable with the current layout" if stranded else ""
    yield f"    slices  {len(found.free)} of {slot.board.memory_slices} free{lost}"
    if slot.guessed:
        yield f"            {_ASSUMED}"


def _verdict_lines(verdict: FitVerdict, *, full: bool) -> Iterator[str]:
    answer = verdict.answer
    sure = "exact" if answer.exact else "not certain"
    spare = f" after the loss of any {counted(verdict.spare_hosts, 'host')}" if verdict.spare_hosts else ""
    if not isinstance(answer, Fit):
        yield f"NOT DECIDED{spare}" if isinstance(answer, Undecided) else f"DOES NOT FIT{spare} ({sure})"
        yield from _wrapped("  ", [answer.explanation])
        yield from _wrapped("  left over: ", fold(left_over(verdict, answer.vms)))
        room = [f"{count or 'no'} more {name}" for name, count in answer.room.items()]
        yield from _wrapped("  room now:  ", room)
        return
    if not verdict.fits:
        yield f"DOES NOT FIT{spare} where the VMs are ({sure})"
        yield from _problem_lines(verdict, ROOM, full=full)
        return
    yield f"FITS{spare} ({sure})"
    yield "  Power on in this order:" if answer.assignment else "  No VM has to power on."
    places = list(answer.assignment.items())
    more = 0 if full or len(places) <= MOST_PLACES else len(places) - FEW
    for ref, (host, given) in places[: len(places) - more]:
        yield from _place_lines(verdict.targets[ref].name, host, verdict.homes[ref], given)
    if more:
        yield f"  and {more} more (--full has all)"
    for warning in answer.warnings:
        yield from _wrapped("  ! ", [warning])
    others = sorted({p.rule for p in verdict.problems})
    if others:
        yield from _wrapped("  ! ", [f"vsphere-ai plan refuses this playbook: {', '.join(others)}"])


def _problem_lines(verdict: FitVerdict, rules: tuple[str, ...], *, full: bool) -> Iterator[str]:
    found = alike(
        (((p.rule, p.message, p.remedy), p.target) for p in verdict.problems if p.rule.startswith(rules)),
        lambda value, target: (value[0], shape(value[1], target), shape(value[2], target)),
        full=full,
    )
    for each in found:
        rule, message, help_ = each.value
        yield from _wrapped("  ! ", [f"{names(each.targets)}{of_sample(each)}: {message}  [{rule}]"])
        yield from _wrapped("    ", [help_])


def _place_lines(vm: str, host: str, home: str, places: Iterable[GivenVgpu]) -> Iterator[str]:
    yield f"  {vm} on {host}{'' if host == home else f' (now on {home})'}"
    for given in places:
        unit = "slice" if parse(given.profile).is_mig else "GB"
        at = "" if given.start is None else f" at {unit} {given.start}"
        yield f"      {given.gpu}  {given.profile}{at}"


def _short(profile: str) -> str:
    """Return what distinguishes the profiles of one GPU: ``3-20c`` of ``grid_a100-3-20c``."""
    return profile.partition("-")[2] or profile


def _wrapped(head: str, words: Iterable[str], separator: str = ", ") -> list[str]:
    indent = " " * min(len(head), 12)
    text = separator.join(w.replace(" ", "\0") if len(w) < WIDTH // 2 else w for w in words)  # keep short ones whole
    lines = textwrap.wrap(text, WIDTH, initial_indent=head, subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]
