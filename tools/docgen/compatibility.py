"""Writes the documentation page of the rules: ``python -m tools.docgen.compatibility > docs/compatibility.md``."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from vsphere_ai.app.project.explanations.rules import concerned, verdicts_of
from vsphere_ai.compat.base import CompatRule
from vsphere_ai.compat.gate import rules

HEAD = """\
# Compatibility rules

Before anything is changed, every target of a playbook is checked against these rules; `vsphere-ai check` asks them
without a playbook. Each finding has a rule id, a verdict, the evidence (property path and value) and a source.

- **pass**: the evidence shows that it is as it should be.
- **warn**: possible or suspected; nothing is refused.
- **fail**: it cannot work; the plan is refused.
- **unknown**: a property could not be read, for want of a privilege or because the object is disconnected. Unknown is
  never a pass; where a rule says so, it refuses the plan as well.

What is marked *unverified* is common knowledge that no public VMware or NVIDIA page was found for.

A VM is checked together with the hosts it may run on. A host no play names refuses nothing as long as another host can
run the VM: its failures are shown as warnings.

This page is generated from the rules: `python -m tools.docgen.compatibility > docs/compatibility.md`.
"""
TARGETS = {"vcenter": "vCenter", "host": "ESXi hosts", "vm": "Virtual machines"}


def page() -> str:
    """Return the page in Markdown."""
    parts = [HEAD, *_index(), ""]
    for target, title in TARGETS.items():
        parts.append(f"## {title}\n")
        for rule in rules():
            if rule.target == target:
                parts.append("\n".join(_section(rule)))
    return "\n".join(parts).rstrip() + "\n"


def _index() -> Iterator[str]:
    yield "| rule | checks | for |\n|---|---|---|"
    for rule in rules():
        yield f"| [`{rule.id}`](#{_anchor(rule)}) | {rule.title} | {concerned(rule)} |"


def _section(rule: CompatRule) -> Iterator[str]:
    yield f"### {rule.id}\n"
    yield f"{rule.doc}\n"
    yield "| verdict | when |\n|---|---|"
    for verdict, when in verdicts_of(rule).items():
        yield f"| {verdict} | {when} |"
    yield f"\n- Relevant for: {concerned(rule)}"
    for managed, paths in rule.properties.items():
        yield f"- Reads of {managed}: {', '.join(f'`{p}`' for p in paths)}"
    yield f"- Source: {rule.source}\n"


def _anchor(rule: CompatRule) -> str:
    """Return GitHub's anchor of the heading: lower case without dots."""
    return rule.id.replace(".", "")


def main() -> None:
    """Write the page to standard output."""
    sys.stdout.write(page())


if __name__ == "__main__":
    main()
