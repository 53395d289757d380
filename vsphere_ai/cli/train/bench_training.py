"""`vsphere-ai bench megatron`, `scale` and `burn`: training programs on VMs, measured and compared."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click
from typing_extensions import Unpack

from vsphere_ai.cli.console.findings import Look, ShownAs, fail_on_option, show_findings
from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.help_examples import TRAINING, example
from vsphere_ai.cli.console.options import changes_nothing, gathering, variable_options
from vsphere_ai.cli.train.bench_nodes import (
    NODES,
    meant,
    nodes_request,
    without_lines,
)
from vsphere_ai.cli.train.options import (
    baseline_option,
    learn_option,
    preflight_option,
    python_option,
    run_timeout_option,
    suffix_option,
    tensor_option,
    tolerance_option,
)

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest, NodesRequest
    from vsphere_ai.app.training.benchmarks.burn import BurnOptions
    from vsphere_ai.app.training.benchmarks.megatron import MegatronOptions, MegatronTest
    from vsphere_ai.app.training.benchmarks.scale import ScaleOptions
    from vsphere_ai.model.finding import FailOn


def _megatron() -> type[MegatronTest]:
    from vsphere_ai.app.training.benchmarks.megatron import MegatronTest

    return MegatronTest


def _options() -> type[MegatronOptions]:
    from vsphere_ai.app.training.benchmarks.megatron import MegatronOptions

    return MegatronOptions


_COUNT = click.IntRange(1)
_MODEL = (
    click.option("--model", default="sanity", show_default=True, metavar="NAME", help="sanity, 1.3b or 7b."),
    click.option("--iterations", type=_COUNT, default=20, show_default=True, help="Iterations."),
    click.option("--warmup", type=click.IntRange(0), default=5, show_default=True, help="First ones, not measured."),
    click.option("--samples", type=_COUNT, default=64, show_default=True, help="Samples per GPU and iteration."),
    click.option("--micro-batch", type=_COUNT, default=8, show_default=True, help="Of these, at a time."),
    tensor_option,
    click.option("--pipeline", type=_COUNT, default=1, show_default=True, help="GPUs that share the layers."),
    click.option(
        "--folder", default="/opt/Megatron-LM", show_default=True, metavar="PATH", help="Megatron-LM in the guests."
    ),
    python_option,
)
_MORE = click.option("--argument", "more", multiple=True, metavar="TEXT", help="Further argument of Megatron.")


@click.command("megatron")
@gathering("nodes", nodes_request, *NODES)
@gathering("test", _megatron, *_MODEL, _MORE)
@gathering(
    "options",
    _options,
    preflight_option,
    run_timeout_option(1800.0),
    click.option("--port", type=click.IntRange(1024, 65535), default=29500, show_default=True, help="Of rank 0."),
    click.option("--min-tflops", type=click.FloatRange(0, min_open=True), help="TFLOP/s per GPU to reach."),
    baseline_option,
    learn_option("a baseline of a run that passed"),
    tolerance_option,
)
@variable_options
@output_option()
@fail_on_option
@changes_nothing
@example("bench megatron playbooks/training-set.yml --learn megatron.yml", needs=TRAINING)
def megatron(
    nodes: NodesRequest, test: MegatronTest, options: MegatronOptions, estate: EstateRequest, **shown: Unpack[ShownAs]
) -> int:
    """Train a small GPT of Megatron-LM with mock data on all VMs together, and judge what it reaches.

    The guests need Megatron-LM and PyTorch. Exits 0 when it passed or only warns, 1 when it was not measured, 2 when it
    is below the baseline or computes wrongly. Ctrl-C ends the processes on every VM.
    """
    from vsphere_ai.app.training.benchmarks.megatron import MegatronRequest, bench_megatron
    from vsphere_ai.report.training.benchmark_training_text import megatron_document, megatron_text

    result = bench_megatron(MegatronRequest(meant(nodes, estate), test, options), without_lines(shown["form"]))
    document, look = partial(megatron_document, result), Look(figures=megatron_text(result))
    return show_findings(result.findings, shown["form"], shown["fail_on"], document, look)


def _scale() -> type[ScaleOptions]:
    from vsphere_ai.app.training.benchmarks.scale import ScaleOptions

    return ScaleOptions


@click.command("scale")
@gathering("nodes", nodes_request, *NODES)
@gathering(
    "options",
    _scale,
    click.option(
        "--with",
        "what",
        type=click.Choice(("nccl", "megatron")),
        default="nccl",
        show_default=True,
        help="What is run on each number of VMs.",
    ),
    click.option("--least", type=click.FloatRange(0, 1), default=0.8, show_default=True, help="Efficiency to reach."),
    click.option("--runs", type=click.IntRange(1, 99), default=1, show_default=True, help="Runs each, the best."),
    preflight_option,
    run_timeout_option(1800.0),
    suffix_option,
)
@gathering("test", _megatron, *_MODEL, _MORE)
@variable_options
@output_option()
@fail_on_option
@changes_nothing
@example("bench scale playbooks/training-set.yml --suffix _mpi", needs=TRAINING)
def scale(
    nodes: NodesRequest, options: ScaleOptions, test: MegatronTest, estate: EstateRequest, **shown: Unpack[ShownAs]
) -> int:
    """Run the same benchmark on 1, 2, 4 … VMs and on all, and name the step at which efficiency falls.

    With nccl it begins with 2 VMs, since one alone does not use the network. Exits 0 when every size is efficient
    enough, 1 when one was not measured, 2 when one is less efficient than --least.
    """
    from vsphere_ai.app.training.benchmarks.scale import ScaleRequest, bench_scale
    from vsphere_ai.report.training.benchmark_training_text import scale_document, scale_text

    result = bench_scale(ScaleRequest(meant(nodes, estate), options, test), without_lines(shown["form"]))
    document, look = partial(scale_document, result), Look(figures=scale_text(result))
    return show_findings(result.findings, shown["form"], shown["fail_on"], document, look)


def _burn() -> type[BurnOptions]:
    from vsphere_ai.app.training.benchmarks.burn import BurnOptions

    return BurnOptions


@click.command("burn")
@gathering("nodes", nodes_request, *NODES)
@gathering(
    "options",
    _burn,
    click.option("--minutes", type=click.FloatRange(0.05, 1440), default=25.0, show_default=True, help="How long."),
    click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the weights and samples."),
    click.option(
        "--rows", "size", type=click.IntRange(64), default=4096, show_default=True, help="Rows of each layer."
    ),
    click.option("--layers", type=_COUNT, default=4, show_default=True, help="Layers."),
    click.option("--steps", type=_COUNT, default=200, show_default=True, help="Steps of a cycle."),
    click.option(
        "--type",
        type=click.Choice(("bfloat16", "float16", "float32")),
        default="bfloat16",
        show_default=True,
        help="Type of its numbers.",
    ),
    click.option(
        "--interval",
        "every",
        type=click.FloatRange(1),
        default=15.0,
        show_default=True,
        help="Seconds between samples.",
    ),
    python_option,
    preflight_option,
)
@variable_options
@output_option()
@fail_on_option
@changes_nothing
@example("bench burn playbooks/training-set.yml --minutes 0.1 --steps 10", needs=TRAINING)
def burn(nodes: NodesRequest, options: BurnOptions, estate: EstateRequest, form: str, fail_on: FailOn) -> int:
    """Keep every GPU busy for 20 to 30 minutes with the same training steps, and compare the losses bit for bit.

    Clocks, power, heat and throttling are asked of the guest, or of the host of a vGPU. The guests need PyTorch. Exits
    0 when every GPU passed, 1 when one was not measured, 2 when one computes wrongly, is slow or throttled. Ctrl-C ends
    the processes on every VM.
    """
    from vsphere_ai.app.training.benchmarks.burn import BurnRequest, bench_burn
    from vsphere_ai.report.training.benchmark_training_text import burn_document, burn_text

    result = bench_burn(BurnRequest(meant(nodes, estate), options), without_lines(form))
    look = Look(figures=burn_text(result))
    return show_findings(result.findings, form, fail_on, partial(burn_document, result), look)


COMMANDS: tuple[click.Command, ...] = (megatron, scale, burn)
