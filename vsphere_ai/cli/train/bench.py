"""`vsphere-ai bench`: results of benchmarks, read, checked and compared."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from typing_extensions import Unpack

from vsphere_ai.cli.console.findings import Look, ShownAs, fail_on_option, show_findings
from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.help_examples import TRAINING, example
from vsphere_ai.cli.console.options import FILE, changes_nothing, gathering, variable_options
from vsphere_ai.cli.train.bench_crossover import crossover
from vsphere_ai.cli.train.bench_nodes import (
    NODES,
    meant,
    nodes_request,
    without_lines,
)
from vsphere_ai.cli.train.bench_training import COMMANDS
from vsphere_ai.cli.train.options import (
    baseline_option,
    learn_option,
    preflight_option,
    run_timeout_option,
    slowdown_option,
    suffix_option,
    tolerance_option,
)

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest, NodesRequest
    from vsphere_ai.app.training.benchmarks.nccl import NcclOptions, NcclTest
    from vsphere_ai.app.training.benchmarks.parse import ParseRequest
    from vsphere_ai.model.finding import FailOn

HELP_ENTRY = "Train", 30, "Measure VMs and fabric, find what is slow."


@click.group("bench")
def command() -> None:
    """Benchmark the fabric of training VMs; find what is slow."""


for _each in (crossover, *COMMANDS):
    command.add_command(_each)


def _parse_request() -> type[ParseRequest]:
    from vsphere_ai.app.training.benchmarks.parse import ParseRequest

    return ParseRequest


@command.command("parse")
@gathering(
    "request",
    _parse_request,
    click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True)),
    click.option("--ranks", type=click.IntRange(1), help="Ranks that the runs were started with."),
    click.option("--gpu", default="", metavar="NAME", help="GPU of the runs, such as A100, for published figures."),
    baseline_option,
    tolerance_option,
    click.option("--learn", "learned", type=FILE, help="Write a baseline of the runs that passed."),
)
@click.option("--summary", is_flag=True, help="Leave out the tables.")
@output_option()
@fail_on_option
@changes_nothing
@example("bench parse all-reduce.txt --ranks 64", needs="all-reduce.txt, which nccl-tests has printed")
def parse(request: ParseRequest, summary: bool, form: str, fail_on: FailOn) -> int:
    """Read and check output of nccl-tests, perftest (text or JSON) or Megatron; needs no connection.

    - is standard input. Runs of nccl-tests are compared with a baseline and with published figures.

    Exits 0 when every run passed or only warns, 1 when something is not known: a measurement of the baseline is
    missing, or there is no run; 2 when a run failed a check.
    """
    from vsphere_ai.app.training.benchmarks.parse import parse_nccl
    from vsphere_ai.report.training.benchmark_text import parsed_document, parsed_text

    result = parse_nccl(request)
    look = Look(figures=parsed_text(result, rows=not summary))
    return show_findings(result.findings, form, fail_on, partial(parsed_document, result), look)


def _test() -> type[NcclTest]:
    from vsphere_ai.app.training.benchmarks.nccl import NcclTest

    return NcclTest


def _options() -> type[NcclOptions]:
    from vsphere_ai.app.training.benchmarks.nccl import NcclOptions

    return NcclOptions


@command.command("nccl")
@gathering("nodes", nodes_request, *NODES)
@gathering(
    "test",
    _test,
    click.option("--op", "operation", default="all_reduce", show_default=True, help="Collective."),
    click.option("--min", "least", default="8", show_default=True, metavar="SIZE", help="Smallest size."),
    click.option("--max", "most", default="8G", show_default=True, metavar="SIZE", help="Largest size."),
    click.option("--iterations", type=click.IntRange(1), default=20, show_default=True, help="Iterations per size."),
    click.option("--warmup", type=click.IntRange(0), default=5, show_default=True, help="Iterations before them."),
    click.option("--type", default="float", show_default=True, help="Type of the numbers, such as bfloat16."),
    click.option("--reduction", default="sum", show_default=True, help="How ranks' numbers are reduced."),
    click.option("--root", type=click.IntRange(0), default=0, show_default=True, help="Rank of broadcast and reduce."),
    click.option("--no-check", "check", is_flag=True, flag_value=False, default=True, help="Do not check the results."),
    click.option("--graph", type=click.IntRange(0), default=0, show_default=True, help="Replays of a CUDA graph."),
    click.option("--gpus", type=click.IntRange(1), help="GPUs per VM. [default: all]"),
    click.option("--folder", default="", metavar="PATH", help="Folder of the programs in the guests."),
    suffix_option,
)
@gathering(
    "options",
    _options,
    click.option("--pairwise", is_flag=True, help="Measure every pair of VMs."),
    click.option("--bisect", is_flag=True, help="Search for the slow part."),
    click.option(
        "--transports", "layers", is_flag=True, help="Measure pairs of VMs on each way: NVLink, NICs, sockets."
    ),
    preflight_option,
    slowdown_option,
    click.option(
        "--runs", type=click.IntRange(1, 99), default=1, show_default=True, help="Runs per trial, the median."
    ),
    click.option("--reference", type=click.FloatRange(0, min_open=True), help="GB/s that trials are compared with."),
    run_timeout_option(600.0),
    baseline_option,
    tolerance_option,
    learn_option("a baseline of what was measured"),
)
@variable_options
@output_option()
@fail_on_option
@changes_nothing
@example("bench nccl playbooks/training-set.yml --max 1G --suffix _mpi", needs=TRAINING)
def nccl(
    nodes: NodesRequest, test: NcclTest, options: NcclOptions, estate: EstateRequest, **shown: Unpack[ShownAs]
) -> int:
    """Run nccl-tests on VMs over SSH: on all together, on every pair, or as a search for the slow part.

    The guests need Open MPI, nccl-tests and Python. Exits 0 when nothing is slow or wrong, 1 when something was not
    measured, 2 when something is slow, wrong, or left on a VM.
    """
    from vsphere_ai.app.training.benchmarks.nccl import NcclRequest, bench_nccl
    from vsphere_ai.report.training.benchmark_text import nccl_document, nccl_text

    options = replace(options, live=shown["form"] == "text")
    result = bench_nccl(NcclRequest(meant(nodes, estate), test, options), without_lines(shown["form"]))
    document, look = partial(nccl_document, result), Look(figures=nccl_text(result))
    return show_findings(result.findings, shown["form"], shown["fail_on"], document, look)


@command.command("rdma")
@gathering("nodes", nodes_request, *NODES)
@click.option("--iterations", type=click.IntRange(1), default=5000, show_default=True, help="Messages per run.")
@variable_options
@output_option()
@fail_on_option
@changes_nothing
@example("bench rdma playbooks/training-set.yml", needs=TRAINING)
def rdma(nodes: NodesRequest, iterations: int, estate: EstateRequest, form: str, fail_on: FailOn) -> int:
    """Measure every rail of VMs with perftest (ib_write_bw), each VM with both neighbours in a ring.

    The guests need perftest. Exits 0 when no rail is slow, 1 when one was not measured, 2 when one is slower than the
    others.
    """
    from vsphere_ai.app.training.benchmarks.rdma import RdmaRequest, bench_rdma
    from vsphere_ai.report.training.benchmark_text import rails_document, rails_text

    result = bench_rdma(RdmaRequest(meant(nodes, estate), iterations), without_lines(form))
    document, look = partial(rails_document, result.rates), Look(figures=rails_text(result.rates))
    return show_findings(result.findings, form, fail_on, document, look)


@command.command("history")
@click.argument("name", metavar="[SET]", required=False, default="")
@output_option()
@fail_on_option
@changes_nothing
@example("bench history")
def history(name: str, form: str, fail_on: FailOn) -> int:
    """Show the newest result of each measurement beside the earlier ones; needs no connection.

    Results of whole sets are kept on the machine that ran them. One that is worse than the spread of the earlier ones
    explains is a warning. Exits 0, with --fail-on warn 2 when there is a warning.
    """
    from vsphere_ai.app.training.benchmarks.history import history as trends_of
    from vsphere_ai.report.training.benchmark_text import history_document, history_text

    found = trends_of(name=name)
    look = Look(passes=form == "json", figures=history_text(found))
    findings = (trend.finding for trend in found)
    return show_findings(findings, form, fail_on, partial(history_document, found), look)
