"""Writes the rules of the five pillars into a page: ``python -m tools.docgen.assessment docs/assessment.md``."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from vsphere_ai.compat.assessment import rules
from vsphere_ai.model.records.assessment import PILLARS

BEGIN, END = "<!-- rules: written by `make docs` -->", "<!-- end of rules -->"


def rules_table() -> str:
    """Return the rules of each pillar as Markdown tables."""
    parts = []
    for pillar in PILLARS:
        parts.append(
            f"## {pillar.capitalize()}\n\n| rule | about | what it says | verdicts | source |\n|---|---|---|---|---|"
        )
        for rule in (r for r in rules() if r.pillar == pillar):
            verdicts = "; ".join(f"{verdict}: {when}" for verdict, when in rule.verdicts.items())
            said = rule.question or " ".join(rule.doc.split())
            parts[-1] += f"\n| `{rule.id}` | {rule.about} | {said} | {verdicts} | {rule.source} |"
    return "\n\n".join([*parts, left_table()])


def left_table() -> str:
    """Return the rules that no playbook corrects, with the reasons, as a section with a Markdown table."""
    lines = ["## Rules that no playbook corrects", "", "| rule | why |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{rule.id}` | {rule.by_hand} |" for rule in rules() if rule.by_hand)])


def with_rules(page: str) -> str:
    """Return a page with its block of rules brought up to date; ValueError when it has no such block."""
    found, count = re.subn(
        f"{re.escape(BEGIN)}.*?{re.escape(END)}",
        lambda _: f"{BEGIN}\n\n{rules_table()}\n\n{END}",
        page,
        flags=re.DOTALL,
    )
    if count != 1:
        raise ValueError(f"the page has no block {BEGIN}")
    return found


def main(path: str) -> None:
    """Bring the block of a page up to date."""
    page = Path(path)
    page.write_text(with_rules(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
