"""T-64: any playbooks, faults, kills and resumes in any order; the farm's own judge finds nothing wrong at the end."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from reliability.operating import FAULTS, HOSTS, NAMES, VMS, Operator
from reliability.planted import Planted
from support.gates import LONG
from support.places import ROOT
from support.seeds import SEED, by_level, cases

EXAMPLES, STEPS = by_level((2, 10), (4, 30), (25, 30))


class Days(RuleBasedStateMachine):
    """What an operator does in any order."""

    def __init__(self, operator):
        super().__init__()
        self.operator = operator

    @initialize()
    def fresh(self):
        self.operator.do("fresh")

    @rule(hosts=st.sampled_from(sorted(HOSTS)))
    def write_hosts(self, hosts):
        self.operator.do("write_hosts", hosts=hosts)

    @rule(name=st.sampled_from(NAMES), what=st.sampled_from(sorted(VMS)))
    def write_vm(self, name, what):
        self.operator.do("write_vm", name=name, what=what)

    @rule(name=st.sampled_from(NAMES))
    def leave_vm_out(self, name):
        self.operator.do("leave_vm_out", name=name)

    @rule(fault=st.sampled_from(FAULTS), number=st.integers(0, 1 << 20))
    def fault(self, fault, number):
        self.operator.do("fault", fault=fault, number=number)

    @rule(kill=st.none() | st.integers(50, 1500))
    def go_on(self, kill):
        """Resume what is unfinished, else apply; which of them is no precondition, because chance decides on it."""
        if self.operator.half:
            self.operator.do("resume", kill=kill)
        elif self.operator.vms or self.operator.hosts != "nothing":
            self.operator.do("apply", kill=kill)

    def teardown(self):
        self.operator.end()


def any_days(number, operator, examples=EXAMPLES):
    """Run that many examples, each with an operator of its own."""
    run_state_machine_as_test(
        seed(SEED * 1000 + number)(lambda: Days(operator())),
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            report_multiple_bugs=False,
            phases=[Phase.generate],  # to make a failing case smaller it would have to fail every time
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("number", cases(2, 8))
def test_any_order_of_things(mission, tmp_path, monkeypatch, number):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "state"))
    any_days(number, lambda: Operator(mission, tmp_path))


class Nobody:
    """A mission without a farm, for steps that only write."""

    def __getattr__(self, name):
        return Nobody()

    def __call__(self, *given, **named):
        return Nobody()


def test_what_fails_is_kept_as_a_test_that_fails_alike(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Planted, "failures", tmp_path / "failures")
    with pytest.raises(AssertionError, match="planted"):
        any_days(0, lambda: Planted(Nobody(), tmp_path), examples=20)
    said = capsys.readouterr().out
    kept = sorted((tmp_path / "failures").iterdir())
    assert all(f"pytest {path}" in said for path in kept)
    path = kept[-1]
    spec = importlib.util.spec_from_file_location("kept", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    *before, last = module.STEPS
    assert before[0] == ("fresh", {})
    assert last[0] == "leave_vm_out"
    assert "leave_vm_out" not in {what for what, _ in before}
    argv = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider", str(path)]
    environment = {**os.environ, "RELIABILITY_FAILURES": str(tmp_path / "again")}
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "AssertionError: planted" in done.stdout
    assert "1 failed" in done.stdout
    (again,) = (tmp_path / "again").iterdir()
    assert (
        f"STEPS = {again.read_text().partition('STEPS = ')[2]}"
        == f"STEPS = {path.read_text().partition('STEPS = ')[2]}"
    )
