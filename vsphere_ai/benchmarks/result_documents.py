"""Documents of benchmarks: what was measured, beside the findings; null is what was not measured."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, JsonValue

from vsphere_ai.benchmarks.baseline import ExpectedBandwidth
from vsphere_ai.benchmarks.nccl.nccl_run import NcclDevice
from vsphere_ai.benchmarks.perftest import RailRate
from vsphere_ai.benchmarks.programs.megatron_baseline import ExpectedThroughput
from vsphere_ai.benchmarks.programs.scaling import Scale
from vsphere_ai.benchmarks.published import Figure
from vsphere_ai.benchmarks.slow_part.crossover import Answer
from vsphere_ai.benchmarks.slow_part.search import SearchOutcome
from vsphere_ai.benchmarks.statistics import Norm
from vsphere_ai.documents.benchmark_history import BenchmarkResult
from vsphere_ai.documents.findings import FindingDocument, FindingsDocument
from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.documents.printed import PrintedLine
from vsphere_ai.model.finding import Verdict

BusBandwidth = Annotated[float | None, Field(description="Bus bandwidth in GB/s.")]
Change = Annotated[float | None, Field(description="Share above the earlier results; null: there are none.")]
Learned = Annotated[tuple[ExpectedBandwidth, ...], Field(description="Baselines that were learned.")]


class RanksDocument(DocumentPart):
    """Ranks of a run: as its text says, and as its bandwidths show."""

    declared: int | None
    inferred: str | None


class VersionsDocument(DocumentPart):
    """Versions of a run; "" where its text does not say one."""

    nccl_tests: str
    nccl: str


class CellDocument(DocumentPart):
    """What was measured of a size."""

    time_us: float
    algbw: Annotated[float, Field(description="GB/s.")]
    busbw: Annotated[float, Field(description="GB/s.")]
    wrong: Annotated[float | None, Field(description="Values that were wrong; null: they were not checked.")]


class SizeDocument(DocumentPart):
    """A row of nccl-tests."""

    size: Annotated[int, Field(description="Bytes.")]
    count: int
    type: str
    redop: str
    root: int | None
    out_of_place: CellDocument | None
    in_place: CellDocument | None


class NcclRunDocument(DocumentPart):
    """A run of nccl-tests."""

    file: str
    collectives: tuple[str, ...]
    ranks: RanksDocument
    busbw: Annotated[float | None, Field(description="Bus bandwidth in GB/s at the largest size.")]
    size: Annotated[int | None, Field(description="The largest size in bytes.")]
    average: BusBandwidth
    out_of_bounds: int | None
    versions: VersionsDocument
    devices: tuple[NcclDevice, ...]
    rows: tuple[SizeDocument, ...]
    channels: Annotated[dict[str, int], Field(description="By transport.")]
    published: Annotated[tuple[Figure, ...], Field(description="Published figures that it is compared with.")]


class MegatronFileDocument(DocumentPart):
    """A log of Megatron."""

    file: str
    benchmark: Literal["megatron"]
    iterations: int
    ms: Annotated[float, Field(description="Of an iteration, the median.")]
    tflops: Annotated[float | None, Field(description="Per GPU.")]
    samples_per_second: float | None


class PerftestFileDocument(DocumentPart):
    """A run of perftest."""

    file: str
    benchmark: Literal["perftest"]
    title: str
    device: str
    link: str
    gbits: Annotated[float | None, Field(description="Gigabits per second.")]
    latency_us: float | None
    bandwidth_without_unit: Annotated[float | None, Field(description="In the unit of the run's options.")]


class ParsedDocument(FindingsDocument):
    """What `bench parse` prints."""

    printed_by: ClassVar = ("bench parse",)

    runs: tuple[NcclRunDocument, ...]
    others: tuple[MegatronFileDocument | PerftestFileDocument, ...]
    learned: Learned


class PairBandwidthDocument(DocumentPart):
    """A pair of VMs, and what it reached."""

    vms: tuple[str, str]
    busbw: BusBandwidth


class WayDocument(DocumentPart):
    """VMs on one way of the data, such as NVLink or sockets, and what they reached."""

    vms: tuple[str, ...]
    way: str
    busbw: BusBandwidth
    share: Annotated[float | None, Field(description="Of what the others reach; null: it is not slow.")]
    slow: bool


class NcclDocument(FindingsDocument):
    """What `bench nccl` prints."""

    printed_by: ClassVar = ("bench nccl",)

    trials: int
    rounds: int
    learned: Learned
    runs: tuple[NcclRunDocument, ...]
    pairs: tuple[PairBandwidthDocument, ...]
    layers: tuple[WayDocument, ...]
    outcome: Annotated[SearchOutcome | None, Field(description="What a search found; null: nothing was searched.")]
    reference: Annotated[float | None, Field(description="GB/s that trials are compared with.")]


class RailsDocument(FindingsDocument):
    """What `bench rdma` prints."""

    printed_by: ClassVar = ("bench rdma",)

    rails: tuple[RailRate, ...]


class TrendDocument(DocumentPart):
    """The newest result of a measurement beside the earlier ones; `change` and `slope` are shares."""

    newest: BenchmarkResult
    results: int
    norm: Annotated[Norm | None, Field(description="Of the earlier results; null: there are none.")]
    change: float
    slope: float
    significant: bool
    worse: bool


class TrendsDocument(FindingsDocument):
    """What `bench history` prints."""

    printed_by: ClassVar = ("bench history",)

    measurements: tuple[TrendDocument, ...]


class MegatronDocument(FindingsDocument):
    """What `bench megatron` prints."""

    printed_by: ClassVar = ("bench megatron",)

    vms: tuple[str, ...]
    gpus: int
    test: str
    iterations: int
    step_ms: Annotated[float | None, Field(description="Of an iteration, the median.")]
    spread: Annotated[float | None, Field(description="Share of it.")]
    tflops_per_gpu: float | None
    samples_per_second: float | None
    tokens_per_second: float | None
    loss: Annotated[float | str | None, Field(description="A text where it is no number.")]
    baseline: ExpectedThroughput | None
    change: Change
    log: Annotated[tuple[str, ...], Field(description="The last lines of the log of a run that failed.")]


class AddedVmDocument(DocumentPart):
    """A VM that came with a size, and its host ("": not known)."""

    vm: str
    host: str


class ScalingStepDocument(DocumentPart):
    """The step from one number of VMs to the next at which efficiency falls."""

    smaller: Annotated[int, Field(alias="from")]
    larger: Annotated[int, Field(alias="to")]
    lost: Annotated[float, Field(description="Share of linear.")]
    added: tuple[AddedVmDocument, ...]


class ScalingDocument(FindingsDocument):
    """What `bench scale` prints."""

    printed_by: ClassVar = ("bench scale",)

    benchmark: Annotated[Literal["nccl", "megatron"], Field(alias="with")]
    unit: str
    sizes: Annotated[tuple[Scale, ...], Field(description="Efficiency is a share of linear.")]
    falls: Annotated[ScalingStepDocument | None, Field(description="null: efficiency falls nowhere.")]
    change: Change


class BurnedVmDocument(DocumentPart):
    """A VM of a burn, with the worst verdict of its GPUs and itself."""

    vm: str
    host: str
    verdict: Verdict


class BurnSamplesDocument(DocumentPart):
    """Samples of a GPU: medians of clock and power, the highest temperature, every reason of throttling."""

    side: Annotated[str, Field(description="Who was asked: guest or host.")]
    count: int
    clock_mhz: float | None
    power_w: float | None
    temperature_c: float | None
    throttle: tuple[str, ...]


class BurnedGpuDocument(DocumentPart):
    """A GPU of a burn."""

    vm: str
    gpu: Annotated[int, Field(description="Its number in the guest.")]
    host: str
    pci: Annotated[str, Field(description='PCI address on the host; "" where it is not known.')]
    verdict: Verdict
    cycles: int
    steps_per_second: float | None
    digest: Annotated[str, Field(description="Of the losses of a cycle.")]
    configuration: dict[str, JsonValue]
    samples: BurnSamplesDocument


class BurnDocument(FindingsDocument):
    """What `bench burn` prints."""

    printed_by: ClassVar = ("bench burn",)

    seconds: float
    vms: tuple[BurnedVmDocument, ...]
    gpus: tuple[BurnedGpuDocument, ...]


class CrossoverTrialDocument(DocumentPart):
    """VMs that were measured together, before and after the moves, in GB/s."""

    vms: tuple[str, ...]
    runs: int
    before: BusBandwidth
    moved: BusBandwidth


class CrossoverLine(PrintedLine):
    """The verdict of `bench crossover`, the line before the summary: whether the VM or its host is slow."""

    printed_by: ClassVar = ("bench crossover",)

    type: Literal["verdict"]
    answer: Answer
    vm: str
    host: str
    to: Annotated[str, Field(description="The host that it was moved to.")]
    swapped_with: Annotated[str, Field(description='The VM that changed hosts with it; "": none.')]
    gpus: Annotated[tuple[str, ...], Field(description="PCI addresses on its host.")]
    vmnics: tuple[str, ...]
    trials: tuple[CrossoverTrialDocument, ...]
    verdict: Verdict
    findings: tuple[FindingDocument, ...]
