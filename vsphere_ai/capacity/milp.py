"""VMs on hosts as an integer programme: which host gets how many VMs of each class, and what its GPUs are filled with.

The solver's answer is not believed: a "fits" is built from combinations that GPUs were shown to take and counted again
in integers. A "no" is the solver's proof by branch and bound. All coefficients are integers below a hundred, all
variables integers of at most a few hundred, so that rows differ from their limits by whole numbers: the solver's
tolerance of 1e-6 is far below what could hide a VM.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from vsphere_ai.capacity.combinations import full_combinations
from vsphere_ai.capacity.gpu import GpuKind, GpuSlot, State, TimeSlicedState, Vector
from vsphere_ai.capacity.items import Division, VmClass, by_host
from vsphere_ai.gpu.vgpu import VgpuProfile

if TYPE_CHECKING:
    import highspy

MAX_NODES = 20_000
"""Branches of one programme before it gives up."""
MAX_SECONDS = 120.0
"""A net below that, for relaxations that are slow themselves; the programmes of the tests take less than two."""
# HiGHS 1.13 to 1.15.1: presolve calls feasible programmes infeasible (github.com/ERGO-Code/HiGHS, #3090 and #3296)
OPTIONS = {"output_flag": False, "threads": 1, "presolve": "off"}

Counts = Mapping[int, int]
"""Class (by number) -> how many of its VMs."""
_Terms = list[tuple[int, int]]
"""A row of the programme: (column, coefficient)."""


@dataclass(frozen=True)
class Fill:
    """GPUs of one host that are alike, and the columns that count how many get each combination of vGPUs."""

    slots: tuple[GpuSlot, ...]
    names: tuple[str, ...]
    columns: Mapping[int, Vector]


@dataclass(frozen=True)
class Solved:
    """How many VMs of each class every host gets, and how its GPUs hold them."""

    counts: Mapping[str, Counts]
    fills: Sequence[tuple[Fill, Mapping[Vector, int]]] = ()


class _Rows(defaultdict[tuple[str, str], _Terms]):
    """What is asked of the GPUs in one situation: (host, profile) -> the columns that take and those that give."""

    def __init__(self) -> None:
        super().__init__(list)


class Programme:
    """The programme of VMs that compete for GPUs; conditions can be added between two solutions.

    `certain` turns false once the solver gave up, `bent` true once solutions were ruled out that may do: then "none"
    proves nothing any more.
    """

    def __init__(self, classes: Sequence[VmClass], slots: Iterable[GpuSlot]) -> None:
        import highspy

        self.lib: Any = highspy
        self.model: highspy.Highs = self.lib.Highs()
        for option, value in {**OPTIONS, "time_limit": MAX_SECONDS}.items():
            self.model.setOptionValue(option, value)
        self.model.setOptionValue("mip_max_nodes", MAX_NODES)
        self.classes, self.slots = tuple(classes), by_host(slots)
        self.certain, self.bent = True, False
        self.width = 0
        self.at: dict[tuple[int, str], int] = {}
        now = _Rows()
        for number, each in enumerate(self.classes):  # row `number` counts the VMs of the class
            hosts = sorted(each.hosts & self.slots.keys())
            self.at.update(((number, h), self._column(len(each.vms))) for h in hosts)
            self._row([(self.at[number, h], 1) for h in hosts], len(each.vms), len(each.vms))
            _takes(now, each, {h: self.at[number, h] for h in hosts})
        self.fills = self._gpus(now, self.slots)

    def survive(self, lost: frozenset[str], running: Sequence[tuple[str, VmClass]]) -> None:
        """Ask that the VMs of lost hosts have room on others, GPUs being free to be filled anew.

        `running` are VMs that are no part of the classes, with the host they run on.
        """
        rows, rest = _Rows(), {h: own for h, own in self.slots.items() if h not in lost}
        for number, each in enumerate(self.classes):
            columns = {h: self._column(len(each.vms)) for h in sorted(each.hosts & rest.keys())}
            gone = [(self.at[number, h], -1) for h in sorted(each.hosts & lost & self.slots.keys())]
            self._row([(c, 1) for c in columns.values()] + gone, 0, 0)
            _takes(rows, each, columns)
            _takes(rows, each, {h: self.at[number, h] for h in columns})
        for home, each in running:
            if home in lost:
                columns = {h: self._column(len(each.vms)) for h in sorted(each.hosts & rest.keys())}
                self._row([(c, 1) for c in columns.values()], len(each.vms), len(each.vms))
                _takes(rows, each, columns)
        self._gpus(rows, rest)

    def claim(self, hosts: Iterable[str]) -> None:
        """Ask that the VMs of these hosts, of policy ``performance``, can give time-sliced GPUs the sizes they have.

        As long as a GPU is empty the next vGPU goes there: each VM opens as many GPUs as it has vGPUs, the last one all
        that are left. When none is left every GPU has its size, and other VMs come in any order.
        """
        chosen = frozenset(hosts)
        for fill in self.fills:
            kind, host = fill.slots[0].kind, fill.slots[0].host
            alone = all(s.kind is kind or not any(map(s.kind.takes, fill.names)) for s in self.slots[host])
            if fill.names and host in chosen and alone and fill.slots[0].state == TimeSlicedState():
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
            if (number, host) in self.at and own:
                here, every = self.at[number, host], len(each.vms)
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
        self.model.addVar(0, most)
        self.model.changeColIntegrality(self.width, self.lib.HighsVarType.kInteger)
        self.width += 1
        return self.width - 1

    def _row(self, terms: _Terms, least: float, most: float) -> None:
        columns = [column for column, _ in terms]
        self.model.addRow(least, most, len(terms), columns, [float(n) for _, n in terms])

    def _gpus(self, rows: _Rows, slots: Mapping[str, Sequence[GpuSlot]]) -> list[Fill]:
        """Add what the GPUs give: every one of them at most one of its full combinations."""
        fills = []
        wanted: dict[str, list[str]] = defaultdict(list)
        for host, profile in rows:
            wanted[host].append(profile)
        for host, names in wanted.items():
            alike: dict[tuple[GpuKind, State], list[GpuSlot]] = defaultdict(list)
            for slot in slots[host]:
                alike[slot.kind, slot.state].append(slot)
            for (kind, state), same in alike.items():
                taken = tuple(sorted(n for n in names if kind.takes(n)))
                full = full_combinations(kind, state, taken)
                fill = Fill(tuple(same), taken, {self._column(len(same)): v for v in full})
                self._row([(column, 1) for column in fill.columns], 0, len(same))
                for column, vector in fill.columns.items():
                    for name, n in zip(taken, vector, strict=True):
                        if n:
                            rows[host, name].append((column, n))
                fills.append(fill)
        for terms in rows.values():
            self._row(terms, 0, self.lib.kHighsInf)
        return fills

    def forbid(self, counts: Mapping[str, Counts], *, more: bool = False) -> None:
        """Rule out that every one of these hosts gets exactly so many VMs of each class; with `more`, or more of them.

        With `more` solutions are lost that may do, as what a host cannot power on it could with more VMs.
        """
        self.bent |= more
        other: _Terms = []
        for number, each in enumerate(self.classes):
            every = len(each.vms)
            for host in sorted(each.hosts & counts.keys() & self.slots.keys()):
                column, here = self.at[number, host], counts[host].get(number, 0)
                if here:  # when the switch is on, the host gets fewer
                    switch = self._column(1)
                    self._row([(column, 1), (switch, every - here + 1)], 0, every)
                    other.append((switch, 1))
                if here < every and not more:
                    switch = self._column(1)
                    self._row([(column, 1), (switch, -here - 1)], 0, every)
                    other.append((switch, 1))
        self._row(other, 1, self.lib.kHighsInf)

    def solve(self) -> Solved | None:
        """Return a solution; None when there is none or, no longer `certain`, none was found."""
        self.model.run()
        status = self.model.getModelStatus()
        if status == self.lib.HighsModelStatus.kInfeasible:
            return None
        if status != self.lib.HighsModelStatus.kOptimal:
            self.certain = False
            return None
        solved = self._solved()
        if _given(self.classes, solved)[1]:  # it does not add up: the solver's tolerances were too wide after all
            self.certain = False
            return None
        return solved

    def most(self) -> list[int]:
        """Return how many VMs of each class have room when as many as possible are to; nothing else can be asked after.

        Cut short, it may be fewer.
        """
        self.model.setOptionValue("mip_max_nodes", 100)
        self.model.changeObjectiveSense(self.lib.ObjSense.kMaximize)
        for column in self.at.values():
            self.model.changeColCost(column, 1.0)
        for number, each in enumerate(self.classes):
            self.model.changeRowBounds(number, 0, len(each.vms))
        self.model.run()
        placed = Counter[int]()
        if self.model.getInfo().primal_solution_status == self.lib.SolutionStatus.kSolutionStatusFeasible:
            for own in self._solved().counts.values():
                placed.update(own)
        return [placed[number] for number in range(len(self.classes))]

    def _solved(self) -> Solved:
        values = [round(v) for v in self.model.getSolution().col_value]
        counts: dict[str, dict[int, int]] = defaultdict(dict)
        for (number, host), column in self.at.items():
            if values[column]:
                counts[host][number] = values[column]
        fills = [(f, {v: values[column] for column, v in f.columns.items() if values[column]}) for f in self.fills]
        return Solved(dict(counts), fills)


def _size(kind: GpuKind, name: str) -> tuple[int, str]:
    """Return what the vGPUs of a time-sliced GPU have in common."""
    profile = cast("VgpuProfile", kind.takes(name))
    return profile.fb_gb, "" if kind.any_series else profile.series


def _takes(rows: _Rows, vms: VmClass, columns: Mapping[str, int]) -> None:
    """Note what VMs take of the GPUs of each host of which a column counts them."""
    for profile, times in Counter(vms.profiles).items():
        for host, column in columns.items():
            rows[host, profile].append((column, -times))


def vms_of(classes: Sequence[VmClass], solved: Solved) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the VMs of each host with their vGPUs."""
    waiting = [iter(c.vms) for c in classes]
    return {
        host: {next(waiting[number]): classes[number].profiles for number, n in own.items() for _ in range(n)}
        for host, own in solved.counts.items()
    }


def divided(classes: Sequence[VmClass], solved: Solved) -> Division:
    """Return which GPU gives which vGPU."""
    return _given(classes, solved)[0]


def _given(classes: Sequence[VmClass], solved: Solved) -> tuple[Division, int]:
    """Give out the vGPUs of GPUs one by one; return how many are left that no GPU gives as well."""
    owners: dict[tuple[str, str], list[str]] = defaultdict(list)
    for host, vms in vms_of(classes, solved).items():
        for vm, profiles in vms.items():
            for profile in profiles:
                owners[host, profile].append(vm)
    division: Division = {}
    for fill, chosen in solved.fills:
        vectors = (vector for vector, times in chosen.items() for _ in range(times))
        for slot, vector in zip(fill.slots, vectors, strict=False):
            waiting = [(name, owners[slot.host, name]) for name in fill.names]
            given = [(own.pop(), name) for (name, own), n in zip(waiting, vector, strict=True) for _ in range(n) if own]
            division[slot.host, slot.pci] = given
    missing = sum(len(c.vms) for c in classes) - sum(n for own in solved.counts.values() for n in own.values())
    return division, abs(missing) + sum(map(len, owners.values()))
