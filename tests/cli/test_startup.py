"""A command loads what it needs and no more (T-76): what it does not need costs everybody who waits for `--help`."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest
from support.gates import LONG
from support.places import PLAYBOOKS

NETWORK = ("pyVmomi", "paramiko", "cryptography")
TERMINAL = ("rich",)
MODELS = ("pydantic", "yaml", "sqlite3")
FEW = (*NETWORK, *TERMINAL, *MODELS, "importlib.metadata", "concurrent.futures", "email", "http.client")
CASES = [
    (["--version"], FEW),
    (["--help"], FEW),
    (["apply", "--help"], FEW),
    (["lab", "--help"], (*NETWORK, *TERMINAL)),
    (["mig", "explain", "3g.20gb,3g.20gb", "--gpu", "a100-40gb"], (*NETWORK, *TERMINAL)),
    (["mig", "layouts", "a30-24gb"], (*NETWORK, *TERMINAL)),
    (["vgpu", "list"], (*NETWORK, *TERMINAL)),
    (["schema", "playbook"], (*NETWORK, *TERMINAL, *MODELS)),
    (["run", "list"], (*NETWORK, *TERMINAL, "vsphere_ai.planning", "vsphere_ai.resources")),
    (["report", "nothere.json"], (*NETWORK, *TERMINAL, "jinja2")),
    (["run", "show", "20260101-000000-dead"], (*NETWORK, *TERMINAL)),
    (["plan", "nothere.yml"], (*NETWORK, *TERMINAL)),
    (["plan", "-i", "nothere.yml", str(PLAYBOOKS / "pvrdma-only.yml")], (*NETWORK, *TERMINAL)),
]


MOST_MODULES = [
    (["--version"], 25),
    (["--help"], 25),
    (["schema", "playbook"], 45),
    (["lab", "status"], 55),
    (["run", "list"], 70),
]
"""Commands that make no plan, and how many modules of the tool each loads at most."""
ONE_VM = "- name: one VM\n  vms: train-04\n  hardware: {version: 19}\n"
MOST_OF_A_PLAN = 530
NOT_FOR_ONE_VM = (
    *("paramiko", "cryptography", "rich", "jinja2", "highspy", "numpy", "vsphere_ai.lab", "vsphere_ai.training"),
    *("vsphere_ai.sets.host_choice", "vsphere_ai.sets.leases", "vsphere_ai.sets.outputs", "vsphere_ai.capacity.moves"),
    *("vsphere_ai.planning.moves.departures", "vsphere_ai.planning.moves.elsewhere", "vsphere_ai.report.pages"),
    *("vsphere_ai.planning.resume", "vsphere_ai.runs.shared_record", "vsphere_ai.report.plans.outputs_text"),
)
"""What a plan without sets, host losses, moves and unfinished runs is not made with."""


@pytest.mark.parametrize(("arguments", "unwanted"), CASES, ids=lambda v: " ".join(v[:2]))
def test_a_command_loads_no_more_than_it_needs(arguments, unwanted, tmp_path):
    loaded = modules_of(arguments, tmp_path)
    assert [name for name in unwanted if name in loaded] == []


@pytest.mark.parametrize(("arguments", "most"), MOST_MODULES, ids=lambda v: " ".join(v) if isinstance(v, list) else "")
def test_a_command_that_makes_no_plan_loads_few_modules(arguments, most, tmp_path):
    own = sorted(name for name in modules_of(arguments, tmp_path) if name.partition(".")[0] == "vsphere_ai")
    assert len(own) <= most, own


def test_a_plan_of_one_vm_loads_no_more_than_it_needs(lab, tmp_path):
    (tmp_path / "vsphere-ai.yaml").write_text("lab: true\n", "utf-8")
    (tmp_path / "one.yml").write_text(ONE_VM, "utf-8")
    loaded = modules_of(["plan", "one.yml"], tmp_path)
    assert "vsphere_ai.execution.vcenter_checks" in loaded, "vCenter was asked about the plan that was made"
    assert [name for name in NOT_FOR_ONE_VM if name in loaded] == []
    own = sorted(name for name in loaded if name.partition(".")[0] == "vsphere_ai")
    assert len(own) <= MOST_OF_A_PLAN, own


def modules_of(arguments, tmp_path):
    """Return the names of the modules that are loaded once a command has ended, in a process of its own."""
    program = (
        "import sys; from vsphere_ai.cli.main import main; main(sys.argv[1:]); print('LOADED', *sorted(sys.modules))"
    )
    environment = {**os.environ, "VSPHERE_AI_STATE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=LONG, env=environment,
        cwd=tmp_path, check=True,
    )  # fmt: skip
    first, *names = done.stdout.splitlines()[-1].split()
    assert first == "LOADED"
    return set(names)


MODULES = ["execution.runner", "execution.actions.executor", "report.plans.run_text", "report.plans.run_json"]


@pytest.mark.parametrize("module", MODULES)
def test_what_tells_of_a_run_needs_no_library_for_a_connection(module):
    program = f"import sys, vsphere_ai.{module}; print([m for m in {(*NETWORK, *TERMINAL)!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LONG, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "most"), [(["--version"], 0.120), (["--help"], 0.250), (["apply", "--help"], 0.250)]
)
def test_a_quick_command_is_quick(arguments, most):
    """CPU seconds, the best of several: on a busy machine the others measure the neighbours."""
    spent = []
    for _ in range(12):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "vsphere_ai", *arguments], capture_output=True, check=True, timeout=LONG)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        if min(spent) <= most:
            return
    pytest.fail(f"{min(spent):.3f} s of CPU time, {most} s at most")
