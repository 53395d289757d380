"""A new requirement of admission: ``python -m tools.new_requirement NAME`` writes its files, which pass the tests.

The requirement they make compares the VMs that run on a host with what it supports. What it is to judge instead
replaces that, in the product and, by facts of its own, in the lab.
"""

from __future__ import annotations

import sys

from tools.scaffolding import Generator, Scaffold, run

REQUIREMENT = '''"""The requirement $words of a VM on its host."""

from __future__ import annotations

from vsphere_ai.admission.base import RUNS, AdmissionCase, Quantity, Reason, requirement

MOST = "capability.maxHostRunningVms"  <<< the property paths that it reads beside those of every VM


@requirement(
    "admission.$dashed",
    "$Words",  <<< what it is about, in a few words
    occasions=RUNS,  <<< when it is asked
    source="vSphere Web Services API, HostCapability.maxHostRunningVms and VmLimitLicense",  <<< the public page
    reads={"HostSystem": (MOST,)},
    faults=("VmLimitLicense",),  <<< the faults of vCenter that it foresees
    shared=True,  <<< whether it depends on what else is there
)
def $name(case: AdmissionCase) -> Reason | None:
    """A host runs at most as many VMs as it supports; a release that shows no number has no limit."""  <<< its page
    most, running = case.host.get(MOST), case.situation.on(case.host.ref)
    need = len({*running, case.vm.ref})
    if most is None or need <= most:
        return None
    message = f"with the VM it runs {need} VMs, it supports {most}"
    return case.no(message, "power off another VM of the host", "VmLimitLicense", Quantity(need, most, "VMs"))
'''

LAB = '''"""$Words: a host of the lab runs at most as many VMs as it supports.

vSphere Web Services API, HostCapability.maxHostRunningVms and VmLimitLicense.  <<< the public page
"""

from __future__ import annotations

from pyVmomi import vim

from vsphere_ai.lab.admission import RUNS, CheckTests, Faults, LabCase, requirement
from vsphere_ai.lab.managed.running_vms import powered_on


@requirement(30, RUNS, CheckTests.HOST)  <<< its place among the faults, the occasions, the tests of vCenter's checkers
def $name(case: LabCase) -> Faults:
    """Yield a fault where as many VMs run on the host as it supports."""  <<< the same, by what the lab itself knows
    most = case.host["capability"].maxHostRunningVms
    others = [vm for vm in powered_on(case.farm, case.host) if vm is not case.vm]
    if most is not None and len(others) >= most:
        yield vim.fault.VmLimitLicense(limit=most, msg=f"The host runs at most {most} virtual machines.")
'''

TEST = '''"""The requirement `admission.$dashed`: worked examples."""

from __future__ import annotations

import pytest
from support.admission_farm import answer, farm, vm

from vsphere_ai.admission.requirements.$name import MOST


@pytest.mark.parametrize(
    ("most", "verdict", "faults"),
    [(1, "no", {"VmLimitLicense"}), (2, "yes", set()), (None, "yes", set())],  <<< figures -> the answer and the fault
)
def test_one_vm_runs_there_already(most, verdict, faults):
    assert answer(farm(**{MOST: most}), vm())[:2] == (verdict, faults)


def test_a_vm_that_runs_there_is_counted_once():
    situation = farm(**{MOST: 1})
    (running,) = situation.on("HostSystem:h").values()
    assert "admission.$dashed" not in answer(situation, running, "reconfigure")[2]
'''

LAB_TEST = '''"""The lab's requirement `$name`: what it refuses with which fault."""

from __future__ import annotations

import pytest
from pyVmomi import vim

from vsphere_ai.lab import admission
from vsphere_ai.lab.admission import Occasion, case_of
from vsphere_ai.lab.build import build
from vsphere_ai.lab.scenario_file import parse

FARM = """
name: x
clusters: [{name: c}]
hosts: [{name: h, cluster: c}]
vms: [{name: there, host: h, power: on}, {name: new, host: h}]
"""


@pytest.mark.parametrize(("most", "refused"), [(1, True), (2, False)])  <<< the same figures as for the product
def test_one_vm_runs_there_already(most, refused):
    farm = build(parse(FARM, "x.yml"), "")
    (host,) = farm.store.of(vim.HostSystem)
    new = next(vm for vm in farm.store.of(vim.VirtualMachine) if vm["name"] == "new")
    host["capability"].maxHostRunningVms = most
    faults = [type(f) for f in admission.refusals(case_of(farm, new, host, Occasion.POWER_ON))]
    assert (vim.fault.VmLimitLicense in faults) == refused
'''

SCAFFOLD = Scaffold(
    program="new_requirement",
    what="a requirement of admission",
    example="running_vms",
    files={
        "vsphere_ai/admission/requirements/$name.py": REQUIREMENT,
        "vsphere_ai/lab/admission/requirements/$name.py": LAB,
        "tests/admission/test_$name.py": TEST,
        "tests/lab/test_admission_$name.py": LAB_TEST,
    },
    generators=(Generator("tools.docgen.admission", page="docs/admission.md"),),
    then=(
        "fill in; the lab has to show what the requirement reads (vsphere_ai/lab/)",
        "tests/honesty/: how its fault comes into a case, and when it makes the job impossible",
        "make docs record: its page, and the recorded sessions where it reads a new property",
    ),
)

if __name__ == "__main__":
    sys.exit(run(SCAFFOLD, sys.argv[1:]))
