"""The one JSON form of findings: what is written is read back, and keys that say nothing are left out."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsphere_ai.documents.findings import DoctorDocument, FindingDocument
from vsphere_ai.errors import Mark
from vsphere_ai.model.finding import VERDICTS, Finding, Subject
from vsphere_ai.model.state import Target

TEXT = st.text(max_size=20)
TARGETS = st.builds(Target, st.sampled_from(["datacenter", "host", "vm"]), TEXT, TEXT)
MARKS = st.none() | st.builds(Mark, st.text(min_size=1, max_size=9), st.integers(1, 99), st.integers(1, 99))
SUBJECTS = st.builds(Subject, st.sampled_from(["area", "file", "cluster"]), TEXT, TEXT, TEXT, TEXT, MARKS)
FINDINGS = st.builds(
    Finding,
    st.none() | TARGETS | SUBJECTS,
    TEXT,
    st.sampled_from(VERDICTS),
    TEXT,
    TEXT,
    st.lists(st.tuples(TEXT, TEXT), max_size=3).map(tuple),
    TEXT,
    st.booleans(),
)


@given(FINDINGS)
def test_what_is_written_is_read_back(finding):
    written = json.loads(json.dumps(FindingDocument.of(finding).as_json()))
    assert FindingDocument.model_validate(written).finding == finding


def test_a_target_has_no_key_that_says_nothing():
    found = DoctorDocument.of([Finding(Target("vm", "train-01", "vm-1"), "vm.tools", "warn", "old")]).as_json()
    (finding,) = found["findings"]
    assert (found["verdict"], finding["target"]) == ("warn", {"kind": "vm", "name": "train-01", "ref": "vm-1"})


@pytest.mark.parametrize("verdicts", [(), ("pass",), ("pass", "fail", "unknown")])
def test_the_document_has_the_worst_verdict(verdicts):
    found = DoctorDocument.of(Finding(None, "x", v, "") for v in verdicts).as_json()
    assert found["verdict"] == max(verdicts, key=VERDICTS.index, default="pass")
    assert len(found["findings"]) == len(verdicts)
