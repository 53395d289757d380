"""Answers of NCCL's RAS, which knows all ranks of a running job: communicators, their ranks, and who does not answer.

Source: NVIDIA/nccl, docs/userguide/source/troubleshooting/ras.rst and src/ras/client_support.cc (2.24 to 2.31). From
2.28.7 on it answers in JSON, before that in a table, which lists only the ranks that differ from most others.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, ValidationError

PORT = 28028
"""TCP port on each node of a job, on localhost only; the variable NCCL_RAS_ADDR changes it."""
_COMMUNICATOR = re.compile(r"#\d+-\d+ \(([0-9a-f]+)\) ([A-Z]+)")
_OPERATION = re.compile(r"Communicator ranks have different (\w+) operation counts")
_GROUP = re.compile(r"(\d+) ranks (?:have launched up to operation (\d+)|have not launched any operations)")
_ONE = re.compile(r"Rank (\d+) (?:has launched up to operation (\d+)|has not launched any operations)")
_PLACE = re.compile(r"GPU ([\d,]+)(?: \(NVML ([\d,]+)\))? managed by process (\d+) on node (\S+)")
_RANK = re.compile(r"Rank (\d+) -- ")
_PROCESS = re.compile(r"Process (\d+) on node (\S+) managing GPUs? ([\d,]+)(?: \(NVML ([\d,]+)\))?")
_MISSING = re.compile(r"The missing ranks?: ([\d, ]+)")


@dataclass(frozen=True)
class RankProcess:
    """Where a rank runs: the address of its node, its process there, and the GPU as NVML counts them (-1: unknown)."""

    host: str
    pid: int
    gpu: int = -1


@dataclass(frozen=True)
class RankState:
    """A rank of a communicator: how many collectives of each kind it started, and its error (0: none, 7: starting)."""

    rank: int
    process: RankProcess | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    error: int = 0


@dataclass(frozen=True)
class Communicator:
    """A communicator. `ranks` are those known one by one; `most` is how many collectives the foremost rank started.

    `missing` did not answer; `unlisted` is how many ranks are behind that the table does not name.
    """

    id: str
    size: int = 0
    ranks: tuple[RankState, ...] = ()
    missing: tuple[RankState, ...] = ()
    most: Mapping[str, int] = field(default_factory=dict)
    unlisted: int = 0

    def behind(self) -> tuple[tuple[RankState, int], ...]:
        """Return the ranks that started the fewest collectives, with how many fewer; none where all are level."""
        late = [(r, sum(max(0, most - r.counts.get(op, most)) for op, most in self.most.items())) for r in self.ranks]
        worst = max((number for _, number in late), default=0)
        return tuple((rank, number) for rank, number in late if number == worst) if worst else ()


@dataclass(frozen=True)
class RasAnswer:
    """What NCCL answered. `dead` are processes that it has given up; `whole` whether it lists every rank."""

    communicators: tuple[Communicator, ...] = ()
    unresponsive: tuple[RankProcess, ...] = ()
    dead: tuple[RankProcess, ...] = ()
    version: str = ""
    whole: bool = False

    def processes(self) -> Iterator[RankProcess]:
        """Yield the processes that it names."""
        for each in self.communicators:
            yield from (r.process for r in (*each.ranks, *each.missing) if r.process)
        yield from (*self.unresponsive, *self.dead)


def read_answer(text: str) -> RasAnswer | None:
    """Return what an answer says, in JSON or as a table; None for a text that is neither."""
    at = text.find("{")
    if at >= 0 and '"communicators"' in text:
        try:
            return _of_json(_RasDocument.model_validate_json(text[at:]))
        except ValidationError:
            return None
    return _of_table(text.splitlines()) if "Communicators..." in text or "Job summary" in text else None


class _RasPart(BaseModel):
    model_config = ConfigDict(defer_build=True, frozen=True, extra="ignore")


class _Status(_RasPart):
    init_state: int = 0
    async_error: int = 0
    unresponsive: bool = False
    considered_dead: bool = False


class _Rank(_RasPart):
    rank: int
    host: str = ""
    pid: int = -1
    cuda_dev: int = -1
    nvml_dev: int = -1
    status: _Status = _Status()
    collective_counts: dict[str, int] = {}

    def state(self) -> RankState:
        gpu = self.nvml_dev if self.nvml_dev >= 0 else self.cuda_dev
        error = self.status.async_error or self.status.init_state
        return RankState(self.rank, RankProcess(self.host, self.pid, gpu), self.collective_counts, error)


class _Communicator(_RasPart):
    hash: str
    secondary_hash: str = ""
    size: int = 0
    ranks: tuple[_Rank, ...] = ()
    missing_ranks: tuple[_Rank, ...] = ()


class _RasDocument(_RasPart):
    nccl_version: str = ""
    communicators: tuple[_Communicator, ...] = ()


def _of_json(document: _RasDocument) -> RasAnswer:
    found, silent, dead = [], [], []
    for each in document.communicators:
        ranks = tuple(r.state() for r in each.ranks)
        most: dict[str, int] = {}
        for state in ranks:
            for op, number in state.counts.items():
                most[op] = max(number, most.get(op, number))
        gone = [r for r in each.missing_ranks if r.status.unresponsive or r.status.considered_dead]
        missing = tuple(r.state() for r in gone)
        silent += [s.process for s, r in zip(missing, gone, strict=True) if s.process]
        dead += [s.process for s, r in zip(missing, gone, strict=True) if s.process and r.status.considered_dead]
        found.append(Communicator(f"{each.hash} {each.secondary_hash}", each.size, ranks, missing, most))
    return RasAnswer(tuple(found), _once(silent), _once(dead), document.nccl_version, whole=True)


def _once(processes: Sequence[RankProcess]) -> tuple[RankProcess, ...]:
    return tuple(dict.fromkeys(processes))


def _of_table(lines: Sequence[str]) -> RasAnswer:
    """Read the parts on errors and warnings: a job without a difference between its ranks has none."""
    silent: list[RankProcess] = []
    dead: list[RankProcess] = []
    in_dead = False
    parts: dict[str, list[str]] = defaultdict(list)
    current = ""
    for line in (each.strip() for each in lines):
        title = _COMMUNICATOR.fullmatch(line)
        if title or (line.isupper() and line.isalpha()):
            current, in_dead = title[1] if title else "", line == "DEAD"
            continue
        if current:
            parts[current].append(line)
        elif process := _PROCESS.match(line):
            (dead if in_dead else silent).append(_process(process[2], process[1], process[4] or process[3]))
    version = next((m[1] for line in lines if (m := re.search(r"NCCL version (\S+)", line))), "")
    found = tuple(_of_lines(name, own) for name, own in parts.items())
    return RasAnswer(found, _once([*silent, *dead]), _once(dead), version)


def _process(host: str, pid: str, gpus: str) -> RankProcess:
    return RankProcess(host, int(pid), int(gpus.partition(",")[0] or -1))


def _launched(text: str | None) -> int:
    """Return a count of operations; NCCL writes ``not launched any operations`` for none."""
    return int(text) if text is not None else 0


def _of_lines(name: str, lines: Sequence[str]) -> Communicator:
    """Return a communicator from the lines below its title: groups of ranks, each with its count, and single ranks."""
    counts: dict[int, dict[str, int]] = defaultdict(dict)
    places: dict[int, RankProcess] = {}
    groups: list[tuple[str, int, int]] = []
    missing: list[int] = []
    op, count = "", 0
    for line in lines:
        if found := _OPERATION.match(line):
            op, count = "" if found[1] == "collective" else found[1], 0
        elif found := _GROUP.match(line):
            count = _launched(found[2])
            groups.append((op, count, int(found[1])))
        elif found := _ONE.match(line):
            counts[int(found[1])][op] = _launched(found[2])
            groups.append((op, _launched(found[2]), 1))
        elif groups and (found := _RANK.match(line)):
            counts[int(found[1])][op] = count
        elif found := _MISSING.match(line):
            missing += [int(each) for each in found[1].replace(",", " ").split()]
        rank, place = re.match(r"Rank (\d+) ", line), _PLACE.search(line)
        if rank and place:
            places[int(rank[1])] = _process(place[4], place[3], place[2] or place[1])
    most: dict[str, int] = {}
    for each, number, _ in groups:
        most[each] = max(number, most.get(each, number))
    listed = [(o, c) for own in counts.values() for o, c in own.items()]
    unlisted = sum(n for o, c, n in groups if c < most[o] and (o, c) not in listed)
    ranks = tuple(RankState(rank, places.get(rank), own) for rank, own in sorted(counts.items()))
    return Communicator(name, 0, ranks, tuple(RankState(r, places.get(r)) for r in missing), most, unlisted)
