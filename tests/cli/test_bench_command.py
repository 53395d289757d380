"""`vsphere-ai bench parse` and `explain busbw`: files in, tables, checks and exit codes out."""

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from vsphere_ai.app.training.benchmarks import history as benchmark_history
from vsphere_ai.app.training.benchmarks.parse import ParseRequest, parse_nccl
from vsphere_ai.benchmarks.nccl.nccl_text import parse_text
from vsphere_ai.cli.reference.explain import command as explain
from vsphere_ai.cli.train.bench import command
from vsphere_ai.documents.benchmark_history import BenchmarkResult

SAMPLES = Path(__file__).parents[1] / "benchmarks" / "samples"
FULL = SAMPLES / "nccl-allreduce-2n16g-v2.18.3-fullheader.txt"
MIXED_UP = SAMPLES / "nccl-allreduce-8n64g-h100-ib.txt"
NO_MPI = SAMPLES / "nccl-diag-built-without-mpi-duplicate-rank0.txt"
A100 = SAMPLES / "nccl-allreduce-2n16g-a100-roce-v2.17.9.txt"


def run(*words, **more):
    return CliRunner().invoke(command, ["parse", *map(str, words)], standalone_mode=False, **more)


def parsed(*words):
    result = run(*words, "-o", "json")
    return result.return_value, json.loads(result.output)


@pytest.mark.parametrize("file", sorted(SAMPLES.glob("nccl-*.txt")), ids=lambda file: file.stem[5:])
def test_every_sample_is_shown_and_ends_with_its_exit_code(file):
    result = run(file)
    assert result.exception is None
    assert result.return_value == (2 if file in (MIXED_UP, NO_MPI) else 0)
    assert "busbw" in result.output.lower() or file == NO_MPI


def test_rows_checks_and_published_figures_are_in_the_document():
    code, document = parsed(A100)
    (found,) = document["runs"]
    assert (code, document["verdict"]) == (0, "info")
    assert found["ranks"] == {"declared": 16, "inferred": "16"}
    assert (found["busbw"], found["size"]) == (189.6, 8589934592)
    assert found["rows"][0]["in_place"] == {"time_us": 10867.5, "algbw": 98.8, "busbw": 185.26, "wrong": 0}
    assert {f["id"] for f in found["published"]} >= {"dgx-a100-2", "oci-a100-2"}


def test_ranks_that_it_was_started_with_are_compared():
    assert parsed(FULL, "--ranks", 16)[0] == 0
    code, document = parsed(FULL, "--ranks", 32)
    assert code == 2
    assert "nccl.ranks" in {f["rule"] for f in document["findings"] if f["target"]["name"] == str(FULL)}


def test_a_baseline_is_learned_and_compared(tmp_path):
    file = tmp_path / "baseline.yml"
    assert run(A100, A100, "--learn", file).return_value == 0
    assert parsed(A100, "--baseline", file)[0] == 0
    code, document = parsed(FULL, "--baseline", file, "--tolerance", 0.05)
    assert code == 2
    assert document["findings"][0]["rule"] == "nccl.below-baseline"
    code, document = parsed(MIXED_UP, "--baseline", file)
    assert code == 2
    again = run(A100, "--learn", file)
    assert again.exception.exit_code == 64


def test_a_measurement_of_the_baseline_that_is_missing_is_no_pass(tmp_path):
    file = tmp_path / "baseline.yml"
    file.write_text("baseline: 1\nnccl:\n- {operation: all_gather, busbw: 100}\n- {operation: all_reduce, busbw: 20}\n")
    code, document = parsed(FULL, "--baseline", file)
    assert (code, document["verdict"]) == (1, "unknown")
    assert [(f["rule"], f["target"]) for f in document["findings"][-1:]] == [("nccl.not-measured", None)]
    assert run(FULL, "--baseline", file, "--fail-on", "fail").return_value == 0


def test_standard_input_and_several_runs_are_read():
    result = run("-", "--summary", "-o", "json", input=FULL.read_bytes() + A100.read_bytes())
    assert [r["file"] for r in json.loads(result.output)["runs"]] == ["-", "-"]


def test_no_run_is_no_pass(tmp_path):
    file = tmp_path / "empty.txt"
    file.write_text("nothing\n")
    assert run(file).return_value == 1
    assert run(tmp_path / "absent").exception.exit_code == 64


def test_json_is_read_and_lines_without_end_are_cut(tmp_path):
    report = {"version": 3, "args": ["all_gather_perf"], "results": [], "config": {"nthreads": 1}}
    file = tmp_path / "report.json"
    file.write_text(json.dumps(report))
    endless = tmp_path / "endless.txt"
    endless.write_bytes(b"x" * 5_000_000 + b" 8 2 float sum -1 1.0 1.0 1.0 0 1.0 1.0 1.0 0\n" + FULL.read_bytes())
    found = parse_nccl(ParseRequest((file, endless))).runs
    assert [(r.run.program, len(r.run.rows)) for r in found] == [("all_gather_perf", 0), ("all_reduce_perf", 24)]


def test_bus_bandwidth_is_explained():
    text = CliRunner().invoke(explain, ["busbw"]).output
    assert "all_reduce      2(n-1)/n    count × element size\n" in text
    document = json.loads(CliRunner().invoke(explain, ["busbw", "-o", "json"]).output)
    assert {"collective": "all_gather", "factor": "(n-1)/n", "size": "count × element size × ranks"} in document[
        "collectives"
    ]


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


def run_history(*words):
    return CliRunner().invoke(command, ["history", *words], standalone_mode=False)


def recorded(text, ranks=16):
    (run,) = parse_text(text.splitlines())
    of = {"set": "train", "benchmark": "nccl", "operation": run.collective.name, "ranks": ranks, "size": run.largest}
    made = BenchmarkResult(at=time.time(), value=run.peak, **of)
    return benchmark_history.keep("11-22", made)


def test_results_of_a_set_are_kept_and_compared(state):
    text = A100.read_text("utf-8")
    assert CliRunner().invoke(command, ["history"]).output.startswith("no benchmark")
    assert recorded(text).norm is None
    assert not recorded(text).is_significant
    assert recorded(text.replace("84948.7", "99999.9").replace("189.60", "150.00").replace("189.50", "150.10")).is_worse
    shown = CliRunner().invoke(command, ["history", "train"], standalone_mode=False)
    assert shown.return_value == 0
    assert run_history("--fail-on", "warn").return_value == 2
    (row,) = [line.split() for line in shown.output.splitlines() if "150.10" in line]
    assert row[:5] == ["all_reduce", "16", "8", "GiB", "150.10"]
    assert "slower" in shown.output
    document = json.loads(CliRunner().invoke(command, ["history", "-o", "json"]).output)
    assert [(m["results"], m["worse"]) for m in document["measurements"]] == [(3, True)]
    assert CliRunner().invoke(command, ["history", "other"]).output.startswith("no benchmark")
    assert (state / "benchmarks").stat().st_mode & 0o077 == 0


def test_the_assessment_has_the_newest_all_reduce_of_a_set(state):
    recorded(A100.read_text("utf-8"))
    recorded(FULL.read_text("utf-8"))
    found = benchmark_history.newest("11-22")["train"]
    assert (found.name, found.gb_per_second, found.baseline) == ("all_reduce", 49.85, pytest.approx(189.6))
    assert benchmark_history.newest("other") == {}
