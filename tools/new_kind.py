"""A new kind: ``python -m tools.new_kind NAME`` writes its files, which work and pass the tests at once.

The kind they make sets one advanced option of hosts. What it is to set instead replaces that, file by file.
"""

from __future__ import annotations

import sys

from tools.scaffolding import Generator, Scaffold, run

KIND = '''"""$Words of a host: one advanced option."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.privilege import Duty
from vsphere_ai.model.state import Change, KindName, Target, setting
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.factories import invoke
from vsphere_ai.resources.base import Resource, Traits

OPTION = "UserVars.$Class"  <<< what it sets
WORDS = {True: "on", False: "off"}


class $Class(Resource):
    """Switches $words of a host on or off; it needs neither maintenance mode nor a restart."""

    kind = KindName("$name")
    target = "host"
    traits = Traits(
        properties={"HostSystem": (f"option:{OPTION}",)},  <<< what has to be read
        duties=(Duty("`$name`", "hosts", ("UpdateOptions",)),),  <<< the methods that its steps call
    )

    enabled: bool | None = setting(f"$Words, advanced option `{OPTION}`.")  <<< its fields, the keys of the playbook

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read the option; None where the host does not show it."""  <<< the present state out of the facts
        value = facts.get(f"option:{OPTION}")
        return None if value is None else cls.model_construct(enabled=value == WORDS[True])

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """The host does not have the option."""  <<< every reason why the wanted state cannot be reached
        facts = view.facts(target.ref)
        if facts.get(f"option:{OPTION}") is None:
            why = facts.unreadable.get(f"option:{OPTION}", "the host does not know it")
            message = f"the advanced option {OPTION} cannot be read: {why}"
            yield self.problem(target, "unknown", message, "check the ESXi release of the host")

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Set the option."""  <<< the steps that lead there, with what they disrupt
        option = {"_typeName": "OptionValue", "key": OPTION, "value": WORDS[bool(self.enabled)]}
        summary = f"switch $words {WORDS[bool(self.enabled)]}"
        yield invoke(change, "configManager.advancedOption", "UpdateOptions", {"changedValue": (option,)}, summary)
'''

LAB = '''"""$Words of a host: what the lab's hosts have of it from the start."""

from __future__ import annotations

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.managed.host_managers import prepares

# A manager of its own is registered here as well: see date_time_system.py for one with methods that read, and
# service_system.py for one that follows the machine and whose methods change it.


@prepares
def prepare(_farm: Farm, host: LabHost) -> None:
    """Give a host the option, off."""  <<< what hosts of the lab have of it
    host.advanced_options["UserVars.$Class"] = "off"
'''

TEST = '''"""The kind `$name`: one advanced option, set only when it differs."""

from __future__ import annotations

import pytest
from support.estates import ESX1, estate, host
from support.judging import judge

from vsphere_ai.resources.$name import OPTION, WORDS, $Class

ALONE = "- hosts: esx01.lab.local\\n  $name: {enabled: true}\\n"  <<< a playbook that changes something with it
APART = "it shares nothing with other kinds"  <<< remove it with BESIDE, a play beside other kinds


def asked(wanted: bool, value: str | None):
    return judge($Class(enabled=wanted), ESX1, estate(host(ESX1, **{f"option:{OPTION}": value})))


@pytest.mark.parametrize(("wanted", "value"), [(True, "on"), (False, "off")])  <<< tables of facts -> fields, steps
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

Switches $words of a host on or off.  <<< what it sets, for an operator

<!-- fields: written by `make docs` -->
<!-- end of fields -->

## What it disrupts

Nothing: it needs neither maintenance mode nor a restart.  <<< what it disrupts

## When it refuses

| rule | cause | what to do |
|---|---|---|
| `$name.unknown` | the host does not have the advanced option | check the ESXi release of the host |  <<< every rule
"""

SCAFFOLD = Scaffold(
    program="new_kind",
    what="a kind",
    example="power_policy",
    files={
        "vsphere_ai/resources/$name.py": KIND,
        "vsphere_ai/lab/managed/hosts/${name}_of_host.py": LAB,
        "tests/resources/test_$name.py": TEST,
        "docs/kinds/$name.md": PAGE,
    },
    generators=(
        Generator("tools.docgen.kinds", ("docs/kinds", "docs/index.md")),
        Generator("tools.docgen.role", ("docs/security.md",)),
        Generator("tools.docgen.schemas", ("docs/schemas",)),
    ),
    then=(
        "fill in; docs/writing-a-kind.md has the contract",
        "tests/honesty/faults_$name.py: what can make its steps fail, and the privileges that they take",
        "make docs record: its fields, and the recorded sessions, because a new property is read",
    ),
)

if __name__ == "__main__":
    sys.exit(run(SCAFFOLD, sys.argv[1:]))
