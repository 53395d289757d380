"""Writes the field tables of the kinds' pages, and the list of the kinds: ``python -m tools.docgen.kinds``."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from vsphere_ai.app.project.explanations.keys import Key, keys_of
from vsphere_ai.planning.observing import sort_kinds
from vsphere_ai.resources import kinds
from vsphere_ai.resources.base import Resource
from vsphere_ai.resources.mixins import probes_of

BEGIN, END = "<!-- fields: written by `make docs` -->", "<!-- end of fields -->"
_BLOCK = re.compile(rf"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
LIST_BEGIN, LIST_END = "<!-- kinds: written by `make docs` -->", "<!-- end of kinds -->"
_LIST = re.compile(rf"{re.escape(LIST_BEGIN)}.*?{re.escape(LIST_END)}", re.DOTALL)
WIDTH = 120


def with_fields(page: str, kind: type[Resource]) -> str:
    """Return a page with its block of fields as the model has them; ValueError when it has no such block."""
    block = f"{BEGIN}\n{fields(kind)}\n{END}"
    changed, count = _BLOCK.subn(lambda _: block, page)
    if count != 1:
        raise ValueError(f"the page of {kind.kind} has {count} blocks that begin with {BEGIN}")
    return changed


def with_list(page: str) -> str:
    """Return a page with its list of all kinds in the order of planning; ValueError when it has no such list."""
    order, wrap = sort_kinds(kinds()), textwrap.TextWrapper(WIDTH, "- ", "  ")
    wrap.break_long_words = wrap.break_on_hyphens = False
    lines = []
    for target, name in (("datacenter", "datacenters"), ("host", "hosts"), ("vm", "VMs")):
        links = ", ".join(f"[{k}](kinds/{k}.md)" for k in order if kinds()[k].target == target)
        lines += wrap.wrap(f"{name}: {links}")
    changed, count = _LIST.subn("\n".join((LIST_BEGIN, *lines, LIST_END)), page)
    if count != 1:
        raise ValueError(f"the page has {count} lists that begin with {LIST_BEGIN}")
    return changed


def fields(kind: type[Resource]) -> str:
    """Return the tables of what can be set and of what is only shown, and what the kind reads, in Markdown."""
    lines = ["| field | value | meaning |", "|---|---|---|"]
    lines += [_row(key) for key in keys_of(kind) if not key.observed]
    shown = [key for key in keys_of(kind) if key.observed]
    if shown:
        lines += ["", "Shown in plans, but not set in a playbook:", "", "| field | value | meaning |", "|---|---|---|"]
        lines += [_row(key) for key in shown]
    if kind.keyed:
        lines += ["", f"Written as `{kind.kind}: {{NAME: ...}}`."]
    elif kind.shorthand:
        lines += ["", f"`{kind.kind}: [...]` is short for `{kind.kind}: {{{kind.shorthand}: [...]}}`."]
    if kind.traits.after:
        lines += ["", f"Planned after {', '.join(f'[`{k}`]({k}.md)' for k in sorted(kind.traits.after))}."]
    lines += ["", *_reads(kind)]
    return "\n".join(lines)


def _row(key: Key) -> str:
    cells = (f"`{key.name}`", key.value, key.meaning)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _reads(kind: type[Resource]) -> Iterator[str]:
    yield "What is read:"
    yield ""
    for managed, paths in sorted(kind.traits.properties.items()):
        yield f"- {managed}: {', '.join(f'`{path}`' for path in paths)}"
    for probe in probes_of(kind):
        yield f"- over SSH: `{' '.join(probe.argv)}`" + (" each NIC with an RDMA device" * probe.each_rdma_nic)


def main(arguments: list[str]) -> int:
    """Write the block of every page in the given folder anew, and the list of kinds in the page named after it."""
    folder = Path(arguments[0] if arguments else "docs/kinds")
    for listing in map(Path, arguments[1:]):
        listing.write_text(with_list(listing.read_text(encoding="utf-8")), encoding="utf-8")
    for name, kind in kinds().items():
        page = folder / f"{name}.md"
        page.write_text(with_fields(page.read_text(encoding="utf-8"), kind), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
