"""Writes the documentation page of admission: ``python -m tools.docgen.admission > docs/admission.md``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from textwrap import fill

from vsphere_ai.admission.admit import every_requirement
from vsphere_ai.admission.base import EVERY, Requirement
from vsphere_ai.admission.oracles import DIFFERENCES, ORACLES, Oracle, OracleDifference
from vsphere_ai.app.project.explanations.admission import occasions_of

HEAD = """\
# Admission

Whether a VM may run on a host is decided in one place. Every plan asks it for each VM that it makes, powers on, powers
off and on again, moves, changes while it runs, or makes leave a host: for the VM as the plan leaves it, on the host as
the plan leaves it, beside all other VMs that run there at that moment. The requirements below are all that is asked. A
plan names every reason that blocks a VM, not only the first, with the figures and what would work.

- **no**: a bound proves that vCenter would refuse; the plan is refused and nothing is changed.
- **unknown**: what was read does not decide it (a property was not shown, or the figure lies between two bounds). It is
  shown as not certain and refuses nothing.
- **preferred**: it is possible, and something that need not hold is against it. It is shown as a warning.

Where hosts can be chosen, only hosts that take the VM are: for new VMs of sets, and for VMs with vGPUs that a run moves
itself. DRS chooses places of other VMs that leave a host for maintenance mode; a plan that needs DRS is accepted only
if there are places for all VMs of a window together. Spare hosts (`spare_hosts`, `capacity`, `assess`) have room on
their GPUs for the VMs of a lost host, and take them beside each other when vSphere HA restarts them. `adopt` names what
would keep a VM from powering on again.

What is marked *unverified* has no public source and was never tried on a real vCenter.

vCenter is [asked too](#vcenters-own-checks), where it answers without effect.

This page is generated from the requirements: `python -m tools.docgen.admission > docs/admission.md`.
"""


CHECKS = """\
## vCenter's own checks

`plan`, `apply` and `bench crossover` ask vCenter about what the plan does, where it answers without effect; so do
`resume` and `rollback`, but for what the run has out of service. vCenter judges by the state of now, so it is asked
only about what the plan does not change first; for the rest the requirements decide alone, and the plan shows what
was not asked. Each question is asked once, at most 64 checks and 64 dry runs of evacuations, several at a time. The
checks appear in the list of tasks of vCenter.

How vCenter answers on a real system was never recorded: unverified. Known gaps of the checks are in the last column.
"""


def page() -> str:
    """Return the page in Markdown."""
    parts = [HEAD, *_index(), "", CHECKS, *_checks(), ""]
    parts += [_difference(each) for each in DIFFERENCES]
    parts += ["\n".join(_section(each)) for each in every_requirement()]
    return "\n".join(parts).rstrip() + "\n"


def _index() -> Iterator[str]:
    yield "| requirement | about |\n|---|---|"
    for each in every_requirement():
        yield f"| [`{each.id}`](#{each.id.replace('.', '')}) | {each.title} |"


def _checks() -> Iterator[str]:
    """Yield the table of checks, and that of rules about their answers."""
    yield "| check | asked about | does not look at |\n|---|---|---|"
    for oracle in ORACLES:
        yield f"| `{oracle.name}` | {oracle.asked} | {_missed(oracle)} |"
    yield "\n| rule | about |\n|---|---|"
    for each in DIFFERENCES:
        yield f"| [`{each.id}`](#{each.id.replace('.', '')}) | {each.title} |"


def _missed(oracle: Oracle) -> str:
    return ", ".join(f"`{rule}`" for rule in oracle.misses)


def _difference(each: OracleDifference) -> str:
    text = fill(f"{each.title}. {each.doc}", 120)
    return f"## {each.id}\n\n{text}\n\n- Verdict: {each.verdict}\n- Remedy: {each.help}\n"


def _section(each: Requirement) -> Iterator[str]:
    yield f"## {each.id}\n"
    yield f"{each.doc}\n"
    yield f"- Asked: {occasions_of(each) if each.occasions != EVERY else 'always'}"
    yield f"- Depends on the other VMs there: {'yes' if each.shared else 'no'}"
    for managed, paths in each.reads.items():
        yield f"- Reads of {managed}: {', '.join(f'`{p}`' for p in paths)}"
    if each.faults:
        yield f"- Foresees the faults {', '.join(f'`{f}`' for f in each.faults)}"
    yield f"- Source: {each.source}\n"


def main() -> None:
    """Write the page to standard output."""
    sys.stdout.write(page())


if __name__ == "__main__":
    main()
