"""Variables of a playbook as lines of a plan: each value, what gives it, and which hosts have it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vsphere_ai.model.names.name_ranges import fold
from vsphere_ai.model.text import safe
from vsphere_ai.model.variables import VariableValue, value_text
from vsphere_ai.report.folding import Line

LONGEST = 60


def variable_lines(variables: Sequence[VariableValue]) -> Iterator[Line]:
    """Yield a line per value that is used; a value of some hosts only names them in ranges."""
    for each in variables:
        if not each.used:
            continue
        value = safe(value_text(each.value))
        value = value if len(value) <= LONGEST else f"{value[: LONGEST - 3]}..."
        hosts = f" for {', '.join(fold(each.targets))}" if each.targets else ""
        play = f" of '{safe(each.play)}'" if each.play else ""
        where = f": {safe(each.place)}" if each.place else ""
        yield f"  {each.name} = {value}{hosts}  ({safe(each.level)}{play}{where})", 6
