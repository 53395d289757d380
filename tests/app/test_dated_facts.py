"""Tables of public facts have their sources and the day on which these were read."""

from __future__ import annotations

import re
from datetime import date, timedelta
from pathlib import Path

import pytest
from support.estates import ESX1, estate, host
from support.manifests import checked

from vsphere_ai.app.project.dated_facts import OLD_DAYS, fact_ages
from vsphere_ai.benchmarks import published
from vsphere_ai.compat.vgpu_branches import branch_of
from vsphere_ai.gpu.catalog import board, board_of_device
from vsphere_ai.guests import user_data
from vsphere_ai.health import nhc
from vsphere_ai.health.kernel import xids
from vsphere_ai.model.dated_table import dated_tables
from vsphere_ai.model.estate.api_fields import unseen
from vsphere_ai.model.estate.host_version import hardware_limits
from vsphere_ai.model.facts import About
from vsphere_ai.resources._helpers.maximums import passthrough_devices
from vsphere_ai.training.exports import EXPORTS, accelerate_config
from vsphere_ai.training.exports.finding import faults

PACKAGE = Path(__file__).parents[2] / "vsphere_ai"


def test_each_table_that_names_a_source_has_its_day():
    named = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.yaml")
        if re.search(r"(?i)\bsources?\b[^\n]*:", path.read_text("utf-8"))
    }
    assert named == {table.file for table in dated_tables()} != set()


def test_an_old_table_is_named_and_is_no_failure():
    newest = max(table.read for table in dated_tables())
    assert {finding.verdict for finding in fact_ages(newest)} == {"pass"}
    later = list(fact_ages(newest + timedelta(days=OLD_DAYS + 1)))
    assert {finding.verdict for finding in later} == {"info"}
    assert all("update vsphere-ai" in finding.remedy for finding in later)
    before = list(fact_ages(date(2020, 1, 1)))
    assert all("0 days old" in finding.message for finding in before), "a clock that is behind makes no table newer"


NEWER = {
    "health/xids.yaml": lambda: xids.known(999).fatal is not True and xids.known(999).action == "inspect",
    "gpu/boards.yaml": lambda: board_of_device(0x3FFF) is None,
    "compat/vgpu_branches.yaml": lambda: branch_of("999.10.01") is None,
    "guests/cloud_init.yaml": lambda: not list(user_data.user_data_faults({"quantum_entropy_source": {"on": True}})),
    "health/nhc_checks.yaml": lambda: all(f.is_note for f in nhc.read("* || check_gpu_fabric_state 8\n")[1]),
    "training/exports/nccl.yaml": lambda: not faults(EXPORTS["nccl-env"].check("NCCL_PHOTONIC_LINKS=x\n")),
    "training/exports/slurm.yaml": lambda: not faults(EXPORTS["slurm"].check("ClusterName=c\nPhotonicSwitches=yes\n")),
    "resources/_helpers/maximums.yaml": lambda: passthrough_devices(99) is None and passthrough_devices(None) is None,
    "model/releases.yaml": lambda: (
        hardware_limits(estate(host(ESX1, config__product={"version": "99.0.0"})), [ESX1])[0][0].runs(99) is None
    ),
    "model/estate/api_fields.yaml": lambda: not list(unseen(About("vCenter", "99.0", "a", "99.0.0.0", "99.0.0.0"))),
    "gpu/vgpu_types.yaml": lambda: board("a100-40gb").types.get("999C") is None,
    # a later release may take them: the release that refuses them is named
    "training/exports/accelerate.yaml": lambda: all(
        accelerate_config.RELEASE in fault.message
        for fault in faults(EXPORTS["accelerate"].check("distributed_type: PHOTON\nnum_processes: 8\nbeam: {}\n"))
    ),
    "benchmarks/published.yaml": lambda: not list(published.alike("all_reduce", "NVIDIA R900", 16)),
    "kubernetes/operators.yaml": lambda: (
        not checked(
            "apiVersion: mellanox.com/v1alpha1\nkind: RailFabricBundle\nmetadata: {name: a}\nspec: {b: c}\n"
        ).findings
    ),
}


def test_every_table_is_tried():
    assert set(NEWER) == {table.file for table in dated_tables()}


@pytest.mark.parametrize("table", NEWER)
def test_what_a_table_does_not_have_is_not_called_wrong(table):
    assert NEWER[table]()
