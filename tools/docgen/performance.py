"""Writes measured figures into a page: ``python -m tools.docgen.performance RESULTS PAGE PICTURES``.

The page has a block for each subject of the results, between the lines ``<!-- results: SUBJECT -->`` and
``<!-- end of results -->``; the text around them is written by hand. Drawings of the growth go into the folder.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.docgen.growth_plot import plot
from tools.docgen.measured import Results, Row, cases, columns, read, series
from tools.docgen.targets import judged

BLOCK = re.compile(r"(<!-- results: (?P<name>[a-z]+) -->\n).*?(<!-- end of results -->)", re.DOTALL)
DRAWINGS = {
    "reading": ("lab", "Reading an environment of the lab", "CPU seconds"),
    "commands": ("lab", "Commands in an environment of the lab", "CPU seconds"),
    "growth": ("200 power cycles", "Planning 200 power cycles, without a vCenter", "CPU seconds"),
    "planning": ("targets of a playbook", "Planning, without a vCenter", "CPU seconds"),
    "capacity": ("8 GPUs on each host", "Questions of capacity, 8 GPUs on each host", "CPU seconds"),
}
"""Of each subject that grows: the case that is drawn, the title, and the unit."""


QUIET = 0.25
"""Load of a machine on which nothing else runs, but what is always there."""


def machine_text(results: Results) -> str:
    """Return what the figures were measured on."""
    said = ", ".join(f"{key} {value}" for key, value in results.machine.items())
    busy = "nothing else ran" if results.load < QUIET else f"other programs wanted {results.load:.0%} of the cores"
    return f"Measured on {results.date}, when {busy}. The machine: {said}."


def targets_text(results: Results) -> str:
    """Return the targets as a table."""
    head = "| figure | at most | measured | met |\n|---|---|---|---|"
    return "\n".join([head, *(f"| {' | '.join(line)} |" for line in judged(results.rows, busy=results.load >= QUIET))])


def subject_text(rows: Sequence[Row]) -> str:
    """Return a table for each case of one subject, at its largest size; and the growth, if that is drawn."""
    largest = {row.case: row.size for row in sorted(rows, key=lambda row: row.size.vms)}
    parts = []
    for members in cases(row for row in rows if row.size == largest[row.case]):
        found = [[head, *cells] for head, *cells in columns(members)]
        lines = [f"**{members[0].case}** ({members[0].size})", ""]
        for number, line in enumerate(zip(*found, strict=True)):
            lines.append(f"| {' | '.join(line)} |")
            if not number:
                lines.append("|---" * len(line) + "|")
        parts.append("\n".join(lines))
        parts += [f"{row.who}: {row.others}." for row in members if row.others]
    subject = rows[0].subject
    if drawing_of(rows, subject):
        title = DRAWINGS[subject][1]
        parts.append(f"![{title}: growth with the VMs of the environment](pictures/growth-{subject}.svg)")
    return "\n\n".join(parts)


def drawing_of(rows: Sequence[Row], subject: str) -> str | None:
    """Return the drawing of a subject's growth; None where there is none."""
    if subject not in DRAWINGS:
        return None
    case, title, unit = DRAWINGS[subject]
    found = series(rows, subject, case)
    return plot(title, unit, found[:8]) if found else None


def with_results(page: str, results: Results) -> str:
    """Return a page with its blocks brought up to date; ValueError when a block and the results do not match."""
    subjects = {row.subject: [each for each in results.rows if each.subject == row.subject] for row in results.rows}
    texts = {name: subject_text(rows) for name, rows in subjects.items()}
    texts |= {"machine": machine_text(results), "targets": targets_text(results)}
    blocks = [found["name"] for found in BLOCK.finditer(page)]
    if sorted(blocks) != sorted(texts):
        raise ValueError(f"blocks of the page: {sorted(blocks)}; what was measured: {sorted(texts)}")
    return BLOCK.sub(lambda found: f"{found[1]}\n{texts[found['name']]}\n\n{found[3]}", page)


def drawings(results: Results) -> dict[str, str]:
    """Return the drawings by the names of their files."""
    found = {subject: drawing_of(results.rows, subject) for subject in DRAWINGS}
    return {f"growth-{subject}.svg": text for subject, text in found.items() if text}


def main(arguments: list[str]) -> int:
    """Bring the page and the drawings up to date."""
    file, page, folder = map(Path, arguments)
    results = read(file)
    page.write_text(with_results(page.read_text("utf-8"), results), "utf-8")
    for name, text in drawings(results).items():
        (folder / name).write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
