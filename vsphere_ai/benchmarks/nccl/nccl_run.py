"""Run of nccl-tests: its table, the header and footer around it, and what its log says of the transports."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from statistics import median

from vsphere_ai.benchmarks.nccl.collectives import TYPES, Collective, by_columns, of_program

_NUMBER = re.compile(r"[-+]?\d{1,19}(?:\.(\d{1,19}))?(?:[eE]([-+]?\d{1,3}))?")


@dataclass(frozen=True)
class RoundedNumber:
    """A number as it was printed: the true value lies within `half` of it."""

    value: float
    half: float = 0.0

    @property
    def low(self) -> float:
        """Smallest value that is printed like this."""
        return self.value - self.half

    @property
    def high(self) -> float:
        """Largest value that is printed like this."""
        return self.value + self.half


def printed(text: str) -> RoundedNumber | None:
    """Return a printed number with half a unit of its last digit; None of ``N/A``, ``nan``, ``inf`` and no number."""
    found = _NUMBER.fullmatch(text)
    if not found:
        return None
    value, exponent = float(text), int(found[2]) if found[2] else 0
    if value in (float("inf"), float("-inf")):
        return None
    return RoundedNumber(value, 0.5 * 10.0 ** (exponent - len(found[1] or "")))


@dataclass(frozen=True)
class NcclMeasurement:
    """One measurement: time in µs, algorithm and bus bandwidth in GB/s (10⁹ bytes per second).

    `wrong` is the number of wrong elements, in tables before August 2022 the largest difference; None: not validated.
    """

    time: RoundedNumber
    algbw: RoundedNumber
    busbw: RoundedNumber
    wrong: float | None = None


@dataclass(frozen=True)
class NcclRow:
    """A line of the table: `size` in bytes, `count` in elements; root -1 and redop ``none`` where there is none."""

    size: int
    count: int
    type: str
    redop: str = ""
    root: int | None = None
    out_of_place: NcclMeasurement | None = None
    in_place: NcclMeasurement | None = None

    @property
    def measures(self) -> tuple[NcclMeasurement, ...]:
        """The measurements of the line, out-of-place first."""
        return tuple(m for m in (self.out_of_place, self.in_place) if m)

    @property
    def busbw(self) -> float:
        """The better of its bus bandwidths, in GB/s; 0 without a measurement."""
        return max((m.busbw.value for m in self.measures), default=0.0)

    @property
    def scale(self) -> float | None:
        """Size over count × element size: 1, or the number of ranks; None where it cannot be said."""
        width = TYPES.get(self.type)
        return self.size / (self.count * width) if width and self.count else None


@dataclass(frozen=True)
class NcclDevice:
    """A GPU of a run, as a Rank line lists it."""

    rank: int
    host: str
    device: int
    pci: str = ""
    name: str = ""
    group: int = 0


TCP = ("socket", "sockets", "tcp")
"""Networks of NCCL and providers of libfabric that are TCP: NET/Socket, `tcp;ofi_rxm`, `sockets`."""


@dataclass
class NcclTransport:
    """What NCCL_DEBUG=INFO says of the way of the data.

    `channels` are counted by transport (``NET/IB/GDRDMA``, ``P2P``). `networks` are only listed: old versions list
    NET/Socket at each start. `chosen` is the network that NCCL takes, `provider` that of libfabric below it.
    """

    channels: Counter[str] = field(default_factory=Counter)
    networks: list[str] = field(default_factory=list)
    chosen: str = ""
    provider: str = ""
    no_rdma_device: bool = False
    gpudirect: Counter[str] = field(default_factory=Counter)

    @property
    def is_seen(self) -> bool:
        """Whether the log says anything of the network."""
        return bool(self.channels or self.networks or self.gpudirect or self.no_rdma_device or self.chosen)

    @property
    def between_nodes(self) -> Counter[str]:
        """Channels that leave their node."""
        return Counter({name: count for name, count in self.channels.items() if "NET/" in name})

    @property
    def tcp(self) -> str:
        """The name of TCP as the log has it, where data between nodes goes that way; channels decide, if any."""
        if names := [name.split("/")[1] for name in self.between_nodes]:
            return next((name for name in names if self._is_tcp(name)), "")
        return "" if self.channels and not self.chosen else self._listed()

    def _listed(self) -> str:
        if self.chosen:
            return self.chosen if self._is_tcp(self.chosen) else ""
        return "Socket" if self.no_rdma_device else ""

    def _is_tcp(self, name: str) -> bool:
        below = self.provider if "fabric" in name.lower() or name.upper() == "OFI" else name
        return below.lower().partition(";")[0] in TCP


@dataclass
class NcclRun:
    """One run of a program of nccl-tests; filled by the readers. None and empty: the text does not say it.

    `columns` are the names of the table's columns, `header` the settings of the nThread line, `average` the average
    bus bandwidth over all sizes (GB/s), `average_ok` and `bounds_ok` nccl-tests' own verdicts. `headers` and `tables`
    count nThread lines and heads of the table, `unread` rows that could not be read, `dropped` rows that are not kept.
    """

    program: str = ""
    tests_version: str = ""
    nccl_version: str = ""
    header: dict[str, int] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    devices: list[NcclDevice] = field(default_factory=list)
    rows: list[NcclRow] = field(default_factory=list)
    out_of_bounds: int | None = None
    bounds_ok: bool | None = None
    average: RoundedNumber | None = None
    average_ok: bool | None = None
    concluded: bool = False
    headers: int = 0
    tables: int = 0
    unread: int = 0
    dropped: int = 0
    transport: NcclTransport = field(default_factory=NcclTransport)
    warnings: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def is_of_one_node(self) -> bool:
        """Whether every rank is listed, all on one host: the network that NCCL chose carries nothing."""
        if self.declared_ranks is None:
            return False
        ranks = {(d.group, d.rank) for d in self.devices}
        is_whole = len(ranks) == self.declared_ranks * self.groups
        return is_whole and len({d.host for d in self.devices}) == 1

    @property
    def is_log_alone(self) -> bool:
        """Whether nothing of it is of nccl-tests: warnings of NCCL, which any program that uses it prints."""
        return not (self.headers or self.tables or self.devices or self.rows or self.failures or self.program)

    @property
    def has_differences(self) -> bool:
        """Whether the last column is the largest difference, not the number of wrong elements."""
        return "error" in self.columns

    @property
    def is_cpu_time(self) -> bool:
        """Whether the time is the CPU's (-C 1), from which bandwidth does not follow."""
        return "cputime" in self.columns

    @property
    def groups(self) -> int:
        """Number of groups that NCCL_TESTS_SPLIT makes; 1 without it."""
        return max(1, len({d.group for d in self.devices}))

    @property
    def declared_ranks(self) -> int | None:
        """Ranks of a group by the Rank lines; lines that were cut out are counted by the highest rank."""
        if not self.devices:
            return None
        total = max(d.rank for d in self.devices) + 1
        return total // self.groups if total % self.groups == 0 else None

    @property
    def collectives(self) -> tuple[Collective, ...]:
        """The collective by the program's name, or those whose columns look like this table's."""
        named = of_program(self.program) if self.program else None
        if named:
            return (named,)
        row = next((r for r in reversed(self.rows) if r.scale), None)
        if row is None:
            return ()
        redop = row.redop not in ("", "none")
        return by_columns(redop=redop, root=row.root not in (None, -1), whole=bool(row.scale and row.scale > 1.001))

    @property
    def collective(self) -> Collective | None:
        """The collective; the first of several with one formula, None where the formula is not known."""
        found = self.collectives
        return found[0] if len({id(c.family) for c in found}) == 1 else None

    @property
    def largest(self) -> int | None:
        """The largest size in bytes that was measured."""
        return max((r.size for r in self.rows if r.measures), default=None)

    @property
    def peak(self) -> float | None:
        """Bus bandwidth (GB/s) at the largest size, the median where it was measured several times.

        The average of the footer is over all sizes: small ones pull it down, and it hides a slow large one.
        """
        found = [r.busbw for r in self.rows if r.measures and r.size == self.largest]
        return median(found) if found else None
