"""Writes the table of rooms into docs/architecture.md and draws docs/architecture.svg from the imports of the code.

Usage: ``python -m tools.docgen.architecture docs/architecture.md docs/architecture.svg``.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from xml.sax.saxutils import escape

import vsphere_ai

PACKAGE = Path(vsphere_ai.__file__).parent
BEGIN, END = "<!-- rooms: written by `make docs` -->", "<!-- end of rooms -->"
ENTRY = "__main__"
DIVIDED = ("app", "app/training")
"""Folders whose folders are rooms: too much lies in them for one."""
Arrows = Mapping[str, frozenset[str]]
WIDTH, HEIGHT, GAP, RISE, MARGIN = 118, 34, 26, 44, 24


@cache
def rooms() -> Mapping[str, str]:
    """Return each room and the first sentence of its docstring, without the full stop.

    A room is a folder of the package; the folders in one of `DIVIDED` are rooms, too, beside what is left there.
    """
    found = {}
    for pattern in ("*", *(f"{folder}/*" for folder in DIVIDED)):
        for path in sorted(PACKAGE.glob(f"{pattern}/__init__.py")):
            name = path.parent.relative_to(PACKAGE).as_posix()
            if name not in DIVIDED or name == name.split("/")[0]:
                found[name] = _said_of(path.parent)
    return found


@cache
def folders() -> Mapping[str, str]:
    """Return each folder that lies in a room and is none, with the first sentence of its docstring."""
    inner = (path.parent for path in sorted(PACKAGE.glob("*/**/__init__.py")))
    names = {path.relative_to(PACKAGE).as_posix(): path for path in inner}
    return {name: _said_of(path) for name, path in names.items() if name not in (*rooms(), *DIVIDED)}


def _said_of(folder: Path) -> str:
    doc = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))) or ""
    return doc.split("\n\n")[0].replace("\n", " ").rstrip(".")


@cache
def arrows() -> Arrows:
    """Return for each room the rooms that its modules import, also inside of functions; the root is left out."""
    found: dict[str, set[str]] = {room: set() for room in rooms()}
    for path in sorted(PACKAGE.glob("*/**/*.py")):
        own = _room(path.relative_to(PACKAGE).as_posix())
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE.name:
                named = (f"{node.module}.{a.name}".split(".")[1:] for a in node.names)
                found[own] |= {other for n in named if (other := _room("/".join(n)))}
    return {room: frozenset(others - {room}) for room, others in found.items()}


def _room(path: str) -> str:
    """Return the innermost room of a path below the package; empty at the root."""
    return max((room for room in rooms() if path == room or path.startswith(f"{room}/")), key=len, default="")


def floors(graph: Arrows) -> list[list[str]]:
    """Return the rooms by floor, the lowest first: a room stands above every room it imports."""
    height: dict[str, int] = {}

    def of(room: str) -> int:
        if room not in height:
            height[room] = 1 + max((of(other) for other in graph[room]), default=-1)
        return height[room]

    for room in graph:
        of(room)
    return [sorted(r for r in graph if height[r] == floor) for floor in range(max(height.values()) + 1)]


def table(graph: Arrows) -> str:
    """Return the rooms as a Markdown table, the highest floor first."""
    lines = ["| room | what is in it | imports |", "|---|---|---|"]
    for floor in reversed(floors(graph)):
        for room in floor:
            names = ", ".join(f"`{other}`" for other in sorted(graph[room])) or "nothing but `errors`"
            lines.append(f"| `{room}/` | {rooms()[room]} | {names} |")
            inside = (folder for folder in folders() if _room(folder) == room)
            lines += [f"| &nbsp; `{folder}/` | {folders()[folder]} | |" for folder in inside]
    return "\n".join(lines)


def with_table(page: str, graph: Arrows) -> str:
    """Return the page with its table brought up to date; ValueError when it has no place for it."""
    block = f"{BEGIN}\n\n{table(graph)}\n\n{END}"
    changed, count = re.subn(rf"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: block, page, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"the page has {count} blocks that begin with {BEGIN}")
    return changed


def shortest(graph: Arrows) -> Arrows:
    """Return the arrows without those that a longer way also shows."""

    def reach(room: str) -> frozenset[str]:
        return frozenset().union(*(graph[o] | reach(o) for o in graph[room]))

    return {r: frozenset(o for o in graph[r] if not any(o in reach(x) for x in graph[r])) for r in graph}


def picture(graph: Arrows) -> str:
    """Return the rooms as an SVG drawing; an arrow leads from a room to one that it imports."""
    rows = floors(graph)
    widest = max(len(row) for row in rows)
    width = 2 * MARGIN + widest * WIDTH + (widest - 1) * GAP
    height = 2 * MARGIN + len(rows) * HEIGHT + (len(rows) - 1) * RISE
    at = {}
    for number, row in enumerate(reversed(rows)):
        left = (width - len(row) * WIDTH - (len(row) - 1) * GAP) / 2
        at.update({r: (left + i * (WIDTH + GAP), MARGIN + number * (HEIGHT + RISE)) for i, r in enumerate(row)})
    drawn = [_arrow(at[room], at[other]) for room, others in shortest(graph).items() for other in sorted(others)]
    drawn += [_box(room, *place) for room, place in at.items()]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="14">',
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto"><path d="M0 0L8 4L0 8z" fill="#667"/></marker></defs>',
            f'<rect width="{width}" height="{height}" fill="#fff"/>',
            *drawn,
            "</svg>\n",
        ]
    )


def _arrow(start: tuple[float, float], end: tuple[float, float]) -> str:
    x1, y1, x2, y2 = start[0] + WIDTH / 2, start[1] + HEIGHT, end[0] + WIDTH / 2, end[1]
    bend = (y2 - y1) / 2
    return (
        f'<path d="M{x1:g} {y1:g}C{x1:g} {y1 + bend:g} {x2:g} {y2 - bend:g} {x2:g} {y2:g}" fill="none" '
        'stroke="#99a" marker-end="url(#tip)"/>'
    )


def _box(room: str, x: float, y: float) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="5" fill="#eef3fb" stroke="#446"/>'
        f'<text x="{x + WIDTH / 2:g}" y="{y + HEIGHT / 2 + 5:g}" text-anchor="middle">{escape(room)}</text>'
    )


def main(arguments: list[str]) -> int:
    """Bring the page up to date and draw the picture; the two files are the arguments."""
    page, drawing = map(Path, arguments)
    page.write_text(with_table(page.read_text("utf-8"), arrows()), "utf-8")
    drawing.write_text(picture(arrows()), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
