"""Pages of the documentation, which the package carries: what their tables say of rules, checks and keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from vsphere_ai.model.records.explained import ExplanationPart, Group, NameExplained

_CELLS = re.compile(r"(?<!\\)\|")
_NAMES = re.compile(r"`[^`]+`(?:(?:, | or )`[^`]+`)*(?: \([a-z ]+\))?")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_HEADING = re.compile(r"#+ (.+)")
_CODE = re.compile(r"^```(\w+)(?: [^\n]*)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_GROUPS: Mapping[str, Group] = {
    "rule": "rule", "id": "rule", "check": "check", "key": "key", "variable": "variable", "kind": "lab defect",
}  # fmt: skip
"""First word of a table's head -> what its rows explain."""
_PREFIXES = {
    "Playbooks": "play",
    "Variables, include, merge keys": "playbook",
    "Values of variables": "inventory",
    "What a job says": "job",
    "Profile": "profile",
}
"""Heading above a table of keys -> what they are keys of; every other heading is that itself."""
GENERATED = ("compatibility", "assessment", "catalogue")
"""Pages that are written from data, which is explained itself; so are the checks on the page of health."""


@dataclass(frozen=True)
class TableRow:
    """A row of a table whose first cell has names: the labels of the other cells with their texts."""

    names: tuple[str, ...]
    group: Group
    cells: tuple[tuple[str, str], ...]
    page: str
    heading: str


@cache
def page(name: str) -> str:
    """Return a page in Markdown by its name (`cli`, `kinds/mig`)."""
    return (resources.files("vsphere_ai") / "docs" / f"{name}.md").read_text("utf-8")


@cache
def names() -> tuple[str, ...]:
    """Return the names of the pages; those of kinds come last."""
    folder = resources.files("vsphere_ai") / "docs"
    return (*_names(folder), *(f"kinds/{name}" for name in _names(folder / "kinds")))


def _names(folder: Traversable) -> list[str]:
    return sorted(f.name.removesuffix(".md") for f in folder.iterdir() if f.name.endswith(".md"))


def plain(text: str) -> str:
    """Return Markdown of one line as it is read: links by their words, no escapes."""
    return _LINK.sub(r"\1", text).replace("\\|", "|").replace("**", "").strip()


@cache
def rows(name: str) -> tuple[TableRow, ...]:
    """Return the rows of the tables of a page that explain names."""
    found: list[TableRow] = []
    heading = ""
    head: tuple[str, ...] = ()
    for line in _FENCE.sub("", page(name)).splitlines():
        if title := _HEADING.fullmatch(line):
            heading = title[1]
        if not line.startswith("|"):
            head = ()
        elif not head:
            head = _cells(line)
        elif not set(line) <= set("|-: ") and (row := _row(name, heading, head, _cells(line))):
            found.append(row)
    return tuple(found)


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in _CELLS.split(line.strip())[1:-1])


def _row(name: str, heading: str, head: tuple[str, ...], cells: tuple[str, ...]) -> TableRow | None:
    group = _GROUPS.get(head[0])
    if group is None or not _NAMES.fullmatch(cells[0]):
        return None
    own = tuple(re.findall(r"`([^`]+)`", cells[0]))
    if group == "check" and all("." in each for each in own):
        group = "rule"
    if group == "key":
        own = tuple(f"{_PREFIXES.get(heading, heading)}.{each}" for each in own)
    texts = zip(head[1:], cells[1:], strict=True)
    return TableRow(
        own, group, tuple((label or "meaning", plain(text)) for label, text in texts if text), name, heading
    )


def explained() -> Iterator[NameExplained]:
    """Yield what the tables of the pages say, once for each name; what several pages say of one is joined."""
    found: dict[tuple[str, Group], list[TableRow]] = {}
    every = (row for name in names() if name not in GENERATED for row in rows(name))
    for each in (row for row in every if (row.page, row.group) != ("health", "check")):
        for own in each.names:
            found.setdefault((own, each.group), []).append(each)
    for (own, group), said in found.items():
        different = {row.cells: row for row in reversed(said)}
        parts = tuple(ExplanationPart("", _with_others(own, row)) for row in reversed(different.values()))
        pages = ", ".join(dict.fromkeys(f"docs/{row.page}.md, {row.heading}" for row in said[:3]))
        yield NameExplained(own, group, _short(own, said[0]), parts=parts, page=pages)


def _with_others(own: str, row: TableRow) -> tuple[tuple[str, str], ...]:
    cells = tuple((label, _clause(own, row, text)) for label, text in row.cells)
    others = ", ".join(name for name in row.names if name != own)
    return (*cells, ("together with", others)) if others and cells == row.cells else cells


def _clause(own: str, row: TableRow, text: str) -> str:
    """Return what a text for several names says of one of them, where it has a clause for each."""
    clauses = text.split("; ")
    return clauses[row.names.index(own)] if len(clauses) == len(row.names) > 1 else text


def _short(own: str, row: TableRow) -> str:
    """Return what a row says of a name in short: what is wrong, else the longest text."""
    text = max((text for label, text in row.cells if label != "seen by"), key=len, default="")
    text = next((text for label, text in row.cells if label in ("cause", "what is wrong", "meaning")), text)
    return _clause(own, row, text)


def title(name: str) -> str:
    """Return the title of a page."""
    return page(name).partition("\n")[0].removeprefix("# ")


def section(name: str, heading: str) -> tuple[str, ...]:
    """Return the paragraphs below a heading of the second level, without its tables and code; empty for none."""
    below = page(name).partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    parts = _CODE.sub("", below).split("\n\n")
    return tuple(plain(" ".join(p.split())) for p in parts if p.strip() and not p.lstrip().startswith(("|", "#", "<!")))


def example(name: str, key: str = "") -> str:
    """Return the first example in YAML of a page, of those that have a key where one is given; empty for none."""
    found = (code.rstrip() for language, code in _CODE.findall(page(name)) if language == "yaml")
    return next((code for code in found if not key or re.search(rf"\b{re.escape(key)}:", code)), "")
