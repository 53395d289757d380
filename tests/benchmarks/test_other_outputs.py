"""Output of perftest and of Megatron as versions and forks print it, in files."""

import json
import math

import pytest

from vsphere_ai.app.training.benchmarks.parse import ParseRequest, parse_nccl
from vsphere_ai.benchmarks.checks import is_passed
from vsphere_ai.benchmarks.perftest import parse_perftest, parse_perftest_json, perftest_checks
from vsphere_ai.benchmarks.programs.megatron import parse_megatron
from vsphere_ai.model.finding import worst
from vsphere_ai.report.training.benchmark_text import parsed_document, parsed_text

RULE = "-" * 87
TABLE = f"""{RULE}
                    {{title}}
 Dual-port       : OFF          Device         : mlx5_0
 Number of qps   : 1            Transport type : IB
 Link type       : Ethernet
{RULE}
 #bytes     #iterations    BW peak[{{unit}}]    BW average[{{unit}}]   MsgRate[Mpps]
 65536      5000             {{peak}}             {{average}}             0.743
{RULE}
"""


def text(title="RDMA_Write BW Test", unit="Gb/sec", average="390.12", peak="391.00"):
    return TABLE.format(title=title, unit=unit, average=average, peak=peak)


@pytest.mark.parametrize(
    ("title", "known"),
    [
        ("RDMA_Write BW Test", "RDMA_Write BW"),
        ("RDMA_Write_imm BW Test", "RDMA_Write_imm BW"),
        ("RDMA_Read Bidirectional BW Test", "RDMA_Read BW"),
        ("Send Bidirectional Post List BW Test", "Send BW"),
        ("Send BW Multicast Test", "Send BW"),
        ("Atomic FETCH_AND_ADD BW Test", "Atomic BW"),
        ("Atomic CMP_AND_SWAP Latency Test", "Atomic Latency"),
        ("Raw Ethernet BW Test", "Raw Ethernet BW"),
        ("RDMA_Write BW Post List Test", "RDMA_Write BW"),
        ("CMP_AND_SWAP Atomic BW Test", "Atomic BW"),
        ("Post List RDMA_Write Bidirectional BW Test", "RDMA_Write BW"),
    ],
)
def test_titles(title, known):
    (run,) = parse_perftest(text(title).splitlines())
    assert (run.title, run.device, run.link, len(run.rows)) == (known, "mlx5_0", "Ethernet", 1)


@pytest.mark.parametrize(("unit", "factor"), [("Gb/sec", 1.0), ("MB/sec", 8.388608e-3), ("MiB/sec", 8.388608e-3)])
def test_units(unit, factor):
    (run,) = parse_perftest(text(unit=unit, average="46500.5").splitlines())
    assert run.bandwidth == pytest.approx(46500.5 * factor)


PREFIXES = [
    "[0] ", "0: ", "00: ", "[1,0]<stdout>:", "[default0]:", "node01: ", "[pod/bw-0/perftest] ", "> ",
    "2025-02-01T10:00:0{n}.123456Z ", "Sat Feb  1 10:00:0{n} 2025[1,0]<stdout>:", "\x1b[32m[0]\x1b[0m ",
]  # fmt: skip


@pytest.mark.parametrize("prefix", PREFIXES)
def test_what_a_launcher_writes_before_each_line_hides_nothing(prefix):
    """Ranks, pods, hosts, times: as mpirun, srun -l, torchrun, pdsh, kubectl --prefix and quoted mail write them."""
    lines = [prefix.replace("{n}", str(at % 10)) + line for at, line in enumerate(text(average="390.12").splitlines())]
    (run,) = parse_perftest(lines)
    assert (run.title, run.device, run.link, run.bandwidth) == ("RDMA_Write BW", "mlx5_0", "Ethernet", 390.12)


def test_lines_of_two_hosts_among_each_other_are_two_runs():
    one, other = (text(average=value).splitlines() for value in ("390.12", "97.50"))
    lines = [line for pair in zip(one, other, strict=True) for line in (f"node01: {pair[0]}", f"node02: {pair[1]}")]
    lines.append("node02: Completion with error at client")
    runs = parse_perftest(lines)
    assert [(run.bandwidth, len(run.faults)) for run in runs] == [(390.12, 0), (97.5, 1)]


@pytest.mark.parametrize("value", ["-1.00", "inf", "-inf"])
def test_an_impossible_bandwidth_is_a_fault_and_no_result(value):
    (run,) = parse_perftest(text(average=value).splitlines())
    assert run.bandwidth is None
    assert [f.rule for f in perftest_checks(run)] == ["rdma.impossible"]


def test_a_title_without_rows_has_failed():
    (run,) = parse_perftest([line for line in text().splitlines() if "65536" not in line])
    assert [(f.rule, f.verdict) for f in perftest_checks(run)] == [("rdma.not-measured", "unknown")]


def test_a_table_with_a_service_level_and_the_load_of_the_processor():
    heads = " #bytes     #sl     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]   CPU_Util[%]"
    (run,) = parse_perftest([f"{' ' * 20}RDMA_Write BW Test", heads, " 65536 3 5000 391.0 390.1 0.7 12.5"])
    assert run.bandwidth == 390.1


def json_text(results, **info):
    return json.dumps({"test_info": {"test": "RDMA_Write_BW_Test", "Device": "mlx5_0", **info}, "results": results})


def test_json_has_no_unit():
    run = parse_perftest_json(json_text({"MsgSize": 65536, "n_iterations": 5000, "BW_average": 390.1, "BW_peak": 391}))
    assert (run.title, run.device, run.bandwidth, run.shown_bandwidth) == ("RDMA_Write BW", "mlx5_0", None, 390.1)
    assert list(perftest_checks(run)) == []


def test_json_with_a_service_level_is_read_all_the_same():
    broken = json_text({"MsgSize": 2, "t_typical": 1.9}).replace('"MsgSize"', '\nsl: 0,\n"MsgSize"')
    assert parse_perftest_json(broken).latency == 1.9


@pytest.mark.parametrize("other", ["", "{", "[]", "{}", '{"results": {}}', '{"test_info": {}, "results": []}'])
def test_other_json_is_none(other):
    assert parse_perftest_json(other) is None


NOW = " [2026-11-20 10:00:00.123456] iteration       20/     100 | consumed samples:  5120 | elapsed time per iteration (ms): 1234.5 | throughput per GPU (TFLOP/s/GPU): 491.8 | global batch size:   256 | lm loss: 2.5E+00 | number of nan iterations:   0 |"  # noqa: E501


@pytest.mark.parametrize(
    ("line", "time", "tflops", "batch"),
    [
        (NOW, 1234.5, 491.8, 256),
        (NOW.replace(" 491.8 ", " 491.8/492.9 "), 1234.5, 491.8, 256),  # Primus: now and average
        ("[default7]: iteration 20/ 100 | elapsed time per iteration (ms): 9.5 | TFLOPs: 151.2 |", 9.5, 151.2, None),
        ("==> iteration 20/100 | global batch size: 256 | tflops/gpu: 151.2 | elapsed time per iteration (ms): 9.5 |",
         9.5, 151.2, 256),
        ("[default7]: iteration 20/ 100 | elapsed time per iteration (s): 105.22 | TFLOPs: 150.3 |", 105220.0, 150.3,
         None),
        (NOW.replace(" 1234.5 ", " 1234.5/1240.1 "), 1234.5, 491.8, 256),
        ("iteration 20/ 100 | elapsed time per iteration (ms) 1234.5 | lm loss 2.5 |", 1234.5, None, None),
        ("12: Step Time : 12.3s GPU utilization: 450.1MODEL_TFLOP/s/GPU", 12300.0, 450.1, None),
    ],
)  # fmt: skip
def test_lines_of_training(line, time, tflops, batch):
    (found,) = parse_megatron([line])
    assert (found.time, found.tflops, found.batch) == (pytest.approx(time), tflops, batch)


def parsed(tmp_path, *texts):
    files = [tmp_path / f"{n}.txt" for n in range(len(texts))]
    for file, content in zip(files, texts, strict=True):
        file.write_text(content)
    return parse_nccl(ParseRequest(files))


def test_files_of_all_benchmarks_are_read(tmp_path):
    log = "\n".join(NOW.replace(" 20/", f" {n}/") for n in range(1, 9))
    found = parsed(tmp_path, text(), log, json_text({"MsgSize": 2, "BW_average": 390.1}), text(unit="MiB/sec"))
    assert is_passed(found.findings)
    shown = parsed_text(found)
    for words in (
        "390.12 Gb/s",
        "1234.5 ms per iteration",
        "491.8 TFLOP/s per GPU",
        "in the unit of the run's options",
    ):
        assert words in shown
    benchmarks = [each.benchmark for each in parsed_document(found, found.findings).others]
    assert benchmarks == ["perftest", "megatron", "perftest", "perftest"]


def test_what_went_wrong_fails_and_what_is_nothing_is_not_known(tmp_path):
    assert worst(parsed(tmp_path, text(average="inf")).findings) == "fail"
    nothing = parsed(tmp_path, "hello\n")
    (missing,) = nothing.findings
    assert (missing.rule, missing.verdict) == ("bench.no-run", "unknown")


def test_the_loss_of_a_line_may_be_no_number():
    (found,) = parse_megatron([NOW.replace("2.5E+00", "nan")])
    assert math.isnan(found.loss)


def with_prefix(prefix, content):
    return "".join(f"{prefix.replace('{n}', str(at % 10))}{line}\n" for at, line in enumerate(content.splitlines()))


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_file_with_a_launchers_prefix_is_read_whole(tmp_path, prefix):
    log = "\n".join(NOW.replace(" 20/", f" {n}/") for n in range(1, 5))
    outcome = parsed(tmp_path, with_prefix(prefix, text()), with_prefix(prefix, log))
    bandwidth, trained = (other.run for other in outcome.others)
    assert (bandwidth.bandwidth, trained.tflops) == (390.12, 491.8)
    assert is_passed(outcome.findings)


def test_lines_that_docker_keeps_as_json_are_read_whatever_printed_them(tmp_path):
    kept = "".join(json.dumps({"log": f"{line}\n", "stream": "stdout"}) + "\n" for line in text().splitlines())
    (other,) = parsed(tmp_path, kept).others
    assert other.run.bandwidth == 390.12


WARNING = "vm-01:7:8 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.6<51> with status=12 opcode=0 len=0\n"


def test_a_warning_of_nccl_in_a_log_of_training_hides_no_iteration(tmp_path):
    outcome = parsed(tmp_path, "NCCL version 2.27.3+cuda12.9\n" + NOW + "\n" + WARNING + NOW + "\n" + NOW + "\n")
    (other,) = outcome.others
    assert (outcome.runs, other.run.tflops) == ((), 491.8)
    assert [(check.rule, check.verdict) for check in other.checks] == [("nccl.warning", "warn")]


def test_two_benchmarks_in_one_file_are_both_read(tmp_path):
    table = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
    table += "134217728 33554432 float sum -1 1300.0 103.24 180.68 0 1298.0 103.40 180.95 0\n"
    outcome = parsed(tmp_path, text() + table)
    assert [len(each.run.rows) for each in outcome.runs] == [1]
    assert [other.run.bandwidth for other in outcome.others] == [390.12]


def test_latencies_of_a_run_by_duration_are_read():
    heads = " #bytes        #iterations       t_avg[usec]    tps average"
    (run,) = parse_perftest(
        [f"{' ' * 20}RDMA_Write Latency Test", heads, " 2             4000000          1.24  403225.81"]
    )
    assert run.latency == 1.24
