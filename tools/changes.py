"""Fragments of the CHANGELOG: ``changes/NAME.md`` holds a section's heading and items, so that changes do not meet.

``python -m tools.changes`` puts them at the beginning of their sections and removes the files; ``--check`` only reads.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
WIDEST = 125


class NotAFragment(ValueError):
    """A file is no fragment; the message names it, and what would work."""


def sections(changelog: str) -> tuple[str, ...]:
    """Return the headings of the newest version, in their order."""
    newest = re.split(r"(?m)^## ", changelog)[1]
    return tuple(re.findall(r"(?m)^### (.+)$", newest))


def fragment(path: Path, known: Sequence[str]) -> tuple[str, str]:
    """Return the section and the items of a fragment; `NotAFragment` for a file that is none."""
    lines = path.read_text("utf-8").strip().splitlines()
    heading = lines[0].removeprefix("### ") if lines else ""
    if heading not in known:
        raise NotAFragment(
            f"{path.name}:1: {heading!r} is no section of the CHANGELOG; write ### and one of: {', '.join(known)}"
        )
    body = lines[1:]
    if len(body) < 2 or body[0] or not body[1].startswith("- "):
        raise NotAFragment(f"{path.name}:2: a blank line and list items come next; begin each with '- '")
    for number, line in enumerate(body[1:], 3):
        if not line.startswith(("- ", "  ")):
            raise NotAFragment(f"{path.name}:{number}: this is no list item; begin it with '- ', go on with two blanks")
        if len(line) > WIDEST:
            raise NotAFragment(f"{path.name}:{number}: {len(line)} columns; break it at {WIDEST}")
    return heading, "\n".join(body[1:])


def merged(changelog: str, fragments: Sequence[tuple[str, str]]) -> str:
    """Return a CHANGELOG with items at the beginning of their sections of the newest version."""
    for heading, items in fragments:
        before, mark, after = changelog.partition(f"\n### {heading}\n\n")
        changelog = f"{before}{mark}{items}\n{after}"
    return changelog


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Merge the fragments, or with ``--check`` only read them; 0, or 1 with the faults on standard error."""
    changelog = root / "CHANGELOG.md"
    text = changelog.read_text("utf-8")
    paths = sorted(p for p in (root / "changes").glob("*.md") if p.name != "README.md")
    read, faults = [], []
    for path in paths:
        try:
            read.append(fragment(path, sections(text)))
        except NotAFragment as fault:
            faults.append(f"changes/{fault}")
    if faults:
        print("\n".join(faults), file=sys.stderr)
        return 1
    if "--check" not in arguments:
        changelog.write_text(merged(text, read), "utf-8")
        for path in paths:
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
