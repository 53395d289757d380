"""Every benchmark runs at the smallest size, writes its results, and says what is not installed; nothing is timed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.programs import needs_program
from support.seeds import FULL

from tools.docgen import measured

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "bench"
SUBJECTS = {
    "startup": {"python3 -c pass", "vsphere-ai --version", "vsphere-ai --help"},
    "reading": {"bytes only, nothing parsed", "vsphere-ai", "pyVmomi, PropertyCollector"},
    "peers": {"vsphere-ai", "pyVmomi, PropertyCollector", "pyVmomi, property by property"},
    "requests": {"show", "capacity", "check", "plan: a vGPU for one VM", "apply: a key of 10 VMs", "rdma trace"},
    "commands": {"start of the server", "plan of a change of every VM", "show", "capacity", "check"},
    "growth": {"plan of them", "read back one VM"},
    "planning": {"plan that switches each VM off and on", "its document", "each VM is refused"},
    "capacity": {"mig", "mig, a spare host", "too much", "vsphere-ai"},
    "sets": {"plan of existing VMs", "plan of VMs of a set, to be made"},
    "ipam": {"vsphere-ai"},
    "writes": {"the tasks alone", "vsphere-ai"},
    "ssh": {"paramiko alone, in as many threads", "vsphere-ai"},
    "rollout": {"the critical path", "vsphere-ai"},
    "fleet": {"the tasks alone, of one vCenter", "one after another", "with Dask, a worker for each"},
}
"""Who is measured on every machine."""
OF_EVERY_KIND = ("commands", "ssh")
"""One with a lab, one over SSH; those that start processes, plan and compute are in the tests below."""


def bench(into, *arguments, **environment):
    """Run the benchmarks as `make bench` does, with one run of each."""
    argv = [sys.executable, str(BENCH / "run.py"), "--size", "XS", "--times", "1", "--into", str(into), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, env={**os.environ, **environment}, check=False)


def test_every_subject_is_tried_here():
    """And every module that measures is a subject."""
    text = (BENCH / "run.py").read_text("utf-8")
    named = dict(re.findall(r'^    "(\w+)": "(\w+)",$', text, re.MULTILINE))
    assert list(named) == list(SUBJECTS)
    measuring = {file.stem for file in BENCH.glob("*.py") if "\ndef measure(size" in file.read_text("utf-8")}
    assert measuring == set(named.values())


@pytest.mark.parametrize(
    "subject",
    [
        pytest.param(subject, marks=needs_program("sshd", "ssh-keygen")) if subject == "ssh" else subject
        for subject in (SUBJECTS if FULL else OF_EVERY_KIND)
    ],
)
def test_a_subject_is_measured(subject, tmp_path):
    check_measured(bench(tmp_path, "--only", subject), tmp_path, subject)


def check_measured(done, folder, *subjects):
    assert done.returncode == 0, done.stderr
    results = measured.read(folder / "results.json")
    assert {row.subject for row in results.rows} == {*subjects}
    assert {row.who for row in results.rows} >= set().union(*(SUBJECTS[subject] for subject in subjects))
    assert all(value >= 0 for row in results.rows for value in row.median.values())
    assert all(row.median[row.by] > 0 for row in results.rows if row.by in row.median)
    assert results.machine["cores"] in done.stdout
    assert all(row.who in done.stdout for row in results.rows if row.subject == subjects[-1])


def test_what_is_there_is_measured_by_its_own_command(tmp_path):
    log, govc = tmp_path / "log", tmp_path / "govc"
    govc.write_text(f'#!/bin/sh\necho "$@" >> {log}\n', "utf-8")
    govc.chmod(0o755)
    done = bench(tmp_path, "--only", "startup", PATH=f"{tmp_path}:{os.environ['PATH']}", ANSIBLE_PLAYBOOK="")
    check_measured(done, tmp_path, "startup")
    assert "Ansible is not measured: there is no ansible-playbook" in done.stderr
    assert set(log.read_text("utf-8").splitlines()) == {"version"}
    who = {row.who for row in measured.read(tmp_path / "results.json").rows}
    assert {name.partition(" ")[0] for name in who} == {"python3", "vsphere-ai", "govc"}
    assert "govc version" in who


def test_what_is_not_installed_is_named(tmp_path):
    argv = [sys.executable, "-c", "import startup; print(*startup.works(), sep='\\n')"]
    environment = {**os.environ, "PATH": str(tmp_path), "PYTHONPATH": str(BENCH), "ANSIBLE_PLAYBOOK": ""}
    done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, env=environment, check=True)
    assert "govc is not measured: it is not installed" in done.stderr
    assert "Ansible is not measured: there is no ansible-playbook" in done.stderr
    assert "govc version" not in done.stdout


def test_a_subject_that_is_left_out_keeps_its_results(tmp_path):
    bench(tmp_path, "--only", "growth")
    check_measured(bench(tmp_path, "--only", "ipam"), tmp_path, "growth", "ipam")
    assert [row.subject for row in measured.read(tmp_path / "results.json").rows] == ["growth", "growth", "ipam"]


def test_a_subject_that_fails_is_named_and_the_others_are_measured(tmp_path):
    for name in ("ssh-keygen", "sshd"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 3\n", "utf-8")
        (tmp_path / name).chmod(0o755)
    done = bench(tmp_path, "--only", "ssh,ipam", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == 1
    assert "not measured, because it failed: ssh" in done.stderr
    assert {row.subject for row in measured.read(tmp_path / "results.json").rows} == {"ipam"}


def test_an_unknown_subject_is_refused(tmp_path):
    done = bench(tmp_path, "--only", "growth,speed")
    assert done.returncode == 2
    assert "no such subject: speed" in done.stderr
    assert not (tmp_path / "results.json").exists()
