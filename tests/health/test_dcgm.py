"""DCGM's diagnostics: both forms of its JSON and its table; what was skipped, missing or not run has not passed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsphere_ai.health import dcgm
from vsphere_ai.health.answers import GuestFacts, SmiGpu
from vsphere_ai.model.guest_probes import CommandAnswer
from vsphere_ai.model.nodes import Node, NodeGpu

NODE = Node(
    "v", "", host="esx01", gpus=(NodeGpu(0, "0000:03:00.0", "0000:3b:00.0"), NodeGpu(1, host_pci="0000:86:00.0"))
)
GPUS = tuple(SmiGpu(n, f"GPU-{n}", f"0000:0{n}:00.0", "A100", "550.90", memory_used=4) for n in range(2))
GUEST = GuestFacts(gpus=GPUS)


def four(*rows, name="memory", category="Hardware"):
    """JSON of DCGM 4: rows are (GPU, status, severity)."""
    results = [
        {"entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu, "status": status}
        | (
            {"warnings": [{"error_id": 1, "error_severity": severity, "warning": "bad"}]}
            if severity is not None
            else {}
        )
        for gpu, status, severity in rows
    ]
    tests = [{"name": name, "results": results, "test_summary": {"status": "Pass"}}]
    soft = [
        {"name": "software", "results": [{"entity_group": "GPU", "entity_id": n, "status": "Pass"} for n in (0, 1)]}
    ]
    return {"DCGM Diagnostic": {"test_categories": [
        {"category": "Deployment", "tests": soft}, {"category": category, "tests": tests},
    ]}, "entity_groups": []}  # fmt: skip


def found(document, level=2, code=0):
    out = document if isinstance(document, str) else json.dumps(document)
    return [(f.verdict, f.target.part) for f in dcgm.dcgm_findings(NODE, GUEST, CommandAnswer(code, out), level)]


PASSED = four((0, "Pass", None), (1, "Pass", None))


def test_all_passed_is_no_finding():
    assert found(PASSED) == []


@pytest.mark.parametrize(
    ("severity", "verdict", "words"),
    [(1, "warn", "watch"), (2, "fail", "out of service"), (3, "fail", "does not know"), (4, "fail", "cause"),
     (5, "fail", "configuration"), (6, "fail", "reset")],
)  # fmt: skip
def test_severities_are_dcgms_own(severity, verdict, words):
    """2 is isolate and 3 unknown: a published parser has it wrong."""
    out = json.dumps(four((0, "Fail", severity), (1, "Pass", None)))
    (one,) = dcgm.dcgm_findings(NODE, GUEST, CommandAnswer(226, out), 2)
    assert (one.verdict, one.target.part, words in one.remedy) == (verdict, "GPU 0000:3b:00.0", True)


def test_what_was_skipped_or_is_missing_has_not_passed():
    assert found(four((0, "Skip", None), (1, "Pass", None))) == [("unknown", "GPU 0000:3b:00.0")]
    assert found(four((1, "Pass", None))) == [("unknown", "GPU 0000:3b:00.0")], "a GPU that no test names"
    software_only = four((0, "Pass", None), (1, "Pass", None), name="software", category="Deployment")
    assert found(software_only) == [("unknown", "GPU 0000:3b:00.0"), ("unknown", "GPU 0000:86:00.0")]
    assert found(software_only, level=1) == []


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (CommandAnswer(failure="`dcgmi`: it did not end in time (20 s)"), "fail"),
        (CommandAnswer(failure="it wrote more than is read, and was ended"), "unknown"),
        (CommandAnswer(127, "dcgmi: command not found"), "unknown"),
        (CommandAnswer(1, "Error: unable to establish a connection to the specified host: localhost"), "unknown"),
        (CommandAnswer(205, json.dumps(PASSED)), "fail"),
        (CommandAnswer(226, json.dumps(PASSED)), "unknown"),
        (CommandAnswer(0, "{}"), "unknown"),
    ],
)
def test_what_is_no_result_is_a_finding(answer, verdict):
    assert {f.verdict for f in dcgm.dcgm_findings(NODE, GUEST, answer, 2)} == {verdict}


def test_version_3_and_the_table():
    three = {"DCGM GPU Diagnostic": {"test_categories": [{"category": "Integration", "tests": [
        {"name": "PCIe", "results": [
            {"gpu_ids": "0", "status": "PASS"}, {"gpu_ids": "1", "status": "FAIL", "warnings": "slow"},
        ]}
    ]}]}, "version": "3.1.7"}  # fmt: skip
    assert found(three) == [("fail", "GPU 0000:86:00.0")]
    rows = (("Denylist", "Pass"), ("Persistence Mode", "Pass"))
    table = "Successfully ran diagnostic for group.\n+-----+\n| Diagnostic | Result |\n"
    table += "|-----  Deployment  --------+-------|\n"
    table += "".join(f"| {a} | {b} |\n" for a, b in rows)
    table += "|-----  Hardware  ----------+-------|\n| GPU Memory | Fail - GPUs: 0, 1 |\n"
    table += "| Warning | bad row |\n| Stress | Skip - All |\n"
    assert found(table) == [
        ("fail", "GPU 0000:3b:00.0"), ("fail", "GPU 0000:86:00.0"),
        ("unknown", "GPU 0000:3b:00.0"), ("unknown", "GPU 0000:86:00.0"),
    ]  # fmt: skip


KEYS = st.sampled_from(
    ["DCGM Diagnostic", "test_categories", "tests", "results", "status", "name", "category", "warnings"]
)
VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=5), lambda x: st.lists(x) | st.dictionaries(KEYS, x), max_leaves=20
)


@given(st.text(max_size=300) | VALUES.map(json.dumps))
def test_no_output_stops_the_check(out):
    list(dcgm.dcgm_findings(NODE, GUEST, CommandAnswer(0, out), 2))


def test_where_it_applies_and_when_gpus_are_free():
    assert dcgm.not_applicable(NODE, GUEST, passthrough=True) == ""
    assert "vGPU" in dcgm.not_applicable(NODE, GUEST, passthrough=False)
    from dataclasses import replace

    mig = GuestFacts(gpus=(replace(GPUS[0], mig=True),))
    assert "MIG" in dcgm.not_applicable(NODE, mig, passthrough=True)
    assert dcgm.in_use(GUEST) == ""
    assert "4559" in dcgm.in_use(replace(GUEST, processes=((4559, "GPU-0"),)))
    assert "30000 MiB" in dcgm.in_use(GuestFacts(gpus=(replace(GPUS[0], memory_used=30000),)))
    assert "cannot be seen" in dcgm.in_use(replace(GUEST, failures={"gpu-processes": "it did not end in time"}))
