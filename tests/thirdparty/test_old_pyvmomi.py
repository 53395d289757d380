"""The product on the oldest pyVmomi it supports, before a vCenter that is newer than that pyVmomi.

`make test-oldest-pyvmomi` installs it beside the newest one, on which the lab runs, and names its folder in PYVMOMI_8.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from support.gates import LONG
from thirdparty.test_faces import FARM, PLAY, known

OLD = os.environ.get("PYVMOMI_8", "")
pytestmark = pytest.mark.skipif(not OLD, reason="make test-oldest-pyvmomi runs these")
TOO_EARLY = """
import sys
from pyVmomi import VmomiSupport
real = VmomiSupport.GetServiceVersions
VmomiSupport.GetServiceVersions = lambda name: [v for v in real(name) if v not in ("vim.version.v8_0_3_0",)]
from vsphere_ai.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
MODE = """
- hosts: esx01.lab.local
  graphics: {vgpu_mode: mixed_size}
  rolling: {evacuate: power_off}
"""


@pytest.fixture
def product(make_lab, tmp_path):
    """Run the product's command line on the old pyVmomi against a lab of a release; `program` replaces `-m`."""
    (tmp_path / "inventory.yml").write_text("lab: true\n", encoding="utf-8")

    def start(release, playbook):
        lab = make_lab(FARM.replace("VERSION", release))
        (tmp_path / "play.yml").write_text(playbook, encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": OLD, "VSPHERE_AI_LAB_DIR": str(lab.directory), "COLUMNS": "200"}

        def run(*arguments, program=("-m", "vsphere_ai")):
            command = [sys.executable, *program, *arguments, "-i", str(tmp_path / "inventory.yml")]
            return subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=LONG, check=False, cwd=tmp_path
            )

        return lab, run

    return start


def test_it_is_the_old_one_that_is_used():
    said = subprocess.run(
        [sys.executable, "-c", "from importlib import metadata; print(metadata.version('pyvmomi'))"],
        env={**os.environ, "PYTHONPATH": OLD}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout.startswith("8.0.3.")
    assert known("9.1.0.0"), "the lab runs on a newer one"


def test_a_newer_vcenter_is_planned_for_and_changed_and_doctor_says_what_is_newer(product):
    lab, run = product("9.1.0", PLAY)
    applied = run("apply", "play.yml", "--yes")
    assert applied.returncode == 0, applied.stdout + applied.stderr
    assert "ReconfigVM_Task" in [e["call"] for e in lab.get("/lab/ledger")["entries"]]
    looked = run("doctor").stdout
    assert "vCenter offers API 9.1.0.0; pyVmomi 8.0.3" in looked
    assert "knows up to 8.0.3.0, which has everything this release uses" in looked


def test_what_pyvmomi_cannot_see_is_named_by_doctor_and_by_a_plan_that_needs_it(product, tmp_path):
    """No pyVmomi that can be installed is too old for what is used today: one is made so by taking its newest away."""
    (tmp_path / "early.py").write_text(TOO_EARLY, encoding="utf-8")
    _, run = product("8.0.3", MODE)
    program = (str(tmp_path / "early.py"),)
    looked = run("doctor", program=program).stdout
    assert "cannot see HostGraphicsConfigDeviceType.vgpuMode (vGPU modes, since API 8.0.3.0)" in looked
    planned = run("plan", "play.yml", program=program)
    said = planned.stdout + planned.stderr
    assert planned.returncode == 1, said
    assert "graphics.vgpu-mode-version" in said
    assert "the installed pyVmomi knows the API up to 8.0.2.0" in said
    assert "pip install --upgrade pyvmomi" in said
