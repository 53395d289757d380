"""Template of a new kind: ``python -m tools.new_kind NAME`` writes its files, which work and pass the tests at once.

The kind they make sets one advanced option of hosts. What it is to set instead replaces that, file by file.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from string import Template

ROOT = Path(__file__).parents[1]
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
GENERATED = (
    ("tools.docgen.kinds", "docs/kinds", "docs/index.md"),
    ("tools.docgen.role", "docs/security.md"),
)
"""Programs that bring the new kind into pages, with their arguments."""

KIND = '''"""$Words of a host: one advanced option."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.privilege import Duty
from vsphere_ai.model.state import Change, Problem, Target, setting
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.factories import invoke
from vsphere_ai.resources.base import Resource, Traits

OPTION = "UserVars.$Class"
WORDS = {True: "on", False: "off"}


class $Class(Resource):
    """Switches $words of a host on or off; it needs neither maintenance mode nor a restart."""

    kind = "$name"
    target = "host"
    traits = Traits(
        properties={"HostSystem": (f"option:{OPTION}",)},
        duties=(Duty("`$name`", "hosts", ("UpdateOptions",)),),
    )

    enabled: bool | None = setting(f"$Words, advanced option `{OPTION}`.")

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read the option; None where the host does not show it."""
        value = facts.get(f"option:{OPTION}")
        return None if value is None else cls.model_construct(enabled=value == WORDS[True])

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """The host does not have the option."""
        facts = view.facts(target.ref)
        if facts.get(f"option:{OPTION}") is None:
            why = facts.unreadable.get(f"option:{OPTION}", "the host does not know it")
            message = f"the advanced option {OPTION} cannot be read: {why}"
            yield self.problem(target, "unknown", message, "check the ESXi release of the host")

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Set the option."""
        option = {"_typeName": "OptionValue", "key": OPTION, "value": WORDS[bool(self.enabled)]}
        summary = f"switch $words {WORDS[bool(self.enabled)]}"
        yield invoke(change, "configManager.advancedOption", "UpdateOptions", {"changedValue": (option,)}, summary)
'''

LAB = '''"""$Words of a host: what the lab's hosts have of it from the start."""

from __future__ import annotations

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.hardware.host import Host
from vsphere_ai.lab.managed.host_managers import prepares

# A manager of its own is registered here as well: see date_time_system.py for one with methods that read, and
# service_system.py for one that follows the machine and whose methods change it.


@prepares
def prepare(_farm: Farm, host: Host) -> None:
    """Give a host the option, off."""
    host.advanced_options["UserVars.$Class"] = "off"
'''

TEST = '''"""The kind `$name`: one advanced option, set only when it differs."""

from __future__ import annotations

import pytest
from support.estates import ESX1, estate, host
from support.judging import judge

from vsphere_ai.resources.$name import OPTION, WORDS, $Class

ALONE = "- hosts: esx01.lab.local\\n  $name: {enabled: true}\\n"
APART = "it shares nothing with other kinds"


def asked(wanted: bool, value: str | None):
    return judge($Class(enabled=wanted), ESX1, estate(host(ESX1, **{f"option:{OPTION}": value})))


@pytest.mark.parametrize(("wanted", "value"), [(True, "on"), (False, "off")])
def test_as_wanted(wanted, value):
    judged = asked(wanted, value)
    assert (judged.fields, judged.steps, judged.problems) == ({}, (), {})


@pytest.mark.parametrize(("wanted", "value"), [(True, "off"), (False, "on")])
def test_only_a_difference_is_set(wanted, value):
    judged = asked(wanted, value)
    assert judged.fields == {"enabled": (not wanted, wanted)}
    assert (judged.step.method, judged.step.args["changedValue"][0]["value"]) == ("UpdateOptions", WORDS[wanted])


def test_a_host_without_the_option():
    assert set(asked(True, None).problems) == {"$name.unknown"}
'''

PAGE = """# $name: $words of a host

```yaml playbook
- hosts: gpu_hosts
  $name: {enabled: true}
```

Switches $words of a host on or off.

<!-- fields: written by `make docs` -->
<!-- end of fields -->

## What it disrupts

Nothing: it needs neither maintenance mode nor a restart.

## When it refuses

| rule | cause | what to do |
|---|---|---|
| `$name.unknown` | the host does not have the advanced option | check the ESXi release of the host |
"""

FILES = {
    "vsphere_ai/resources/$name.py": KIND,
    "vsphere_ai/lab/managed/${name}_of_host.py": LAB,
    "tests/resources/test_$name.py": TEST,
    "docs/kinds/$name.md": PAGE,
}


def files(name: str) -> dict[str, str]:
    """Return the files of a new kind: path below the repository -> text. ValueError for a name that is not one."""
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a kind: lower-case words joined by _, such as power_policy")
    words = name.replace("_", " ")
    parts = {
        "name": name,
        "Class": "".join(word.capitalize() for word in name.split("_")),
        "words": words,
        "Words": words.capitalize(),
    }
    return {Template(path).substitute(parts): Template(text).substitute(parts) for path, text in FILES.items()}


def main(arguments: Sequence[str]) -> int:
    """Write the files of a new kind and bring it into the generated pages; return the exit code."""
    if len(arguments) != 1:
        print("usage: python -m tools.new_kind NAME", file=sys.stderr)
        return 64
    try:
        made = files(arguments[0])
    except ValueError as error:
        print(error, file=sys.stderr)
        return 64
    there = [path for path in made if (ROOT / path).exists()]
    if there:
        print(f"{', '.join(there)}: there already, nothing was written", file=sys.stderr)
        return 64
    for path, text in made.items():
        (ROOT / path).write_text(text, encoding="utf-8")
        print(path)
    for module, *pages in GENERATED:
        subprocess.run([sys.executable, "-m", module, *pages], cwd=ROOT, check=True)  # noqa: S603 - our own programs
    print("Next: tests/recorded/record.py, because a new property is read; then replace the option by what is meant.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
