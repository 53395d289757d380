"""A GPU board as its host lists it: where `nvidia-smi mig -lgip` and `-lgipp` answer, they win over the catalogue."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from vsphere_ai.gpu.catalog import Board, Engines, Profile, boards
from vsphere_ai.gpu.devices import boards_of
from vsphere_ai.gpu.mig.search import needs_newer
from vsphere_ai.gpu.smi import live
from vsphere_ai.gpu.smi.listings import (
    GpuStatus,
    ListedInstance,
    ListedPlacement,
    ListedProfile,
    UnreadableOutput,
    parse_gpus,
    parse_instances,
    parse_placements,
    parse_profiles,
)
from vsphere_ai.gpu.vgpus.vgpu import VgpuNameError, VgpuProfile, board_of, parse
from vsphere_ai.model.facts import CommandOutput, Facts
from vsphere_ai.model.text import counted

_SLICES = re.compile(r"(\d+)g\.")
_NO_ENGINES = Engines(0, 0, 0, 0, 0, 0)


@dataclass(frozen=True)
class ListedBoard:
    """A GPU's board as the host lists it, None when it is not known; `table` is the catalogue's, else None.

    `disagreements` says in a line each where the host's listing differs from the catalogue.
    """

    board: Board | None
    table: Board | None
    disagreements: tuple[str, ...] = ()

    def other_meaning(self, profile_id: str) -> tuple[Profile, Profile] | None:
        """Return (the catalogue's, the host's) profile of an id when they are not the same kind of instance."""
        if self.board is None or self.table is None:
            return None
        documented, listed = self.table.find_profile(profile_id), self.board.find_profile(profile_id)
        if documented is None or listed is None or _alike(documented, listed):
            return None
        return documented, listed


def boards_as_listed(facts: Facts) -> Mapping[str, ListedBoard]:
    """Return PCI address -> board of every NVIDIA GPU of a host.

    Profiles, ids, starts, sizes and maxima are the host's own where it lists them; before R550 it does so only while
    MIG is on. Compute slices come from the profile's name. vGPU names are those of the device, and those that the host
    lists in ``config.sharedPassthruGpuTypes`` where they differ. A board whose names the catalogue does not have gets
    those that belong to no other board, when it is the only such board there.
    """
    found = _combined(_outputs(facts), tuple(boards_of(facts).items()))
    names = tuple(facts.get("config.sharedPassthruGpuTypes", ()))
    if not names:
        return found
    here = tuple(listed.board for listed in found.values())
    return {pci: replace(seen, board=_renamed(seen.board, here, names)) for pci, seen in found.items()}


def _vgpu_names(types: Iterable[str]) -> Iterator[VgpuProfile]:
    for name in types:
        try:
            yield parse(name.lower())
        except VgpuNameError:
            continue  # devices of other makers are listed there as well


@lru_cache(maxsize=1024)
def _renamed(board: Board | None, host: tuple[Board | None, ...], types: tuple[str, ...]) -> Board | None:
    """Return a GPU's board with the vGPU names its host lists: the host's list wins over the catalogue.

    Names of another product of the same board are taken where no GPU of the host explains them.
    """
    if board is None:
        return None
    known = next((b for b in boards() if b.key == board.key), None)
    family = known.vgpu_names if known else ()
    listed = tuple(dict.fromkeys(n.stem for n in _vgpu_names(types) if n.stem in family))
    own = tuple(name for name in board.vgpu_names if name in listed)
    if own:
        return board if own == board.vgpu_names else replace(board, vgpu_names=own)
    explained = {name for b in host if b is not None for name in b.vgpu_names}
    others = tuple(name for name in listed if name not in explained)
    if others:
        return replace(board, vgpu_names=others)
    nameless = {b.key if b else "" for b in host if b is None or not b.vgpu_names}
    return _named(board, types) if not board.vgpu_names and len(nameless) == 1 else board


def _named(board: Board, types: tuple[str, ...]) -> Board:
    """Return the board with those vGPU names of its host that are no other board's; the largest is of the whole GPU."""
    names = [n for n in _vgpu_names(types) if board_of(n) is None]
    if not names:
        return board
    stems = tuple(dict.fromkeys(n.stem for n in names))
    known = [board.memory_gb] if board.memory_gb is not None else []
    return replace(board, vgpu_names=stems, memory_gb=max(*known, *(n.fb_gb for n in names)))


def _outputs(facts: Facts) -> tuple[CommandOutput | None, ...]:
    probes = (live.GPUS, live.INSTANCES, live.PROFILES, live.PLACEMENTS)
    answers = (facts.probes.get(p.name) for p in probes)
    return tuple(a if isinstance(a, CommandOutput) else None for a in answers)


@lru_cache(maxsize=256)
def _profiles(output: CommandOutput) -> tuple[ListedProfile, ...]:
    return parse_profiles(output.status, output.stdout)


@lru_cache(maxsize=256)
def _placements(output: CommandOutput) -> tuple[ListedPlacement, ...]:
    return parse_placements(output.status, output.stdout)


@lru_cache(maxsize=4096)
def _combined(
    outputs: tuple[CommandOutput | None, ...], boards: tuple[tuple[str, Board | None], ...]
) -> Mapping[str, ListedBoard]:
    queried, instances, profiles, placements = outputs
    as_documented = {pci: ListedBoard(table, table) for pci, table in boards}
    try:
        gpus = {g.pci: g for g in parse_gpus(queried.status, queried.stdout)} if queried else {}
        present = parse_instances(instances.status, instances.stdout) if instances else ()
    except UnreadableOutput:
        return as_documented  # the reader of the GPU states reports it
    try:
        kinds = _profiles(profiles) if profiles else ()
        places = _placements(placements) if placements else ()
    except UnreadableOutput as error:
        text = " / ".join(error.message.splitlines())
        unread = (f"the host's list of MIG profiles cannot be read, the catalogue is used: {text}",)
        return {pci: ListedBoard(table, table, unread if table and table.mig_capable else ()) for pci, table in boards}
    found = {}
    for pci, table in boards:
        gpu = gpus.get(pci)
        if gpu is None:
            found[pci] = as_documented[pci]
            continue
        board, said = _board(_offer(gpu, kinds, places), table)
        here = tuple(i for i in present if i.gpu == gpu.index)
        sizes = tuple(_odd_sizes(board, here)) if board else ()
        found[pci] = ListedBoard(board and _with_present(board, here), table, (*said, *sizes))
    return found


@dataclass(frozen=True)
class _Offer:
    """What one GPU lists; equal GPUs of many hosts share one answer."""

    name: str
    memory_mib: int | None
    driver_major: int | None
    profiles: tuple[ListedProfile, ...]
    placements: tuple[ListedPlacement, ...]


def _offer(gpu: GpuStatus, kinds: Iterable[ListedProfile], places: Iterable[ListedPlacement]) -> _Offer:
    own = tuple(replace(p, gpu=0, free=0) for p in kinds if p.gpu == gpu.index)
    starts = tuple(replace(p, gpu=0) for p in places if p.gpu == gpu.index)
    return _Offer(gpu.name, gpu.memory_mib, gpu.driver_major, own, starts)


@lru_cache(maxsize=256)
def _board(gpu: _Offer, table: Board | None) -> tuple[Board | None, tuple[str, ...]]:
    places = {p.profile_id: p for p in gpu.placements}
    placed = [p for p in gpu.profiles if p.id in places]
    if not placed:
        return table, ()
    profiles = [_profile(p, places[p.id], table) for p in placed]
    whole = max(profiles, key=lambda p: p.compute_slices)
    slices = max(s + p.memory_slices for p in profiles for s in p.starts)
    if table is None:
        board = Board(
            key=gpu.name.lower().replace(" ", "-"),
            title=gpu.name,
            architecture="unknown",
            memory_gb=None if gpu.memory_mib is None else round(gpu.memory_mib / 1024),
            memory_slices=slices,
            compute_slices=whole.compute_slices,
            profiles=tuple(profiles),
        )
        return board, (f"the catalogue does not know {gpu.name}; the host's own list of MIG profiles is used",)
    if table.named_profiles:
        board = replace(
            table,
            profiles=tuple(profiles),
            named_profiles=(),
            memory_slices=slices,
            compute_slices=whole.compute_slices,
        )
        return board, (f"the catalogue has no placements of {table.title}; the host's own list is used",)
    # what the loaded driver is too old for is not listed, and stays in the table: the reason then names the driver
    newer = [p for p in table.profiles if needs_newer(p, gpu.driver_major) and p.id not in places]
    board = replace(
        table, profiles=(*profiles, *newer), memory_slices=slices, compute_slices=whole.compute_slices, verified=True
    )
    return board, tuple(_differences(table, profiles, gpu.driver_major))


def _profile(listed: ListedProfile, place: ListedPlacement, table: Board | None) -> Profile:
    documented = _documented(listed, table)
    renamed = documented is not None and documented.name != listed.name
    return Profile(
        name=listed.name,
        id=listed.id,
        compute_slices=_compute_slices(listed.name),
        memory_slices=place.size,
        starts=tuple(sorted(place.starts)),
        max_instances=listed.total,
        engines=listed.engines,
        memory_gib=listed.memory_gib,
        vgpu_suffix=documented.vgpu_suffix if documented else None,
        aliases=(documented.name,) if documented and renamed else (),
    )


def _documented(listed: ListedProfile, table: Board | None) -> Profile | None:
    """Return the table's profile of that name, else the one whose id and kind say that only the name has drifted."""
    if table is None:
        return None
    named = table.find_profile(listed.name)
    if named is not None:
        return named
    same = table.find_profile(listed.id)
    return same if same is not None and _kind(same.name) == _kind(listed.name) else None


def _differences(table: Board, profiles: Sequence[Profile], driver_major: int | None) -> Iterator[str]:
    seen = set()
    for mine in profiles:
        documented = table.find_profile(mine.aliases[0]) if mine.aliases else table.find_profile(mine.name)
        if documented is None:
            yield f"the host lists {mine.name} (id {mine.id}), which the catalogue does not have for {table.key}"
            continue
        seen.add(documented.name)
        pairs = {
            "name": (mine.name, documented.name),
            "id": (mine.id, documented.id),
            "starts": (mine.starts, documented.starts),
            "memory slices": (mine.memory_slices, documented.memory_slices),
            "instances at most": (mine.max_instances, documented.max_instances),
        }
        for what, (here, there) in pairs.items():
            if here != there and here not in documented.aliases:
                yield f"{mine.name}: the host lists {what} {_said(here)}, the catalogue {_said(there)}"
    for each in table.profiles:
        if each.name not in seen and not needs_newer(each, driver_major):
            yield f"the host does not list {each.name} (id {each.id}), which the catalogue has for {table.key}"


def _odd_sizes(board: Board, present: Iterable[ListedInstance]) -> Iterator[str]:
    """Yield instances that take more or fewer memory slices than their profile: a listing that is not to be trusted."""
    for one in present:
        profile = board.find_profile(one.profile_name)
        if profile is not None and one.size != profile.memory_slices:
            takes = f"{profile.name} takes {counted(profile.memory_slices, 'memory slice')}"
            yield f"GPU instance {one.gi_id} is listed at {one.start}:{one.size}, but {takes}"


def _with_present(board: Board, present: Iterable[ListedInstance]) -> Board:
    """Return the board with profiles that are not listed, but have instances on the GPU."""
    unlisted: dict[str, list[ListedInstance]] = defaultdict(list)
    for one in present:
        if board.find_profile(one.profile_name) is None:
            unlisted[one.profile_name].append(one)
    if not unlisted:
        return board
    profiles = []
    for name, own in unlisted.items():
        starts = tuple(sorted({i.start for i in own}))
        number, size = own[-1].profile_id, own[-1].size
        profiles.append(Profile(name, number, _compute_slices(name), size, starts, len(starts), _NO_ENGINES))
    slices = max(s + p.memory_slices for p in profiles for s in p.starts)
    return replace(board, profiles=(*board.profiles, *profiles), memory_slices=max(board.memory_slices, slices))


def _alike(one: Profile, two: Profile) -> bool:
    return (_kind(one.name), one.memory_slices) == (_kind(two.name), two.memory_slices)


def _kind(name: str) -> tuple[int, str]:
    """Return the compute slices and the extra of a name: ``1g.5gb+me`` is (1, "+me")."""
    return _compute_slices(name), name.partition("gb")[2]


def _compute_slices(name: str) -> int:
    match = _SLICES.match(name)
    return int(match[1]) if match else 0


def _said(value: object) -> str:
    return ",".join(str(v) for v in value) if isinstance(value, tuple) else str(value)
