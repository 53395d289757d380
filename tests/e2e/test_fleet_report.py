"""Documents of fleets: reports of plans and runs in each form, pages that lead to each other, and their schemas."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest
from e2e.test_output_schemas import judged
from support import fleets
from support.fleets import SITES

pytestmark = pytest.mark.lab


@pytest.fixture
def labs(make_lab):
    return {site: make_lab(fleets.scenario(site)) for site in SITES}


@pytest.fixture
def both(cli, labs):
    return cli.file(fleets.inventory(labs), "both.yml")


def test_a_plan_is_reported_as_saved_and_as_printed(cli, labs, both, tmp_path):
    saved, printed, page = tmp_path / "fleet.json", tmp_path / "printed.json", tmp_path / "fleet.html"
    playbook = cli.file(fleets.playbook())
    assert cli("fleet", "plan", playbook, "-i", both, "--budget", "2", "--to", saved) == 0, cli.err
    judged("fleet-plan", saved.read_text("utf-8"))
    assert cli("fleet", "plan", playbook, "-i", both, "--budget", "2", "-o", "json") == 0
    printed.write_text(cli.out, "utf-8")
    for shard in judged("fleet-plan", cli.out)["shards"]:
        judged("plan-to", json.dumps(shard["plan"]))
    for file in (saved, printed):
        assert cli("report", file, "--to", page) == 0, cli.err
        text = page.read_text("utf-8")
        assert "16 steps in 2 vCenters" in text
        assert all(f"<td>{site}</td>" in text for site in SITES)
        assert "berlin-[01:04]" in text
        assert "2 hosts out of service at the same time" in text
    edited = json.loads(printed.read_text("utf-8"))
    edited["shards"][1]["plan"]["playbook"] = "other.yml"
    printed.write_text(json.dumps(edited), "utf-8")
    assert cli("report", printed) == 3, "the plan of a vCenter was edited"
    assert cli.error == "plan.edited"
    saved.write_text(saved.read_text("utf-8").replace('"budget": 2', '"budget": 3'), "utf-8")
    assert cli("report", saved) == 3
    assert cli.error == "plan.edited"


def test_a_run_with_a_failure_is_reported_with_a_page_for_each_vcenter(cli, labs, both, tmp_path):
    assert cli("fleet", "report") == 64, "no fleet was run yet"
    labs["berlin"].set_faults([{"on": "UpgradeVM_Task", "nth": 1, "do": {"task-fails": "InvalidState"}}])
    given = ("fleet", "apply", cli.file(fleets.playbook()), "-i", both, "--yes", "-o", "json")
    assert cli(*given) == 1, cli.err
    done = judged("fleet-apply", cli.out)
    assert cli("fleet", "status", "-o", "json") == 0
    judged("fleet-status", cli.out)
    folder = tmp_path / "report"
    assert cli("fleet", "report", "--to", folder) == 0, cli.err
    runs = {s["vcenter"]: s["run"] for s in done["shards"]}
    assert {path.name for path in folder.iterdir()} == {"index.html", *(f"{run}.html" for run in runs.values())}
    index = (folder / "index.html").read_text("utf-8")
    assert set(re.findall(r'<a href="([^"#]+)"', index)) == {f"{run}.html" for run in runs.values()}
    assert "1 of 2 vCenters done, 1 failed step" in index
    assert "as a fault of the lab demands" in index
    assert f"vsphere-ai fleet resume {done['fleet']}" in index
    for run in runs.values():
        assert f"Run {run}" in (folder / f"{run}.html").read_text("utf-8")
    assert cli("fleet", "report", done["fleet"], "-o", "junit") == 0
    suite = ElementTree.fromstring(cli.out)
    assert {(c.get("name"), c.find("failure") is not None) for c in suite.iter("testcase")} == {
        ("berlin", True),
        ("munich", False),
    }
    assert cli("fleet", "report", "-o", "sarif", "--to", folder / "other") == 64, "one file"
    assert cli("fleet", "report", "-o", "markdown", "--to", tmp_path / "fleet.md") == 0
    assert "| berlin | failed | 3 |" in (tmp_path / "fleet.md").read_text("utf-8")
