"""Invariants that judge a run from outside: what must not happen to a farm, whatever works on it and whatever fails."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vsphere_ai.lab.history import Fact, FactHistory, HistoryChange, Key
from vsphere_ai.lab.ledger import LedgerEntry

WORDS: Mapping[Fact, str] = {
    "power": "another user had {0} the VM, and it was {1} again",
    "ssh": "another user had {0} TSM-SSH, and it was {1} again",
}
REBOOTS = ("RebootHost_Task", "reboot", "esxcli system shutdown reboot")


@dataclass(frozen=True)
class InvariantVerdict:
    """One invariant: what it demands, and every finding against it (none: it holds). `seen` is worth knowing."""

    name: str
    demands: str
    findings: tuple[str, ...] = ()
    seen: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the verdict as plain JSON types."""
        return {
            "name": self.name,
            "demands": self.demands,
            "ok": not self.findings,
            "findings": list(self.findings),
            "seen": self.seen,
        }


@dataclass(frozen=True)
class JudgedRun:
    """What happened since a point of the ledger: the facts at that point, the changes and the entries after it."""

    start: Mapping[Key, bool]
    changes: Sequence[HistoryChange]
    entries: Sequence[LedgerEntry]
    clusters: Mapping[str, str]
    max_down: int = 1
    earlier: Sequence[HistoryChange] = ()
    """The changes before that point which are still known of: who had switched what."""

    def at_start(self, fact: Fact) -> dict[str, bool]:
        """Return one fact of every object it is known of, as it was at the start."""
        return {name: value for (each, name), value in self.start.items() if each == fact}

    def at_end(self, fact: Fact) -> dict[str, bool]:
        """Return one fact of every object it is known of, as it is now."""
        return {**self.at_start(fact), **{c.name: c.value for c in self.changes if c.fact == fact}}


def judge(
    entries: Iterable[LedgerEntry], history: FactHistory, since: int, *, max_down: int = 1
) -> list[InvariantVerdict]:
    """Return a verdict per invariant on everything after ledger entry `since`; KeyError when there is no such entry.

    `max_down` is how many hosts of a cluster may be out of service (down or in maintenance) at once.
    """
    start, changes = history.since(since)
    run = JudgedRun(
        start, changes, [e for e in entries if e.number > since], history.clusters, max_down, history.until(since)
    )
    found = []
    for name, (demands, check) in INVARIANTS.items():
        verdict = check(run)
        found.append(replace(verdict, name=name, demands=demands))
    return found


def _duplicates(run: JudgedRun) -> InvariantVerdict:
    """Two calls that each add the same thing to the same VM; one call may add several of a kind."""
    added: dict[tuple[str, ...], int] = {}
    findings = []
    for entry in run.entries:
        devices = entry.detail.get("devices", ()) if entry.call == "ReconfigVM_Task" else ()
        # what one call takes away and what it adds happen at once, in whichever order they stand in it
        for device in sorted(devices, key=lambda d: d["operation"] != "remove"):
            what = str(device.get("vgpu") or device.get("portgroup") or "")
            key = (entry.ref or entry.object, device["type"], what)
            if device["operation"] == "remove":
                added.pop(key, None)
            elif device["operation"] == "add":
                first = added.setdefault(key, entry.number)
                if first != entry.number:
                    shown = f"{device['type']} {what}".strip()
                    findings.append(f"{entry.object}: {shown} was added again (entries {first} and {entry.number})")
    return _verdict(dict.fromkeys(findings))


def _reboots(run: JudgedRun) -> InvariantVerdict:
    numbers: dict[str, list[int]] = defaultdict(list)
    for entry in run.entries:
        if entry.call in REBOOTS:
            numbers[entry.object].append(entry.number)
    twice = {host: found for host, found in numbers.items() if len(found) > 1}
    listed = [f"{h} was rebooted {len(n)} times (entries {', '.join(map(str, n))})" for h, n in sorted(twice.items())]
    return _verdict(listed, f"{sum(map(len, numbers.values()))} reboots")


def _hosts_down(run: JudgedRun) -> InvariantVerdict:
    up, maintenance = run.at_start("up"), run.at_start("maintenance")
    found: dict[str, tuple[str, ...]] = {}

    def out(cluster: str) -> tuple[str, ...]:
        return tuple(
            h for h in sorted(up) if run.clusters.get(h, "") == cluster and (not up[h] or maintenance.get(h, False))
        )

    # a host outside of every cluster stands for itself
    clusters = sorted({c for c in run.clusters.values() if c})
    before = {c: len(out(c)) for c in clusters}
    most = {c: out(c) for c in clusters}
    for change in run.changes:
        if change.fact not in ("up", "maintenance"):
            continue
        (up if change.fact == "up" else maintenance)[change.name] = change.value
        cluster = run.clusters.get(change.name, "")
        if cluster and len(out(cluster)) > len(most[cluster]):
            most[cluster] = out(cluster)
            if len(most[cluster]) > max(run.max_down, before[cluster]):
                found[cluster] = most[cluster]
    findings = [f"{c}: {len(hosts)} hosts out of service at once: {', '.join(hosts)}" for c, hosts in found.items()]
    return _verdict(findings, ", ".join(f"{c}: at most {len(hosts)} at once" for c, hosts in most.items()))


def _maintenance(run: JudgedRun) -> InvariantVerdict:
    before, now = run.at_start("maintenance"), run.at_end("maintenance")
    return _verdict(f"{h} was left in maintenance mode" for h, on in sorted(now.items()) if on and not before.get(h))


def _services(run: JudgedRun) -> InvariantVerdict:
    before, now = run.at_start("ssh"), run.at_end("ssh")
    words = {True: "running", False: "stopped"}
    changed = [h for h in sorted(now) if now[h] != before.get(h, now[h])]
    return _verdict(f"{h}: TSM-SSH was {words[before[h]]} and is {words[now[h]]}" for h in changed)


def _power(run: JudgedRun) -> InvariantVerdict:
    before, now, removed = run.at_start("power"), run.at_end("power"), run.at_end("removed")
    lost = (vm for vm, on in sorted(before.items()) if on and not now[vm] and vm not in removed)
    return _verdict(f"{vm} was on and is off" for vm in lost)


def _others(run: JudgedRun) -> InvariantVerdict:
    """Follow every switch: what it was last set to by another user than a program that then sets it otherwise.

    A call that names its operation is a program's at work; programs of one user are taken for one, because it logs in
    anew when it goes on. A call without is a user's own hand, which may switch anything. Who puts back what they
    have switched themselves, such as SSH that was started to look, wants nothing of it any more.
    """
    wished: dict[Key, HistoryChange] = {}
    found_as: dict[Key, bool] = {}
    against: dict[Key, HistoryChange] = {}
    since = len(run.earlier)
    for at, change in enumerate((*run.earlier, *run.changes)):
        if change.fact not in WORDS or change.by is None:
            continue
        key = change.fact, change.name
        wish = wished.get(key)
        if wish is None or wish.by == change.by or not change.by.names_operations:
            against.pop(key, None)
            if wish is None or wish.by != change.by:
                found_as[key] = not change.value
            wished[key] = change
            if change.value == found_as[key]:
                del wished[key]
        elif wish.value == change.value:
            against.pop(key, None)
        elif at >= since:
            against[key] = change
    found = sorted(f"{name}: {WORDS[fact].format(*_said(fact, wished[fact, name].value))}" for fact, name in against)
    return _verdict(found)


def _said(fact: Fact, value: bool) -> tuple[str, str]:
    words = {"power": ("switched off", "switched on"), "ssh": ("stopped", "started")}[fact]
    return words[value], words[not value]


def _instances(run: JudgedRun) -> InvariantVerdict:
    return _verdict(f"{c.name} went away under a VM" for c in run.changes if c.fact == "torn" and c.value)


def _macs(run: JudgedRun) -> InvariantVerdict:
    return _verdict(c.name for c in run.changes if c.fact == "mac" and c.value)


def _identities(run: JudgedRun) -> InvariantVerdict:
    """Two VMs of one instance UUID, and clones that were asked to have the one of a VM that was there."""
    twice = [c.name for c in run.changes if c.fact == "uuid" and c.value]
    clones = [e for e in run.entries if e.call == "CloneVM_Task" and e.detail.get("asked_uuid")]
    other = [f"{e.object}: {e.detail['asked_uuid']} was another VM's" for e in clones
             if e.detail["asked_uuid"] != e.detail["instance_uuid"]]  # fmt: skip
    return _verdict([*twice, *other], f"{len(clones)} clones with an identity of their own")


def _sessions(run: JudgedRun) -> InvariantVerdict:
    before, now = run.at_start("session"), run.at_end("session")
    return _verdict(f"{name} is still open" for name, live in sorted(now.items()) if live and not before.get(name))


def _verdict(findings: Iterable[str], seen: str = "") -> InvariantVerdict:
    return InvariantVerdict("", "", tuple(findings), seen)


INVARIANTS: Mapping[str, tuple[str, Callable[[JudgedRun], InvariantVerdict]]] = {
    "duplicates": ("no device is added twice", _duplicates),
    "reboots": ("no host is rebooted twice", _reboots),
    "hosts-down": ("not more hosts of a cluster are out of service than allowed", _hosts_down),
    "maintenance": ("no host is left in maintenance mode", _maintenance),
    "services": ("SSH runs where it ran, and nowhere else", _services),
    "power": ("every VM that was on is on", _power),
    "others": ("what another user has switched stays as that user put it", _others),
    "gpu-instances": ("no GPU instance goes away under a VM", _instances),
    "macs": ("no two running VMs have one MAC address", _macs),
    "identities": ("no two VMs have one instance UUID, and none is cloned twice", _identities),
    "sessions": ("no session is left open", _sessions),
}
