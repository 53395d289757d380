"""Certificate of a hand-over: gates with their measurements, the facts they rest on, and when it ceases to hold.

Statuses are verdicts of findings. A gate that lacks a measurement it needs has failed: a test that did
not run is no test that passed (the opposite was once shipped: NVIDIA cluster-readiness-engine, pull request 6). A
failure ends only with a newer pass of the same test on the same physical part.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain

from vsphere_ai.health.guest_probes import GUEST_FACTS
from vsphere_ai.model.finding import VERDICTS, Finding, Subject, Verdict, worst_verdict
from vsphere_ai.model.names.name_ranges import fold

MOST_NAMES = 4
INPUT, SET = "input", "set"
"""Kinds of parts that are no hardware: a file that a test is judged by, and the list of the VMs."""
_PHYSICAL = ("host:", "gpu:")
Facts = Mapping[str, Mapping[str, str]]
"""Part (``host:esx01``, ``vm:train-01``, ``gpu:esx01/0000:3b:00.0``, ``set:train``, ``input:profile``) -> name of a
fact -> its value."""


@dataclass(frozen=True)
class Measurement:
    """One result of a gate: what was measured or judged, in a sentence, and on which parts.

    `value` and `limit` are in `unit`; None where it is a verdict without a number. Without `parts`, but for inputs, it
    is about the set as a whole. `test` is the test it is of, by default its name: one test may have several results.
    `remedy` is what to do where it did not pass, as far as `text` does not say it.
    """

    name: str
    status: Verdict
    text: str
    parts: tuple[str, ...] = ()
    value: float | None = None
    limit: float | None = None
    unit: str = ""
    taken: datetime | None = None
    test: str = ""
    remedy: str = ""

    @property
    def key(self) -> tuple[str, tuple[str, ...]]:
        """The test and its parts: the results of a newer test on the same parts take its place."""
        return self.test or self.name, tuple(sorted(self.of))

    @property
    def of(self) -> tuple[str, ...]:
        """The parts that it is about: without inputs."""
        return tuple(p for p in self.parts if not p.startswith(f"{INPUT}:"))


@dataclass(frozen=True)
class Gate:
    """One step of the acceptance. `needs` are names of measurements without which it has failed.

    `error` says why it could not be carried out to its end; `seconds` is how long it took.
    """

    name: str
    measurements: tuple[Measurement, ...] = ()
    needs: tuple[str, ...] = ()
    error: str = ""
    seconds: float = 0.0

    @property
    def missing(self) -> tuple[str, ...]:
        """The measurements it needs and lacks."""
        found = {m.name for m in self.measurements}
        return tuple(n for n in self.needs if n not in found)

    @property
    def status(self) -> Verdict:
        """Its worst measurement; failed where one is missing, none was taken, or it was not carried out."""
        if self.error or self.missing or not self.measurements:
            return "fail"
        return worst_verdict(m.status for m in self.measurements)

    @property
    def passed(self) -> bool:
        """Whether it passed, or only warns."""
        return self.status not in ("unknown", "fail")

    @property
    def findings(self) -> tuple[Finding[Subject], ...]:
        """Why it did not pass, the worst first, or that it passed; what several parts have in common once."""
        absent = [f"no measurement of {name}" for name in self.missing]
        if not self.measurements and not self.missing and not self.error:
            absent = ["nothing was measured"]
        on, rule = Subject("gate", self.name), f"accept.{self.name}"
        failed = (Finding(on, rule, "fail", why) for why in (self.error, *absent) if why)
        return (*failed, *self._findings()) or (Finding(on, rule, "pass", "passed"),)

    def _findings(self) -> Iterator[Finding[Subject]]:
        """Yield failures and warnings; what several parts have in common once, with their names."""
        alike: dict[tuple[Verdict, str, str, str], list[str]] = {}
        for each in sorted(self.measurements, key=lambda m: -VERDICTS.index(m.status)):
            if each.status != "pass":
                names = alike.setdefault((each.status, each.name, each.text, each.remedy), [])
                names += [part.partition(":")[2] for part in each.of[:1]]
        for (verdict, name, text, remedy), names in alike.items():
            others = [n for n in names if n not in text and n not in name]
            terms = fold(others)
            more = f" and {len(terms) - MOST_NAMES} more" if len(terms) > MOST_NAMES else ""
            message = f"{name}: {text}" + (f" ({', '.join(terms[:MOST_NAMES])}{more})" if others else "")
            yield Finding(Subject("gate", self.name), f"accept.{self.name}", verdict, message, remedy)


@dataclass(frozen=True)
class FactChange:
    """A fact that is not as it was when it was certified; None: it was, or is, not there."""

    part: str
    name: str
    before: str | None
    after: str | None

    @property
    def finding(self) -> Finding[Subject]:
        """That what was certified does not hold any more."""
        before, after = (value if value is not None else "not there" for value in (self.before, self.after))
        message = f"{self.name}: {before} → {after}"
        return Finding(Subject("part", self.part), "accept.changed", "fail", message, "accept the set again")


@dataclass(frozen=True)
class Certificate:
    """What was accepted, when, and on which facts; `inputs` are files with their SHA-256.

    `not_asked` are VMs whose guests could not be asked, with the reason: the facts lack what only a guest knows.
    """

    vcenter: str
    set: str
    tool: str
    issued: datetime
    gates: tuple[Gate, ...]
    facts: Facts = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    not_asked: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    """Gates of a hand-over that were not carried out: whether the set passes them is not known."""

    @property
    def status(self) -> Verdict:
        """The worst gate, and not known where gates were left out; failed without a gate."""
        unknown: list[Verdict] = ["unknown"] if self.left_out else []
        return worst_verdict([*(g.status for g in self.gates), *unknown]) if self.gates else "fail"

    @property
    def findings(self) -> tuple[Finding[Subject], ...]:
        """The findings of all gates, a failure without a gate; gates that were left out, and guests not asked."""
        none = (Finding(Subject("gate", "none"), "accept.gate", "fail", "no gate was carried out"),)
        of_gates = tuple(finding for gate in self.gates for finding in gate.findings) or none
        text = "the guest could not be asked: its driver, CUDA and packages are not certified"
        guests = (of_not_asked(vm, "warn", f"{text}: {why}") for vm, why in self.not_asked.items())
        return *of_gates, *map(_left_out, self.left_out), *guests


def of_not_asked(vm: str, verdict: Verdict, message: str) -> Finding[Subject]:
    """Return that the guest of a VM could not be asked."""
    return Finding(Subject("vm", vm), "accept.not-asked", verdict, message, "see that vsphere-ai health reaches it")


def _left_out(gate: str) -> Finding[Subject]:
    remedy = "carry out all gates: vsphere-ai accept without --gate"
    return Finding(Subject("gate", gate), "accept.left-out", "unknown", "the gate was not carried out", remedy)


def changes_since(certificate: Certificate, now: Facts) -> tuple[FactChange, ...]:
    """Return the facts that are not as certified, by part and name.

    New parts are none, but for files that gates can read now, and could not then.
    """
    found = []
    for part, facts in sorted(certificate.facts.items()):
        present = now.get(part) or {}
        for name in sorted({*facts, *present}):
            if facts.get(name) != present.get(name):
                found.append(FactChange(part, name, facts.get(name), present.get(name)))
    judged = {part for gate in certificate.gates for m in gate.measurements for part in m.parts}
    for part in sorted(judged & now.keys() - certificate.facts.keys()):
        if part.startswith(f"{INPUT}:"):  # what was judged without this file is judged by it now
            found += [FactChange(part, name, None, value) for name, value in sorted(now[part].items())]
    return tuple(found)


def is_unknown(change: FactChange, not_asked: Collection[str]) -> bool:
    """Return whether a fact is missing only because the guest that knows it could not be asked."""
    kind, _, vm = change.part.partition(":")
    return kind == "vm" and vm in not_asked and change.after is None and change.name in GUEST_FACTS


def void(gate: Gate, changes: Iterable[FactChange]) -> tuple[Measurement, ...]:
    """Return the measurements of a gate that changed facts take away: those on changed parts, and of the whole set.

    A changed input takes away only what is judged by it.
    """
    parts = {change.part for change in changes}
    solid = any(not part.startswith(f"{INPUT}:") for part in parts)
    return tuple(m for m in gate.measurements if parts & set(m.parts) or (solid and not m.of))


def without_void(certificate: Certificate, changes: Iterable[FactChange]) -> Certificate:
    """Return a certificate without what does not hold any more; gates then lack what they need, and have failed."""
    changed, gates = tuple(changes), []
    for gate in certificate.gates:
        gone = {id(m) for m in void(gate, changed)}
        gates.append(replace(gate, measurements=tuple(m for m in gate.measurements if id(m) not in gone)))
    return replace(certificate, gates=tuple(gates))


def renewed(before: Gate, again: Gate) -> Gate:
    """Return a gate with newer measurements in the place of those of the same test on the same parts.

    What was not measured again stays; what is needed is as the newer gate says.
    """
    found = chain(*(_by_key(before) | _by_key(again)).values())
    return replace(again, measurements=tuple(found), seconds=before.seconds + again.seconds)


def _by_key(gate: Gate) -> dict[tuple[str, tuple[str, ...]], list[Measurement]]:
    found: dict[tuple[str, tuple[str, ...]], list[Measurement]] = {}
    for each in gate.measurements:
        found.setdefault(each.key, []).append(each)
    return found


def identity(part: str, facts: Facts) -> str:
    """Return the physical part: a GPU by its UUID where that is known, so that it is the same in another slot."""
    uuid = facts.get(part, {}).get("UUID")
    return f"gpu:{uuid}" if uuid and part.startswith("gpu:") else part


def with_open_failures(
    gate: Gate, newer: Sequence[Measurement], before: Gate, facts: tuple[Facts, Facts], used: Iterable[str]
) -> Gate:
    """Add the failures of an earlier gate that no newer pass of the same test on the same physical parts has ended.

    `newer` are the measurements that were taken now, `facts` those of the earlier certificate and of now; `used` are
    the parts that the set uses now. A failure on parts that the set does not use any more is a warning.
    """
    fresh = {m.key for m in newer}
    passes = [m for m in newer if m.status == "pass"]
    passed = {(m.key[0], identity(part, facts[1])) for m in passes for part in m.of}
    wholes = {m.key[0] for m in passes if not m.of}
    here = {identity(part, facts[1]) for part in used}
    found = [m for m in gate.measurements if m.status != "fail" or m.key in fresh]
    for old in before.measurements:
        if old.status != "fail" or old.key in fresh:
            continue
        test, physical = old.key[0], [identity(p, facts[0]) for p in old.of if p.startswith(_PHYSICAL)]
        left = [part for part in physical if (test, part) not in passed]
        if left if physical else test not in wholes:
            still = not physical or any(part in here for part in left)
            parts = (*(p for p in old.of if not p.startswith(_PHYSICAL)), *left)
            words = old.text.partition(_SINCE)[0] + (_SINCE if still else _UNUSED)
            found.append(replace(old, status="fail" if still else "warn", parts=parts, text=words))
    return replace(gate, measurements=tuple(found))


_SINCE = "; not passed on the same parts since"
_UNUSED = "; the set does not use these parts any more"
