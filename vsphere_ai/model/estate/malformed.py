"""Values that are not as vSphere defines them: found where reading them fails, left out of the facts, and named.

vCenter may send an object without a field that its type requires, or with one of an unexpected shape. Whatever reads
facts then raises. `evaluate` finds the value that is to blame, takes it for one that cannot be read, and goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import NamedTuple, TypeVar

from vsphere_ai.model.estate.observed import Layered, Logged
from vsphere_ai.model.facts import MALFORMED, Estate, Facts, ProbeFailure

T = TypeVar("T")
LOG = logging.getLogger("vsphere_ai.model.estate.malformed")
"""Gets, at level DEBUG, the exception with its traceback behind every value that is left out."""
ERRORS = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""What reading a value of an unexpected shape raises."""
PROBE = "probe:"
MOST = 200
"""So many values are left out of one reading; beyond that the fault is not in single objects."""
NEAREST = 60
"""So many values, the last ones that were read before the exception, are tried out as its cause."""
FRAMES = 4


class ValueRead(NamedTuple):
    """A value that was read: reference of the object, and property path or ``probe:NAME``."""

    ref: str
    path: str


@dataclass(frozen=True)
class OmittedValue:
    """A value that was left out: of which object, where, and why."""

    facts: Facts
    path: str
    reason: str

    @property
    def read(self) -> ValueRead:
        """What has to be read to need it."""
        return ValueRead(self.facts.ref, self.path)


def marks(estate: Estate) -> tuple[OmittedValue, ...]:
    """Return the values that were left out."""
    return tuple(mark for facts in estate.objects.values() if facts.unreadable for mark in marks_of(facts))


def marks_of(facts: Facts) -> tuple[OmittedValue, ...]:
    """Return the values of one object that were left out."""
    return tuple(OmittedValue(facts, path, why) for path, why in facts.unreadable.items() if why.startswith(MALFORMED))


def evaluate(estate: Estate, use: Callable[[Estate], T]) -> tuple[T, Estate]:
    """Return what `use`, a pure function, makes of an estate, and the estate without the values it cannot read.

    An exception that no value explains is a fault of the program, and raised.
    """
    for _ in range(MOST):
        try:
            return use(estate), estate
        except ERRORS as error:
            found = _culprit(estate, use)
            if found is None:
                raise
            LOG.debug("%s: %s: %s", estate[found.ref].name, found.path, said(error), exc_info=error)
            estate = without(estate, found, f"{MALFORMED}: {said(error)}")
    return use(estate), estate


def without(estate: Estate, read: ValueRead, reason: str) -> Estate:
    """Return the estate with one value taken for unreadable."""
    facts = estate[read.ref]
    unreadable = {**facts.unreadable, read.path: reason}
    if read.path.startswith(PROBE):
        failure = ProbeFailure("ssh.malformed", reason, "run the command on the host and look at its output")
        probes = {**facts.probes, read.path.removeprefix(PROBE): failure}
        facts = replace(facts, probes=probes, unreadable=unreadable)
    else:
        kept = {path: value for path, value in facts.properties.items() if path != read.path}
        facts = replace(facts, properties=kept, unreadable=unreadable)
    return estate.with_objects((facts,))


def said(error: BaseException) -> str:
    """Return in a line what an exception says of the value: its class, and the field."""
    name = type(error).__name__
    if isinstance(error, KeyError):
        return f"it lacks {error.args[0]!r} ({name})" if error.args else name
    faults = getattr(error, "errors", None)
    if callable(faults):  # pydantic's
        fault = faults(include_url=False)[0]
        return f"{'.'.join(map(str, fault['loc']))}: {fault['msg']} ({name})"
    return f"{' '.join(str(error).split()) or 'it cannot be read'} ({name})"


# -- what was read


class _Objects(Mapping[str, Facts]):
    """The objects of an estate; what is read of them goes to a log."""

    def __init__(self, objects: Mapping[str, Facts], log: list[ValueRead]) -> None:
        self._objects, self._log = objects, log
        self._made: dict[str, Facts] = {}

    def __getitem__(self, ref: str) -> Facts:
        if ref not in self._made:
            facts, log = self._objects[ref], self._log
            properties = Logged(facts.properties, lambda path: log.append(ValueRead(ref, path)))
            probes = Logged(facts.probes, lambda name: log.append(ValueRead(ref, f"{PROBE}{name}")))
            self._made[ref] = replace(facts, properties=properties, probes=probes)
        return self._made[ref]

    def __iter__(self) -> Iterator[str]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)


def logged(estate: Estate) -> tuple[Estate, list[ValueRead]]:
    """Return an equal estate, and the log of what is read of it from now on, in order."""
    log: list[ValueRead] = []
    return Estate(estate.about, _Objects(estate.objects, log)), log


# -- which value is to blame


def _run(estate: Estate, use: Callable[[Estate], T]) -> tuple[Exception | None, list[ValueRead]]:
    traced, log = logged(estate)
    try:
        use(traced)
    except Exception as error:  # without a value it may also be refused: a name of the playbook means nothing then
        return error, log
    return None, log


def _culprit(estate: Estate, use: Callable[[Estate], T]) -> ValueRead | None:
    """Return the value without which the exception does not arise, else one without which another one arises."""
    error, log = _run(estate, use)
    if error is None:
        return None
    changed: ValueRead | None = None
    for read in _candidates(estate, log, error):
        other, after = _run(without(Estate(estate.about, Layered(estate.objects)), read, MALFORMED), use)
        if other is None:
            return read
        alike = (type(other), str(other)) == (type(error), str(error))
        if changed is None and not (alike and _beside(after, read) == _beside(log, read)):
            changed = read
    return changed


def _beside(log: Iterable[ValueRead], read: ValueRead) -> list[ValueRead]:
    return [r for r in log if r != read]


def _candidates(estate: Estate, log: list[ValueRead], error: Exception) -> list[ValueRead]:
    """Return the values that were read last: first those that the code that raised had in hand, then by recency."""
    nearest = [r for r in dict.fromkeys(reversed(log)) if _value(estate, r) is not None or _has(estate, r)]
    in_hand = _in_hand(error.__traceback__)
    values = {r: _value(estate, r) for r in nearest[: NEAREST * 4]}
    first = [r for r, value in values.items() if in_hand & _parts(value)]
    return list(dict.fromkeys((*first, *nearest)))[:NEAREST]


def _has(estate: Estate, read: ValueRead) -> bool:
    facts = estate.get(read.ref)
    return facts is not None and read.path in facts.properties


def _value(estate: Estate, read: ValueRead) -> object:
    facts = estate.get(read.ref)
    if facts is None:
        return None
    if not read.path.startswith(PROBE):
        return facts.properties.get(read.path)
    answer = facts.probes.get(read.path.removeprefix(PROBE))
    return None if isinstance(answer, ProbeFailure) else answer


def _in_hand(trace: TracebackType | None) -> set[int]:
    """Return the identities of the mappings and tuples that the innermost frames hold in their variables."""
    frames = []
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    return {id(v) for frame in frames[-FRAMES:] for v in frame.f_locals.values() if _is_structure(v)}


def _parts(value: object) -> set[int]:
    """Return the identities of a value and of all mappings and tuples in it."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple) else ()
    return {id(value)}.union(*map(_parts, inner)) if inner else set()


def _is_structure(value: object) -> bool:
    return bool(value) and isinstance(value, Mapping | tuple)
