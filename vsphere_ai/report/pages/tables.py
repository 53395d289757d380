"""Tables of a report: entries of a JSON document in rows, those that say the same in one with their targets folded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vsphere_ai.model.names.name_ranges import fold
from vsphere_ai.model.state import Target
from vsphere_ai.model.text import counted
from vsphere_ai.model.world import World
from vsphere_ai.report.folding import names
from vsphere_ai.report.layout import grouped
from vsphere_ai.report.pages.values import ReportSection, Row
from vsphere_ai.report.plans.world_text import world_place

Entry = Mapping[str, Any]
FEW = 110
"""Characters up to which names are a heading, or beside a picture; the tables have all of them."""
IMPACT = {
    "reboots": "reboot",
    "maintenance": "enter maintenance mode",
    "power_cycles": "are powered off and on",
    "outside": "are affected without being in the playbook",
    "moves": "are moved by DRS",
    "created": "are created",
    "destroyed": "are destroyed with their disks",
    "adopted": "become VMs of a set",
    "unplaced": "take no VM: what is on their GPUs is not known",
}
"""Lists of targets in the impact of a plan, and what happens to those."""


def target(value: Entry | None) -> Target | None:
    """Return the target that a document names."""
    return Target(value["kind"], value["name"], value["ref"]) if value else None


def text(value: object) -> str:
    """Return a JSON value as text for a cell: targets by name, lists with commas, keys of objects before values."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case {"path": path, "value": value, **rest} if not rest:
            return f"{path} = {value}"
        case {"kind": _, "name": name, "ref": _, **rest} if not rest:
            return str(name)
        case Mapping():
            return "; ".join(f"{k}: {text(v)}" for k, v in value.items() if v not in (None, "", [], {}))
        case list() | tuple():
            return ", ".join(map(text, value))
        case _:
            return str(value)


def folded(entries: Iterable[tuple[Target | None, Row]]) -> tuple[Row, ...]:
    """Return a row for all targets of which the same is said; their names come first."""
    same = grouped((row, each) for each, row in entries)
    return tuple((names(t for t in targets if t), *row) for row, targets in same.items())


def about(entries: Iterable[Entry], keys: Sequence[str], of: str = "target") -> tuple[Row, ...]:
    """Return rows of entries of a document: the targets under key `of`, then the values of other keys."""
    return folded((target(e.get(of)), tuple(text(e.get(k)) for k in keys)) for e in entries)


FINDING = ("targets", "rule", "verdict", "message", "remedy", "evidence", "source", "refuses")


def about_findings(findings: Iterable[Entry], keys: Sequence[str] = FINDING[1:]) -> tuple[Row, ...]:
    """Return rows of findings, the part or the place that one is about before its message."""
    return about(({**f, "message": f"{_place(f['target'])}{f['message']}"} for f in findings), keys)


def subject_text(value: Entry | None) -> str:
    """Return what a finding is about: its name, and the part of it; "" for the whole estate."""
    return ", ".join(filter(None, (value["name"], value.get("part")))) if value else ""


NO_PLACE = 0
"""Line or column of a place that has none: both count from 1."""


def place_in_file(value: Entry) -> tuple[str, int, int]:
    """Return file, line and column of the place that a finding is about; `NO_PLACE` for what it does not have."""
    line, column = (int(value[name]) if value.get(name) else NO_PLACE for name in ("line", "column"))
    return str(value["file"]), line, column


def _place(value: Entry | None) -> str:
    place = value or {}
    line = ":".join(str(part) for part in place_in_file(place) if part) + ": " if place.get("line") else ""
    return f"{line}{place['part']}: " if place.get("part") else line


def changes(items: Sequence[Entry]) -> ReportSection:
    """Return every changed field of a plan, and the notes beside them."""
    rows = []
    for item in items:
        on, kind = target(item["target"]), item["kind"]
        for each in item.get("changes", ()):
            said = (kind, each["field"], text(each.get("before")), text(each.get("after")), each.get("effect", ""))
            rows.append((on, said))
        if item.get("recreate"):
            rows.append((on, (kind, "", "", "", "made anew")))
        rows += [(on, (kind, "note", "", note, "")) for note in item.get("notes", ())]
    return ReportSection("Changes", ("targets", "kind", "field", "before", "after", "effect"), folded(rows))


def impact(value: Entry) -> ReportSection:
    """Return what a plan disrupts: every target by name."""
    rows: list[Row] = []
    for key, words in IMPACT.items():
        found = [t for t in map(target, value.get(key, ())) if t]
        if found:
            rows.append((words, str(len(found)), names(found), ""))
    for roll in value.get("rolls", ()):
        batches = [names(t for t in map(target, batch) if t) for batch in roll["batches"]]
        said = f"{roll['at_a_time']} at a time, at most {roll['max_unavailable']} unavailable"
        hosts = str(sum(map(len, roll["batches"])))
        rows.append((f"are rolled in cluster {roll['cluster']}", hosts, "; then ".join(batches), said))
    for key, words, of in (("lost", "lose data on reboot", "host"), ("found", "are compared after it with", "host")):
        found_rows = about_rest(value.get(key, ()), of)
        rows += [(words, "", on, said) for on, said in found_rows]
    for key, words in (("migrations", "are migrated by the run"), ("agents", "are agent VMs, and left out")):
        rows += [(words, "", "", text(each)) for each in value.get(key, ())]
    return ReportSection("Impact", ("what happens", "count", "targets", "details"), tuple(rows))


def about_rest(entries: Iterable[Entry], of: str) -> tuple[tuple[str, str], ...]:
    """Return the targets under key `of` of entries, and everything else that those say."""
    rest = ((target(e[of]), (text({k: v for k, v in e.items() if k != of}),)) for e in entries)
    return tuple((on, said) for on, said in folded(rest))


def few(said: str, count: int, noun: str) -> str:
    """Return names as they are said, or where they are many how many there are and the first of them."""
    if len(said) <= FEW:
        return said
    return f"{counted(count, noun)}, such as {said[:FEW].rpartition(', ')[0] or f'{said[:FEW]}…'}"


def vcenter_facts(document: Entry) -> tuple[tuple[str, str], ...]:
    """Return which vCenter a document is of: as the inventory has it, LAB first, and what it says of itself."""
    vcenter = document["vcenter"]
    product = f"{vcenter['name']} {vcenter['version']}, build {vcenter['build']}"
    world = world_facts(document.get("world"))
    rows = (*world, ("version" if world else "vCenter", product), ("instance", vcenter.get("instance", "")))
    return tuple((name, value) for name, value in rows if value)


def world_facts(world: Entry | None, inventory: str = "") -> tuple[tuple[str, str], ...]:
    """Return the vCenter and the inventory file of a command; nothing where its document does not have them.

    `inventory` is the path of that file where it is known better than as it was given.
    """
    if not world:
        return ()
    found = f" ({world['found']})" if world["found"] else ""
    return ("vCenter", world_place(World(**world))), ("inventory", f"{inventory or world['inventory']}{found}")


def variables(values: Sequence[Entry]) -> ReportSection:
    """Return the values of a playbook's variables that are used, each with what gives it."""
    rows = tuple(
        (v["name"], text(v["value"]), _given(v), v.get("place", ""), ", ".join(fold(v.get("targets", ()))))
        for v in values
        if v.get("used", True)
    )
    return ReportSection("Variables", ("name", "value", "given by", "place", "only for"), rows)


def _given(value: Entry) -> str:
    return f"{value['level']} '{value['play']}'" if value.get("play") else str(value["level"])


def kept(*sections: ReportSection) -> tuple[ReportSection, ...]:
    """Return the sections that say something."""
    return tuple(s for s in sections if s.rows or s.code)
