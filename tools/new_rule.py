"""A new compatibility rule: ``python -m tools.new_rule NAME`` writes its files, which pass the tests at once.

The rule they make looks at whether a host is powered on. What it is to judge instead replaces that, file by file.
"""

from __future__ import annotations

import sys

from tools.scaffolding import Generator, Scaffold, run

RULE = '''"""The rule about $words of a host."""

from __future__ import annotations

from vsphere_ai.compat.base import RuleCase, host_rule  <<< vcenter_rule, host_rule or vm_rule: whom it is about
from vsphere_ai.model.finding import Finding

POWER = "runtime.powerState"  <<< the property paths that it reads


@host_rule(
    "host.$dashed",  <<< its id, which stays
    "$Words",  <<< what holds where it passes, in a few words
    source="vSphere Web Services API reference, HostRuntimeInfo.powerState",  <<< the public page it stands on
    verdicts={  <<< when each verdict is given: the table on its page
        "pass": "`poweredOn`",
        "warn": "`unknown`",
        "fail": "`poweredOff` or `standBy`",
    },
    reads=(POWER,),
)
def host_$name(case: RuleCase) -> Finding:
    """A host that is off, or that vSphere DPM has put into standby mode, cannot be changed."""  <<< its paragraph
    power = case.read(POWER)
    if power.value == "poweredOn":
        return case.passed("the host is powered on", power)
    if power.value == "unknown":
        return case.warned("vCenter does not know whether the host is powered on", power)
    return case.failed(f"host is {power.value}", power, help="power the host on first")  <<< what would work
'''

TEST = '''"""The rule `host.$dashed`: its verdicts in a table, and what it advises."""

from __future__ import annotations

from vsphere_ai.compat.rules.$name import POWER, host_$name

HEALTHY = {"host": {POWER: "poweredOn"}}  <<< what it reads, as a healthy vcenter, host or vm shows it
VERDICTS = [  <<< rule, changed properties, planned states, verdict, words of the message: every verdict of its page
    ("host.$dashed", {}, {}, "pass", "powered on"),
    ("host.$dashed", {POWER: "unknown"}, {}, "warn", "does not know"),
    ("host.$dashed", {POWER: "standBy"}, {}, "fail", "standBy"),
]
OPTIONAL: dict[str, set[str]] = {}  <<< rule -> paths that it can do without
ELSEWHERE: set[tuple[str, str]] = set()  <<< (rule, verdict) that depends on other objects, and is tested below


def test_the_remedy_is_possible(world):
    (finding,) = host_$name.check(world.host, world.view({world.host.ref: {POWER: "poweredOff"}}))
    assert (finding.verdict, finding.remedy) == ("fail", "power the host on first")
'''

SCAFFOLD = Scaffold(
    program="new_rule",
    what="a compatibility rule",
    example="power_state",
    files={
        "vsphere_ai/compat/rules/$name.py": RULE,
        "tests/compat/test_${name}_rule.py": TEST,
    },
    generators=(Generator("tools.docgen.compatibility", page="docs/compatibility.md"),),
    then=(
        "fill in; the lab has to show what the rule reads (vsphere_ai/lab/)",
        "make docs record: its page, and the recorded sessions where it reads a new property",
    ),
)

if __name__ == "__main__":
    sys.exit(run(SCAFFOLD, sys.argv[1:]))
