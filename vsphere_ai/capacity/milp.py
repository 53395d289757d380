"""Integer programme of VMs on hosts: how many VMs of each class a host gets, and what its GPUs are filled with. Pure.

The solver's answer is checked: a "fits" is built from combinations that GPUs were shown to take and counted again in
integers; a "does not fit" is the solver's proof by branch and bound, confirmed by a second programme that places as
many VMs as it can. All coefficients are integers below a hundred, all variables integers of at most the number of
VMs, so that rows differ from their limits by whole numbers: the solver's tolerance of 1e-6 is far below what could
hide a VM.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from vsphere_ai.capacity.items import Division, Profiles, VmClass
from vsphere_ai.gpu.vgpus.combinations import full_combinations
from vsphere_ai.gpu.vgpus.slot import GpuKind, GpuSlot, State, TimeSlicedState, Vector
from vsphere_ai.gpu.vgpus.vgpu import VgpuProfile

if TYPE_CHECKING:
    import highspy

MAX_NODES = 20_000
"""Branches of one programme before it gives up."""
MAX_SECONDS = 120.0
"""Time limit of one programme, for relaxations that are slow themselves; those of the tests take less than two."""
COUNT_NODES = 100
"""Branches of the programme that places as many VMs as it can."""
# HiGHS 1.13 to 1.15.1: presolve calls feasible programmes infeasible (github.com/ERGO-Code/HiGHS, #3090 and #3296).
# The feasibility jump takes milliseconds, longer than most of these programmes take in all.
OPTIONS: dict[str, bool | float | str] = {"output_flag": False, "threads": 1, "parallel": "off", "presolve": "off"}
OPTIONS["mip_heuristic_run_feasibility_jump"] = False

Counts = Mapping[int, int]
"""Class (by number) -> how many of its VMs."""
Loss = frozenset[str]
"""Hosts that fail together."""
NO_LOSS: Loss = frozenset()
Load = Counter[Profiles]
"""How many VMs with the same vGPUs."""
_Terms = list[tuple[int, int]]
"""A row of the programme: (column, coefficient)."""
_Rows = defaultdict[tuple[str, str], _Terms]
"""The demand on GPUs in one situation: (place, profile) -> the columns that take and those that give."""


class FreshGpu(NamedTuple):
    """A GPU in a state that it is not in yet."""

    host: str
    pci: str
    kind: GpuKind
    state: State


@dataclass(frozen=True)
class Fill:
    """GPUs of one place that are alike, and the columns that count how many get each combination of vGPUs."""

    place: str
    slots: tuple[GpuSlot | FreshGpu, ...]
    names: tuple[str, ...]
    columns: Mapping[int, Vector]


@dataclass(frozen=True)
class Solved:
    """How many VMs of each class every place gets, and how its GPUs hold them.

    `loads` has the VMs of a host by their profiles, those that come to it after a loss included.
    """

    counts: Mapping[str, Counts]
    fills: Sequence[tuple[Fill, Mapping[Vector, int]]] = ()
    loads: Mapping[str, Mapping[Loss, Load]] = field(default_factory=dict)


@cache
def _silent() -> type[highspy.Highs]:
    """Return the class of HiGHS models whose constructor prints no banner, as that of HiGHS 1.16 does."""
    import highspy

    class Silent(highspy.Highs):
        def enableCallbacks(self) -> None:  # noqa: N802
            self.silent()  # options can be set before this, but only the constructor comes earlier
            super().enableCallbacks()  # type: ignore[no-untyped-call]

    return Silent


class Programme:
    """The programme of VMs that compete for GPUs; conditions can be added between two solutions.

    A place is a host. With `pooled` it is all hosts that the same VMs may run on, so that there are few columns: for
    VMs with one vGPU that is the same question, VMs with several may get theirs from several hosts of the place.

    `certain` becomes false once the solver gave up: then "none" proves nothing any more.
    """

    def __init__(
        self, classes: Sequence[VmClass], slots: Iterable[GpuSlot | FreshGpu], *, pooled: bool = False
    ) -> None:
        import highspy

        self.lib: Any = highspy
        self.model: highspy.Highs = _silent()()
        for option, value in {**OPTIONS, "time_limit": MAX_SECONDS, "mip_max_nodes": MAX_NODES}.items():
            self.model.setOptionValue(option, value)
        self.classes = tuple(classes)
        self.slots: dict[str, list[GpuSlot | FreshGpu]] = defaultdict(list)
        gpus = tuple(slots)
        place = _pools(self.classes, gpus) if pooled else {s.host: s.host for s in gpus}
        for slot in gpus:
            self.slots[place[slot.host]].append(slot)
        self.certain = True
        self.situations = 1  # with no host lost, and one for each loss
        self.most_of: list[int] = []  # of each column
        self.at: dict[tuple[str, Loss], dict[int, int]] = defaultdict(dict)  # (place, loss) -> class -> column
        self.every = list(classes)  # and the VMs that run, once they may have to restart
        now = _Rows(list)
        for number, each in enumerate(self.classes):  # row `number` counts the VMs of the class
            self._places(now, number, sorted({place[h] for h in each.hosts & place.keys()}))
        self.fills = self._gpus(now, self.slots)

    def _places(self, rows: _Rows, number: int, places: Iterable[str], lost: Loss = NO_LOSS) -> None:
        """Ask that the VMs of a class have a place; after a loss, those of the class that were on the lost hosts."""
        each = self.every[number]
        columns = {p: self._column(len(each.vms)) for p in places}
        for place, column in columns.items():
            self.at[place, lost][number] = column
        gone = [(self.at[h, NO_LOSS][number], -1) for h in sorted(lost) if number in self.at[h, NO_LOSS]]
        wanted = 0 if lost and number < len(self.classes) else len(each.vms)
        self._row([*((c, 1) for c in columns.values()), *gone], wanted, wanted)
        _takes(rows, each, columns)

    def survive(self, lost: Loss, running: Sequence[tuple[str, VmClass]]) -> None:
        """Ask that the VMs of lost hosts have room on others, GPUs being free to be filled anew.

        `running` are VMs that are no part of the classes, with the host they run on.
        """
        self.situations += 1
        rows, rest = _Rows(list), {h: own for h, own in self.slots.items() if h not in lost}
        self.every[len(self.classes) :] = [each for _, each in running]
        for number, each in enumerate(self.classes):
            _takes(rows, each, {h: self.at[h, NO_LOSS][number] for h in rest if number in self.at[h, NO_LOSS]})
        homeless = [number for number, (home, _) in enumerate(running, len(self.classes)) if home in lost]
        for number in (*range(len(self.classes)), *homeless):
            self._places(rows, number, sorted(self.every[number].hosts & rest.keys()), lost)
        self._gpus(rows, rest)

    def claim(self, hosts: Iterable[str]) -> None:
        """Ask that the VMs of these hosts, of policy ``performance``, can give time-sliced GPUs the sizes they have.

        As long as a GPU is empty the next vGPU goes there: each VM opens as many GPUs as it has vGPUs, the last one all
        that are left. When none is left every GPU has its size, and other VMs come in any order.
        """
        chosen = frozenset(hosts)
        for fill in self.fills:
            kind, host = fill.slots[0].kind, fill.place
            alone = all(s.kind is kind or not any(map(s.kind.takes, fill.names)) for s in self.slots[host])
            if host in chosen and alone and fill.slots[0].state == TimeSlicedState():
                self._claimed(fill, host)

    def _claimed(self, fill: Fill, host: str) -> None:
        kind, gpus, no_limit = fill.slots[0].kind, len(fill.slots), self.lib.kHighsInf
        size = {name: _size(kind, name) for name in fill.names}
        opened: dict[tuple[int, str], _Terms] = defaultdict(list)  # by size: what opens GPUs, and those opened
        beyond: dict[tuple[int, str], _Terms] = defaultdict(list)
        last_one: _Terms = []
        fewer: _Terms = []
        none_left = self._column(1)
        for number, each in enumerate(self.classes):
            own = [size[name] for name in each.profiles if name in size]
            if number in self.at[host, NO_LOSS] and own:
                here, every = self.at[host, NO_LOSS][number], len(each.vms)
                early, last = self._column(every), self._column(1)
                self._row([(here, 1), (early, -1), (last, -1)], 0, every)
                self._row([(here, 1), (early, -1), (none_left, -every)], -every, 0)
                last_one.append((last, 1))
                fewer.append((last, 1 - len(own)))
                for a_size, times in Counter(own).items():
                    opened[a_size].append((early, times))
                    beyond[a_size].append((last, -times))
        for column, vector in fill.columns.items():
            name = fill.names[next(at for at, n in enumerate(vector) if n)]
            opened[size[name]].append((column, -1))
        for a_size, terms in opened.items():
            part = self._column(gpus)  # of the last VM
            self._row([*terms, (part, 1)], 0, 0)
            self._row([(part, 1), *beyond[a_size]], -no_limit, 0)
            fewer.append((part, 1))
        self._row(last_one, 0, 1)
        self._row(fewer, -no_limit, 0)
        self._row([*((column, 1) for column in fill.columns), (none_left, -gpus)], 0, no_limit)

    def _column(self, most: int) -> int:
        column = len(self.most_of)
        self.model.addVar(0, most)
        self.model.changeColIntegrality(column, self.lib.HighsVarType.kInteger)
        self.most_of.append(most)
        return column

    def _row(self, terms: _Terms, least: float, most: float) -> None:
        columns = [column for column, _ in terms]
        self.model.addRow(least, most, len(terms), columns, [float(n) for _, n in terms])

    def _gpus(self, rows: _Rows, slots: Mapping[str, Sequence[GpuSlot | FreshGpu]]) -> list[Fill]:
        """Add what the GPUs give: every one of them at most one of its full combinations."""
        fills = []
        wanted: dict[str, list[str]] = defaultdict(list)
        for place, profile in rows:
            wanted[place].append(profile)
        for place, names in wanted.items():
            for (kind, state), same in alike(slots[place]).items():
                taken = tuple(sorted(n for n in names if kind.takes(n)))
                if not taken:
                    continue
                full = full_combinations(kind, state, taken)
                fill = Fill(place, tuple(same), taken, {self._column(len(same)): v for v in full})
                self._row([(column, 1) for column in fill.columns], 0, len(same))
                for column, vector in fill.columns.items():
                    for name, n in zip(taken, vector, strict=True):
                        if n:
                            rows[place, name].append((column, n))
                fills.append(fill)
        for terms in rows.values():
            self._row(terms, 0, self.lib.kHighsInf)
        return fills

    def forbid(self, host: str, loads: Mapping[frozenset[Loss], Load]) -> None:
        """Rule out that a host gets exactly so many VMs of each profiles, in each of some situations together.

        A situation is what the host gets when no host is lost (`NO_LOSS`), after a loss, or both.
        """
        other: _Terms = []
        for losses, wanted in loads.items():
            columns: dict[Profiles, list[int]] = defaultdict(list)
            for lost in losses:
                for number, column in self.at[host, lost].items():
                    columns[self.every[number].profiles].append(column)
            if not wanted.keys() <= columns.keys():
                return  # these VMs never come together there
            for profiles, own in columns.items():
                every, here = sum(self.most_of[c] for c in own), wanted[profiles]
                fewer, more = [every - here + 1] * (here > 0), [-here - 1] * (here < every)
                for enough in (*fewer, *more):  # when the switch is on, the host gets fewer, or more
                    switch = self._column(1)
                    self._row([*((c, 1) for c in own), (switch, enough)], 0, every)
                    other.append((switch, 1))
        self._row(other, 1, self.lib.kHighsInf)

    def solve(self) -> Solved | None:
        """Return a solution; None when there is none or, no longer `certain`, none was found."""
        self.model.run()
        status = self.model.getModelStatus()
        if status == self.lib.HighsModelStatus.kInfeasible:
            return None
        if status == self.lib.HighsModelStatus.kOptimal:
            solved = self._solved()
            if not _given(self.classes, solved)[1]:
                return solved
        self.certain = False  # a limit was reached, or it does not add up: the solver's tolerances were too wide
        return None

    def most(self) -> Solved:
        """Return a solution that leaves VMs over, as few as possible; nothing else can be asked afterwards.

        Cut short, it leaves over more than necessary; without any solution, all.
        """
        self.model.setOptionValue("mip_max_nodes", COUNT_NODES)
        self.model.changeObjectiveSense(self.lib.ObjSense.kMaximize)
        for (_, lost), columns in self.at.items():
            for column in columns.values() if not lost else ():
                self.model.changeColCost(column, 1.0)
        for number, each in enumerate(self.classes):
            self.model.changeRowBounds(number, 0, len(each.vms))
        self.model.run()
        found = self.model.getInfo().primal_solution_status == self.lib.SolutionStatus.kSolutionStatusFeasible
        return self._solved() if found else Solved({})

    def _solved(self) -> Solved:
        values = [round(v) for v in self.model.getSolution().col_value]
        counts: dict[str, dict[int, int]] = defaultdict(dict)
        loads: dict[str, dict[Loss, Load]] = {place: {NO_LOSS: Load()} for place in self.slots}
        for (place, lost), columns in self.at.items():
            for number, column in columns.items():
                if values[column]:
                    loads[place].setdefault(lost, Load())[self.every[number].profiles] += values[column]
                    if not lost:
                        counts[place][number] = values[column]
        fills = [(f, {v: values[column] for column, v in f.columns.items() if values[column]}) for f in self.fills]
        return Solved(dict(counts), fills, loads)


def alike(slots: Iterable[GpuSlot | FreshGpu]) -> dict[tuple[GpuKind, State], list[GpuSlot | FreshGpu]]:
    """Return GPUs by what decides what they take."""
    found: dict[tuple[GpuKind, State], list[GpuSlot | FreshGpu]] = defaultdict(list)
    for slot in slots:
        found[slot.kind, slot.state].append(slot)
    return found


def _pools(classes: Iterable[VmClass], slots: Iterable[GpuSlot | FreshGpu]) -> dict[str, str]:
    """Return host -> the host that stands for all on which the same VMs may run."""
    sets = tuple(dict.fromkeys(c.hosts for c in classes))
    first: dict[tuple[bool, ...], str] = {}
    names = dict.fromkeys(s.host for s in slots)
    return {name: first.setdefault(tuple(name in hosts for hosts in sets), name) for name in names}


def _size(kind: GpuKind, name: str) -> tuple[int, str]:
    """Return what the vGPUs of a time-sliced GPU have in common."""
    profile = cast("VgpuProfile", kind.takes(name))
    return profile.fb_gb, "" if kind.sharing.any_series else profile.series


def _takes(rows: _Rows, vms: VmClass, columns: Mapping[str, int]) -> None:
    """Note what VMs take of the GPUs of each place of which a column counts them."""
    for profile, times in Counter(vms.profiles).items():
        for place, column in columns.items():
            rows[place, profile].append((column, -times))


def vms_of(classes: Sequence[VmClass], solved: Solved) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the VMs of each place with their vGPUs."""
    waiting = [iter(c.vms) for c in classes]
    return {
        place: {next(waiting[number]): classes[number].profiles for number, n in own.items() for _ in range(n)}
        for place, own in solved.counts.items()
    }


def left_over(classes: Sequence[VmClass], solved: Solved) -> tuple[int, ...]:
    """Return how many VMs of each class a solution leaves over."""
    placed = Counter[int]()
    for own in solved.counts.values():
        placed.update(own)
    return tuple(len(each.vms) - placed[number] for number, each in enumerate(classes))


def divided(classes: Sequence[VmClass], solved: Solved) -> Division:
    """Return which GPU gives which vGPU."""
    return _given(classes, solved)[0]


def _given(classes: Sequence[VmClass], solved: Solved) -> tuple[Division, int]:
    """Give out the vGPUs of GPUs one by one; return how many VMs and vGPUs are left that no GPU serves as well."""
    owners: dict[tuple[str, str], list[str]] = defaultdict(list)
    for place, vms in vms_of(classes, solved).items():
        for vm, profiles in vms.items():
            for profile in profiles:
                owners[place, profile].append(vm)
    division: Division = {}
    for fill, chosen in solved.fills:
        vectors = (vector for vector, times in chosen.items() for _ in range(times))
        for slot, vector in zip(fill.slots, vectors, strict=False):
            waiting = [(name, owners[fill.place, name]) for name in fill.names]
            given = [(own.pop(), name) for (name, own), n in zip(waiting, vector, strict=True) for _ in range(n) if own]
            division[slot.host, slot.pci] = given
    return division, sum(map(abs, left_over(classes, solved))) + sum(map(len, owners.values()))
