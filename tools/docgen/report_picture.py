"""Picture of a report as a file of its own: ``python -m tools.docgen.report_picture REPORT.html CLASS FILE.svg``.

CLASS is that of the picture: ``gpus``, ``time`` or ``paths``; the first one of the report is taken.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_PARTS = "frame|grid|before|after|ink|span|node|edge|pass|warn|fail|unknown"
_RULES = re.compile(rf"^(?::root\{{|svg [a-z.]|\.(?:{_PARTS})\b)")
"""Rules of the page's style that a picture needs; it is always light, as pages around it may be in either."""
MARGIN = 12


def picture_of(page: str, kind: str) -> str:
    """Return a picture of a page as an SVG file, with the colours and patterns that it has there on light pages.

    `ValueError` where the page has no such picture.
    """
    found = re.search(rf'<svg class="{kind}[^"]*"(.*?)>(.*?)</svg>', page, re.DOTALL)
    patterns = re.search(r"<defs>.*?</defs>", page, re.DOTALL)
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    if not found or not patterns or not style:
        raise ValueError(f"the page has no picture {kind}")
    rules = [line for line in style[1].splitlines() if _RULES.match(line)]
    attributes = found[1].replace(' role="img"', ' xmlns="http://www.w3.org/2000/svg" role="img"')
    wide, high = (int(float(n)) + 2 * MARGIN for n in re.findall(r'viewBox="0 0 ([0-9.]+) ([0-9.]+)"', attributes)[0])
    attributes = re.sub(r'viewBox="[^"]*"', f'viewBox="-{MARGIN} -{MARGIN} {wide} {high}"', attributes)
    head = f'<svg width="{wide}" height="{high}"{attributes}>'
    back = f'<rect x="-{MARGIN}" y="-{MARGIN}" width="{wide}" height="{high}" fill="var(--bg)"/>'
    return "\n".join((head, "<style>", *rules, "</style>", patterns[0], back, found[2].strip(), "</svg>", ""))


def main(arguments: list[str]) -> int:
    """Write a picture of a report."""
    report, kind, file = arguments
    Path(file).write_text(picture_of(Path(report).read_text("utf-8"), kind), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
