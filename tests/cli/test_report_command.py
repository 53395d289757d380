"""`report` finds what it is of, writes files of the owner, and refuses what is nothing of that kind."""

from __future__ import annotations

import json
import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from support import large_reports
from support.journals import create

from vsphere_ai.cli.console import json_stream
from vsphere_ai.cli.main import main
from vsphere_ai.health.certificate import Certificate, Gate, Measurement
from vsphere_ai.health.certificate_document import certificate_document
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Reconfigure

VM = Target("vm", "train-01", "VirtualMachine:vm-1")
PLAN = Path(__file__).parents[1] / "e2e" / "plans" / "schema-1.json"
"""A plan that 0.1.0 saved for the lab's farm."""


@pytest.fixture
def command(capsys):
    def call(*arguments):
        of_run = str(arguments[0]).startswith("20")  # a run is named by its time
        code = main([str(a) for a in (*(["run"] if of_run else []), "report", *arguments)])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def run():
    steps = [{"id": f"s{n}", "target": vars(VM), "summary": "reconfigure"} for n in (1, 2)]
    record = create({"what": "play.yml", "approved": {"steps": steps}})
    record.begin("s1", Reconfigure(target=VM, summary="reconfigure", kinds=("vgpu",)), ())
    record.end("s1", "done")
    return record.id


@pytest.fixture
def certificate(tmp_path):
    gates = (Gate("assess", (Measurement("reliability.ha", "warn", "vSphere HA is off"),)),)
    made = Certificate("vc01", "train", "vsphere-ai 1", datetime(2026, 11, 23, tzinfo=UTC), gates)
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(certificate_document(made).as_json()), "utf-8")
    return path


def test_a_plan_a_run_and_a_certificate_in_each_form(command, run, certificate):
    for what, words in ((PLAN, "esx01.lab.local"), (run, "train-01"), (certificate, "vSphere HA is off")):
        code, out, _ = command(what)
        assert code == 0
        assert out.startswith("<!doctype html>")
        assert words in out
        assert words in command(what, "-o", "markdown")[1]
        assert words in "".join(Xml.fromstring(command(what, "-o", "junit")[1]).itertext()) or what != certificate
        assert json.loads(command(what, "-o", "sarif")[1])["version"] == "2.1.0"


@pytest.mark.parametrize("name", ["check", "trace", "capacity"])
def test_what_a_command_printed_in_each_form(command, name, tmp_path):
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps(getattr(large_reports, name)(2, 4)), "utf-8")
    assert command(path)[1].startswith("<!doctype html>")
    assert "esx0001" in command(path, "-o", "markdown")[1]
    assert json.loads(command(path, "-o", "ctrf")[1])["results"]["summary"]["tests"] >= 0
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "vcenter": 7}), "utf-8")
    assert command(path)[0] == 64
    assert json_stream.failure() == "usage.report"


def test_a_plan_as_it_is_printed_has_no_checksum(command, tmp_path):
    path = tmp_path / "plan.json"
    values = json.loads(PLAN.read_text("utf-8"))
    path.write_text(json.dumps({k: v for k, v in values.items() if k not in ("seal", "desired", "scope")}), "utf-8")
    code, out, _ = command(path, "-o", "gitlab-terraform")
    assert code == 0
    assert json.loads(out)["update"] > 0


def test_the_file_is_the_owners_and_replaces_an_earlier_one(command, run, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("an earlier one", "utf-8")
    code, out, _ = command(run, "--to", path)
    assert (code, out) == (0, "")
    assert path.read_text("utf-8").startswith("<!doctype html>")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_a_link_is_not_written_through(command, run, tmp_path):
    other = tmp_path / "other"
    other.write_text("kept", "utf-8")
    (tmp_path / "report.html").symlink_to(other)
    assert command(run, "--to", tmp_path / "report.html")[0] == 64
    assert json_stream.failure() == "usage.output"
    assert other.read_text("utf-8") == "kept"


@pytest.mark.parametrize("text", ["{}", "[]", "no JSON", "null", "[" * 100_000, '{"digest": "a"}'])
def test_another_file_is_refused(command, text, tmp_path):
    path = tmp_path / "other.json"
    path.write_text(text, "utf-8")
    assert command(path)[0] == 64
    assert json_stream.failure() == "usage.report"


def test_an_edited_plan_is_refused(command, tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(PLAN.read_text("utf-8").replace("esx01", "esx02"), "utf-8")
    assert command(path)[0] == 3
    assert json_stream.failure() == "plan.edited"


def test_a_file_that_is_not_there_is_named(command):
    code, _, err = command("nothere.json")
    assert code == 64
    assert "nothere.json" in err


def test_a_run_is_no_file_and_the_way_to_its_report_is_named(command, run, capsys):
    assert main(["report", run]) == 64
    assert json_stream.failure() == "usage.report"
    assert f"vsphere-ai run report {run}" in capsys.readouterr().err
