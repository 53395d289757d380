"""Defects that are planted in a farm: the truth that health checks, pre-flight and benchmarks are judged against."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from textwrap import wrap

from vsphere_ai.lab.hardware.pci_names import slot_of

KINDS: Mapping[str, tuple[str, ...]] = {
    "gpu-slow": ("host", "gpu", "vm", "factor"),
    "gpu-missing": ("vm",),
    "gpu-busy": ("vm",),
    "gpu-throttled": ("host", "gpu", "vm", "reason"),
    "gpu-pcie": ("host", "gpu", "vm", "factor"),
    "nvlink-slow": ("host", "gpu", "vm", "factor"),
    "ecc": ("host", "gpu", "vm", "count"),
    "remap-pending": ("host", "gpu", "vm"),
    "xid": ("host", "gpu", "vm", "number", "text", "seen", "hours"),
    "uplink-slow": ("host", "nic", "factor"),
    "rail-slow": ("host", "nic", "vm", "factor"),
    "rail-down": ("host", "nic", "vm"),
    "rail-flapping": ("host", "nic", "vm", "count"),
    "counter": ("host", "nic", "vm", "name", "rate"),
    "pair-slow": ("one", "other", "factor"),
    "mtu": ("vm", "nic", "mtu"),
    "path-mtu": ("vm", "mtu"),
    "clock": ("vm", "seconds"),
    "driver": ("vm", "version"),
    "package": ("vm", "name", "version"),
    "link-outage": ("host", "nic", "vm", "seconds", "count", "hours", "seen"),
    "log-line": ("vm", "text"),
    "gpu-replays": ("host", "gpu", "vm", "rate"),
    "dcgm": ("host", "gpu", "vm", "test", "result", "severity"),
    "host-log": ("host",),
    "host-clock": ("host", "seconds"),
    "gid": ("vm", "nic"),
    "rule-missing": ("vm", "nic"),
    "setting": ("vm", "name", "value"),
    "hot-add": ("vm",),
    "ats-off": ("host",),
    "wrong-function": ("vm", "nic"),
    "hang": ("vm", "command"),
    "flood": ("vm", "command"),
    "port-taken": ("vm", "port"),
    "port-rejected": ("vm", "port"),
    "login-refused": ("vm",),
    "file-missing": ("vm", "path"),
    "file-differs": ("vm", "path"),
    "pace": ("host", "vm", "factor", "vms"),
    "wrong-bit": ("host", "gpu", "vm", "count"),
    "loss-nan": ("vm", "count"),
    "process-left": ("vm",),
    "unreachable": ("vm", "other"),
}
"""What a defect of a kind may say beside it. `host`, `vm`, `one`, `other` are names or globs."""
NUMBERS = ("severity", "hours", "factor", "count", "number", "rate", "mtu", "seconds", "port", "vms")
_PLACES = ("host", "gpu", "nic", "vm")


@dataclass(frozen=True)
class Defect:
    """One defect: its kind, the place where it is (empty: everywhere), and its values."""

    kind: str
    given: Mapping[str, str | float]

    def text(self, name: str, default: str = "") -> str:
        """Return a value as a text."""
        return str(self.given.get(name, default))

    def number(self, name: str, default: float) -> float:
        """Return a value as a number."""
        return float(self.given.get(name, default))

    def is_at(self, **place: str) -> bool:
        """Return whether it is at a place: everything that it says of where it is has to fit."""
        said = {name: self.text(name) for name in _PLACES if name in self.given}
        return all(fnmatchcase(place.get(name, ""), glob) for name, glob in said.items())

    def is_between(self, one: str, other: str) -> bool:
        """Return whether a defect of a pair is between two hosts, or VMs."""
        a, b = self.text("one", "*"), self.text("other", "*")
        return any(fnmatchcase(x, a) and fnmatchcase(y, b) for x, y in ((one, other), (other, one)))


def read(given: object) -> tuple[Defect, ...]:
    """Return the defects of a list of mappings; `ValueError` with what is wrong."""
    if not isinstance(given, list):
        raise ValueError("'defects' must be a list of mappings such as {kind: gpu-slow, host: esx01*, factor: 0.75}")
    return tuple(_defect(each) for each in given)


def _defect(given: object) -> Defect:
    if not isinstance(given, dict) or given.get("kind") not in KINDS:
        said = f"there is no kind '{given['kind']}' of defect" if isinstance(given, dict) and "kind" in given else None
        kinds = "\n".join(wrap(f"the kinds are: {', '.join(KINDS)}", 76, break_on_hyphens=False))
        raise ValueError(f"{said or 'a defect is a mapping with a kind'}\n{kinds}")
    kind, rest = str(given["kind"]), {name: value for name, value in given.items() if name != "kind"}
    for name, value in rest.items():
        if name not in KINDS[kind]:
            raise ValueError(f"'{kind}' has no '{name}'; it may have: {', '.join(KINDS[kind])}")
        if name in NUMBERS and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise ValueError(f"'{name}' of '{kind}' must be a number")
    gpu = rest.get("gpu")
    return Defect(kind, {**rest, "gpu": slot_of(gpu) or gpu} if isinstance(gpu, str) else rest)


class Defects:
    """The defects of a farm, as they are now."""

    def __init__(self) -> None:
        self.every: tuple[Defect, ...] = ()
        self.changed: list[Callable[[], None]] = []
        """What puts back settings of VMs and hosts that defects have changed."""
        self.slowed: set[tuple[str, str]] = set()
        """Physical NICs whose speed a defect has changed, by host and name."""

    def set(self, every: Iterable[Defect]) -> None:
        """Replace all of them."""
        self.every = tuple(every)

    def of(self, kind: str, **place: str) -> Iterator[Defect]:
        """Yield the defects of a kind at a place."""
        return (d for d in self.every if d.kind == kind and d.is_at(**place))

    def first(self, kind: str, **place: str) -> Defect | None:
        """Return the first defect of a kind at a place."""
        return next(self.of(kind, **place), None)

    def factor(self, kind: str, **place: str) -> float:
        """Return by how much something is slower at a place: the product of the factors, 1 without a defect."""
        product = 1.0
        for each in self.of(kind, **place):
            product *= each.number("factor", 0.5)
        return product

    def between(self, one: str, other: str) -> float:
        """Return the factor of the connection of two hosts."""
        product = 1.0
        for each in self.every:
            if each.kind == "pair-slow" and each.is_between(one, other):
                product *= each.number("factor", 0.5)
        return product

    def as_json(self) -> list[dict[str, str | float]]:
        """Return them as they were given."""
        return [{"kind": d.kind, **d.given} for d in self.every]
