"""The certificate as text, Markdown, CTRF and JUnit: every measurement is there, and what is missing has failed."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from xml.etree import ElementTree as Xml

import pytest

from vsphere_ai.health.certificate import Certificate, FactChange, Gate, Measurement
from vsphere_ai.health.certificate_document import digest_of
from vsphere_ai.report.report_in import report_in
from vsphere_ai.report.training import certificate_text as text

GATES = (
    Gate("assess", (Measurement("reliability.ha", "warn", "vSphere HA is off", ("cluster:gpu-a",)),), seconds=2.5),
    Gate("health", (Measurement("xid", "unknown", "dmesg: \x1b[31mno answer", ("vm:train-01",)),)),
    Gate("bench nccl", (Measurement("all_reduce", "pass", "94 %", (), 188.5, 180.0, "GB/s"),), needs=("all_gather",)),
    Gate("megatron", error="torchrun is not there"),
)
FACTS = {"host:esx01": {"build": "17867351"}}
MADE = Certificate(
    "vc01", "train", "vsphere-ai 1", datetime(2026, 11, 23, tzinfo=UTC), GATES, FACTS, {"attest.yml": "ab"}
)


def test_text_has_every_gate_with_its_reasons():
    shown = text.certificate_text(MADE, 80)
    for words in (
        "FAIL",
        "warn    assess",
        "vSphere HA is off",
        "no measurement of all_gather",
        "torchrun is not there",
    ):
        assert words in shown
    assert "\x1b" not in shown


def test_text_fits_and_says_remedies_and_when_a_kept_gate_was_measured():
    long = "logs stay on the host, where a crash of the host takes them along, and no one can read them any more"
    taken = datetime(2026, 11, 20, 8, 30, tzinfo=UTC)
    gates = (
        Gate("assess", (Measurement("security.syslog", "fail", long, ("host:esx01",), remedy="send them away"),)),
        Gate("rdma", (Measurement("rail 0", "pass", "as fast as others", taken=taken),), seconds=700.0),
    )
    shown = text.certificate_text(replace(MADE, gates=gates), 80, ("rdma",)).splitlines()
    assert max(map(len, shown)) <= 80
    assert "  fail    assess    1 verdict of rules" in shown
    assert "          -> send them away" in shown
    assert shown[-1] == "  pass    rdma      1 measurement, kept: measured 2026-11-20 08:30 UTC"
    assert [(f.message, f.remedy) for f in gates[0].findings] == [
        (f"security.syslog: {long} (esx01)", "send them away")
    ]


def test_markdown_has_numbers_facts_and_checksums():
    shown = report_in(MADE, "markdown")
    row = next(line for line in shown.splitlines() if line.startswith("| pass | all"))
    for words in ("188.5 GB/s", "180 GB/s", "94 %"):
        assert f"| {words} |" in row
    assert "| build | 17867351 | host:esx01 |" in shown
    assert "| attest.yml | ab |" in shown
    assert digest_of(MADE) in shown


def test_ctrf_counts_what_did_not_run_as_failed():
    results = json.loads(report_in(MADE, "ctrf"))["results"]
    assert {t["name"]: t["status"] for t in results["tests"]} == {
        "reliability.ha [cluster:gpu-a]": "passed",
        "xid [vm:train-01]": "other",
        "all_reduce": "passed",
        "all_gather": "failed",
        "megatron": "failed",
    }
    summary = results["summary"]
    assert summary["tests"] == sum(summary[s] for s in ("passed", "failed", "pending", "skipped", "other")) == 5
    assert summary["stop"] - summary["start"] == 2500


def test_junit_is_xml_with_failures_and_errors():
    root = Xml.fromstring(report_in(MADE, "junit"))
    assert [(s.get("name"), s.get("tests"), s.get("failures"), s.get("errors")) for s in root] == [
        ("assess", "1", "0", "0"),
        ("health", "1", "0", "1"),
        ("bench nccl", "2", "1", "0"),
        ("megatron", "1", "1", "0"),
    ]
    assert [s.get("time") for s in root] == ["2.500", "0.000", "0.000", "0.000"]
    assert root.find(".//system-out").text == "vSphere HA is off"


@pytest.mark.parametrize("hostile", ["a|b", "<script>", "\x00\x1b[2J", "]]>", "\ud800", "&amp;\n# x"])
def test_hostile_names_stay_text(hostile):
    made = Certificate("vc", hostile, "t", MADE.issued, (Gate(hostile, (Measurement(hostile, "fail", hostile),)),))
    assert Xml.fromstring(report_in(made, "junit")).get("name")
    assert "\x1b" not in text.certificate_text(made, 80) + report_in(made, "markdown")
    assert "<script>" not in report_in(made, "markdown")


def test_changes_name_the_tests_to_take_again():
    changes = (FactChange("host:esx01", "build", "17867351", None),)
    shown = text.changes_text(MADE, changes, [("assess", GATES[0].measurements[0])], 80)
    assert "host:esx01  build: 17867351 → not there" in shown
    assert "1 of 3 tests" in shown
    assert "holds" in text.changes_text(MADE, (), [], 80)
    passed = replace(MADE, gates=tuple(g for g in MADE.gates if g.status in ("pass", "warn")))
    assert "Not passed" in text.changes_text(MADE, (), [], 80)
    assert "Not passed" not in text.changes_text(passed, (), [], 80)
