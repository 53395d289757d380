"""The certificate: what fails, what is void after a change, what a newer test clears, and that it cannot be edited."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsphere_ai.health import certificate as cert
from vsphere_ai.health.certificate import Certificate, Gate, Measurement, changes_since, renewed, void
from vsphere_ai.health.certificate_document import certificate_document, digest_of, open_certificate
from vsphere_ai.model.finding import VERDICTS, worst_verdict


def saved(made):
    return certificate_document(made).as_json()


def opened(content):
    return open_certificate(json.dumps(content).encode(), "c.json")


NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
RANK = tuple(verdict for verdict in VERDICTS if verdict != "info")
statuses = st.sampled_from(RANK)
names = st.text(min_size=1, max_size=12)
facts = st.dictionaries(names, st.dictionaries(names, names, max_size=4), max_size=4)
measurements = st.builds(
    Measurement, names, statuses, names, st.lists(names, max_size=3).map(tuple),
    st.none() | st.floats(allow_nan=False, allow_infinity=False), st.none() | st.integers(0, 9).map(float), names,
    st.none() | st.just(NOW), names,
)  # fmt: skip
gates = st.builds(Gate, names, st.lists(measurements, max_size=4).map(tuple), st.lists(names, max_size=2).map(tuple))
certificates = st.builds(
    Certificate, names, names, names, st.just(NOW), st.lists(gates, max_size=3).map(tuple), facts,
    st.dictionaries(names, names, max_size=2),
)  # fmt: skip


def measured(name="all_reduce", status="pass", *parts, text="as it should be"):
    return Measurement(name, status, text, parts)


def fleet(hosts):
    """A certificate of pairwise runs among hosts, and one run of all."""
    pairs = (measured("pair", "pass", f"host:{a}", f"host:{b}") for a, b in combinations(range(hosts), 2))
    gate = Gate("bench nccl", (*pairs, measured("all_reduce")))
    known = {f"host:{n}": {"build": "17867351", "driver": "550.90", "mtu": "9000"} for n in range(hosts)}
    return Certificate("vc01", "train", "vsphere-ai 1", NOW, (gate,), known)


def test_a_measurement_that_is_missing_fails_its_gate():
    """Systems certified nodes that were never measured."""
    assert Gate("bench nccl").status == "fail"
    assert Gate("bench nccl", (measured(),), needs=("all_gather",)).status == "fail"
    assert Gate("bench nccl", (measured(),), needs=("all_reduce",)).status == "pass"
    assert Gate("bench nccl", (measured(),), error="mpirun is not there").status == "fail"
    assert Certificate("vc01", "train", "t", NOW, ()).status == "fail"


@pytest.mark.parametrize("order", list(permutations(RANK)))
def test_the_worst_counts_and_unknown_is_worse_than_warn(order):
    assert Gate("health", tuple(measured(str(n), s) for n, s in enumerate(order))).status == "fail"
    assert worst_verdict(s for s in order if s != "fail") == "unknown"


@given(certificates)
def test_a_certificate_is_read_back_as_it_was_written(made):
    assert opened(saved(made)) == made


def test_gates_that_were_left_out_are_part_of_what_is_certified():
    whole = Certificate("vc01", "train", "t", NOW, (Gate("health", (measured(),)),))
    partly = replace(whole, left_out=("nccl",))
    assert "left_out" not in saved(whole), "the digests of earlier certificates are without it"
    assert (saved(partly)["left_out"], saved(partly)["status"]) == (["nccl"], "unknown")
    assert opened(saved(partly)) == partly
    with pytest.raises(ValueError, match="edited"):
        opened({**saved(partly), "left_out": []})


@given(certificates, certificates)
def test_an_edited_certificate_is_refused(one, other):
    assert (digest_of(one) == digest_of(other)) == (one == other)
    edited = saved(one) | {"vcenter": one.vcenter + "x"}
    with pytest.raises(ValueError, match="edited"):
        opened(edited)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "c.json:1:1: it should be an object"),
        ([], "c.json:1:1: it should be an object"),
        ({}, "c.json:1:1: vcenter: it is missing"),
        ({"vcenter": "a", "set": 1}, "c.json:1:25: set: it should be a valid string"),
        ({"schema_version": 2}, "c.json:1:20: schema_version: it was written by another version"),
        ("certificate", "c.json:1:1: it should be an object"),
    ],
)
def test_what_is_no_certificate_is_named_with_its_place(content, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        opened(content)


@given(facts, st.data())
def test_every_changed_fact_is_found_and_nothing_else(known, data):
    made = replace(fleet(2), facts=known)
    assert changes_since(made, known) == ()
    if not known:
        return
    part = data.draw(st.sampled_from(sorted(known)))
    now = {p: dict(f) for p, f in known.items()}
    kind = data.draw(st.sampled_from(["gone", "new", "other"]))
    if kind == "gone":
        del now[part]
        expected = {(part, name) for name in known[part]}
    else:
        name = data.draw(st.sampled_from(sorted(known[part]) or ["a"])) if kind == "other" else "a new one"
        now[part][name] = known[part].get(name, "") + "x"
        expected = {(part, name)}
    assert {(c.part, c.name) for c in changes_since(made, now)} == expected


@pytest.mark.parametrize("host", range(32))
def test_after_one_host_changed_few_tests_are_taken_again_and_none_is_missed(host):
    made = fleet(32)
    for name in ("build", "driver", "mtu"):
        now = {p: f | ({name: "changed"} if p == f"host:{host}" else {}) for p, f in made.facts.items()}
        (gate,) = made.gates
        again = void(gate, changes_since(made, now))
        assert {m for m in gate.measurements if not m.parts or f"host:{host}" in m.parts} == set(again)
        assert len(again) <= 0.1 * len(gate.measurements)
        left = cert.without_void(made, changes_since(made, now))
        assert not set(left.gates[0].measurements) & set(again)


def test_only_the_same_test_on_the_same_parts_clears_a_failure():
    before = Gate(
        "bench nccl", (measured("pair", "fail", "host:1", "host:2"), measured("pair", "fail", "host:1", "host:3"))
    )
    again = Gate(
        "bench nccl", (measured("pair", "pass", "host:2", "host:1"), measured("pair", "pass", "host:2", "host:3"))
    )
    assert [m.status for m in renewed(before, again).measurements] == ["pass", "fail", "pass"]
    assert renewed(before, again).status == "fail"
    assert renewed(before, replace(again, measurements=())).measurements == before.measurements


def test_reasons_name_what_is_missing_and_the_worst_first():
    gate = Gate(
        "health", (measured("a", "warn", text="slow"), measured("b", "fail", text="gone"), measured("c")), ("d",)
    )
    assert [(f.verdict, f.message) for f in gate.findings] == [
        ("fail", "no measurement of d"), ("fail", "b: gone"), ("warn", "a: slow"),
    ]  # fmt: skip


def test_a_guest_that_cannot_be_asked_is_named_and_its_facts_are_not_known():
    facts = {"vm:train-01": {"guest driver": "550.90", "CUDA": "12.4", "vCPUs": "64"}}
    made = Certificate("vc01", "train", "t", NOW, (Gate("health", (measured(),)),), facts)
    changes = changes_since(made, {"vm:train-01": {"vCPUs": "32"}})
    assert [(c.name, cert.is_unknown(c, {"train-01"})) for c in changes] == [
        ("CUDA", True), ("guest driver", True), ("vCPUs", False),
    ]  # fmt: skip
    assert not any(cert.is_unknown(c, {"train-02"}) for c in changes)
    (other,) = changes_since(made, {"vm:train-01": {**facts["vm:train-01"], "guest driver": "470.1"}})
    assert not cert.is_unknown(other, {"train-01"}), "a fact that is there was read"
    blind = replace(made, not_asked={"train-02": "no answer in 30 s"})
    assert [(f.rule, f.verdict, f.target.name) for f in blind.findings if f.verdict != "pass"] == [
        ("accept.not-asked", "warn", "train-02")
    ]
    assert opened(saved(blind)) == blind
    assert saved(blind)["verdict"] == "warn"
