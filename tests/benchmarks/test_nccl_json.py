"""JSON reports of nccl-tests, as its writer prints them; documents that were cut off, and text that is none."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vsphere_ai.benchmarks.nccl.nccl_checks import inferred_ranks, nccl_checks
from vsphere_ai.benchmarks.nccl.nccl_json import parse_json


def half(size, time, ranks, **more):
    alg = size / 1e3 / time
    bandwidth = {"alg_bw": round(alg, 6), "bus_bw": round(alg * 2 * (ranks - 1) / ranks, 6)}
    return {"time": round(time, 6), **bandwidth, "nwrong": 0.0} | more


def report(ranks=16, sizes=(1 << 20, 1 << 30), **more):
    devices = [
        {"rank": r, "group": 0, "pid": 1, "hostname": f"vm-{r // 8}", "device": r % 8, "device_hex": "0000:0f:00"}
        | {"device_info": "NVIDIA A100"}
        for r in range(ranks)
    ]
    rows = [
        {"size": s, "count": s // 4, "type": "float", "redop": "sum", "root": "    -1"}
        | {"out_of_place": half(s, s / 4e4, ranks), "in_place": half(s, s / 5e4, ranks)}
        for s in sizes
    ]
    return {
        "version": 3,
        "start_time": "2026-11-23 22:00:00",
        "args": ["./all_reduce_perf_mpi", "-b", "8"],
        "env": ["SECRET_TOKEN=hunter2"],
        "nccl_version": 23003,
        "config": {"nthreads": 1, "ngpus": 1, "minimum_bytes": 8, "maximum_bytes": 1 << 30, "devices": devices},
        "results": rows,
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": 1.0, "okay": "unchecked"},
        "errors": [],
        "end_time": "2026-11-23 22:01:00",
    } | more


def test_a_report_is_read():
    run = parse_json(json.dumps(report()))
    assert (run.collective.name, run.nccl_version, run.declared_ranks) == ("all_reduce", "2.30.3", 16)
    assert [(r.size, r.count, r.root, len(r.measures)) for r in run.rows] == [
        (1 << 20, 1 << 18, -1, 2),
        (1 << 30, 1 << 28, -1, 2),
    ]
    assert inferred_ranks(run).only == 16
    assert run.peak == pytest.approx(50 * 1.875)
    assert (run.out_of_bounds, run.bounds_ok, run.average_ok, run.concluded) == (0, True, None, True)
    assert {c.rule for c in nccl_checks(run, 16)} == {"nccl.average", "nccl.transport"}
    assert "hunter2" not in repr(run)


def test_a_report_whose_version_is_a_text_and_whose_devices_stand_beside_is_read():
    made = report()
    made |= {"version": "2.17.6", "nccl_version": "23003", "devices": made["config"].pop("devices")}
    run = parse_json(json.dumps(made))
    assert (run.nccl_version, run.declared_ranks, len(run.rows)) == ("2.30.3", 16, 2)
    assert parse_json(json.dumps({"version": "1.0", "name": "package"})) is None


def test_a_half_that_is_no_number_is_named():
    made = report()
    made["results"][0]["in_place"]["bus_bw"] = "nan"
    run = parse_json(json.dumps(made))
    assert (run.unread, [len(row.measures) for row in run.rows]) == (1, [1, 2])
    made["results"][0]["in_place"] = None
    assert parse_json(json.dumps(made)).unread == 0


def test_what_the_writer_prints_that_is_no_json_is_read():
    text = json.dumps(report(sizes=(1 << 20,)))
    run = parse_json(text.replace('"nwrong": 0.0', '"nwrong": inf', 1).replace('"time": 26.2144', '"time": "nan"', 1))
    assert [(r.out_of_place, bool(r.in_place)) for r in run.rows] == [(None, True)]


def test_a_cpu_time_is_not_compared_with_the_bandwidth():
    data = report()
    for row in data["results"]:
        for name in ("out_of_place", "in_place"):
            row[name]["cpu_time"] = row[name].pop("time") * 3
    run = parse_json(json.dumps(data))
    assert run.is_cpu_time
    assert "nccl.time" not in {c.rule for c in nccl_checks(run)}


def test_a_report_that_was_cut_off_has_its_complete_rows():
    text = json.dumps(report())
    seen = set()
    for at in range(text.index('"results"'), len(text), 7):
        run = parse_json(text[:at])
        if run is not None:
            seen.add(len(run.rows))
            assert not run.concluded
    assert seen == {0, 1, 2}


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": "x"}', '{"version": 3', "x" * 100, '{"version":' + "[" * 99_999]
)
def test_other_text_is_no_report(text):
    assert parse_json(text) is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["okay", "size", "count"]), inner),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(st.sampled_from(sorted(report())), VALUES), VALUES, st.sampled_from(["size", "in_place", "root"])
)
def test_no_document_stops_the_reader(parts, value, key):
    data = report(4) | parts | {"version": 3}
    if isinstance(data["results"], list) and data["results"] and isinstance(data["results"][0], dict):
        data["results"][0][key] = value
    run = parse_json(json.dumps(data))
    assert run is not None
    nccl_checks(run, 4)
