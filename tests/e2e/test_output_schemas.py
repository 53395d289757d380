"""What commands print as JSON meets the schema that is published, and has no key that the schema does not know."""

from __future__ import annotations

import json
from itertools import pairwise

import jsonschema
import pytest
from support.places import INVENTORY, PLAYBOOKS, ROOT
from support.printed import faults

pytestmark = pytest.mark.lab
MISSION = PLAYBOOKS / "ai-ready-cluster.yml"
TOO_MUCH = """
- hosts: gpu_hosts
  graphics: {default_type: shared_direct}
  mig: {mode: enabled}
  rolling: {evacuate: power_off}
- vms: "train-[01:03]"
  hardware: {version: 19}
  vgpu: [grid_a100-7-40c, grid_a100-7-40c]
"""


def judged(name, text):
    document = json.loads(text)
    assert faults(name, document) == []
    return document


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("plan", ("plan", MISSION)),
        ("plan", ("plan", PLAYBOOKS / "two-sites.yml", "--limit", "esx01.lab.local")),
        ("verify", ("verify", MISSION)),
        ("check", ("check",)),
        ("check", ("check", MISSION)),
        ("capacity", ("capacity", "-i", INVENTORY)),
        ("capacity", ("capacity", MISSION, "-i", INVENTORY)),
        ("doctor", ("doctor",)),
    ],
    ids=lambda v: v if isinstance(v, str) else "-".join(getattr(each, "stem", each) for each in v),
)
def test_a_document_meets_its_schema(cli, name, command):
    assert cli(*command, "-o", "json") in (0, 1, 2), cli.err
    judged(name, cli.out)


def test_after_a_run_there_is_more_to_say(cli, tmp_path):
    """GPUs in slices, vGPUs that run, paths that are whole, VMs that find no room, a plan in a file."""
    saved = tmp_path / "plan.json"
    assert cli("plan", MISSION, "-i", INVENTORY, "--to", saved) == 0, cli.out
    judged("plan-to", saved.read_text("utf-8"))
    assert cli("apply", saved, "-i", INVENTORY, "--yes") == 0, cli.out + cli.err
    assert cli("capacity", "-i", INVENTORY, "-o", "json") == 0
    gpus = [gpu for host in judged("capacity", cli.out)["hosts"] for gpu in host["gpus"]]
    assert any(gpu.get("instances") for gpu in gpus)
    assert any(gpu["running"] for gpu in gpus)
    assert cli("capacity", cli.file(TOO_MUCH), "-i", INVENTORY, "-o", "json") == 1
    assert "left_over" in judged("capacity", cli.out)["verdict"]
    names = ("train-01", "train-02")
    assert cli("rdma", "trace", *names, "-o", "json") in (0, 1), cli.err
    assert [p["vms"] for p in judged("rdma-trace", cli.out)["pairs"]] == [list(pair) for pair in pairwise(names)]
    assert cli("verify", MISSION, "-o", "json") == 0
    assert judged("verify", cli.out)["as_wanted"]


@pytest.mark.parametrize("name", ["plan", "verify", "check", "capacity", "rdma-trace", "doctor"])
def test_what_is_no_such_document_is_refused(name):
    schema = json.loads((ROOT / "docs" / "schemas" / f"{name}.schema.json").read_text("utf-8"))
    for document in ({}, [], {"schema_version": 1}, {"schema_version": 2, "checks": []}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(document, schema)
