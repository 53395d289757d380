"""Readers of other programs' text on mutated real samples: faults are reported, none is an internal error."""

from __future__ import annotations

import ast
import random
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest
from support import seeds
from support.other_readers import OTHER_FORMATS

from vsphere_ai.benchmarks.nccl.nccl_text import parse_text
from vsphere_ai.benchmarks.perftest import parse_perftest, parse_perftest_json, perftest_checks
from vsphere_ai.benchmarks.programs.megatron import parse_megatron
from vsphere_ai.errors import VsphereAiError
from vsphere_ai.gpu.smi.listings import (
    parse_compute_instances,
    parse_gpus,
    parse_instances,
    parse_placements,
    parse_profiles,
)
from vsphere_ai.gpu.smi.running import parse_running
from vsphere_ai.gpu.smi.smi_xml import parse_xml
from vsphere_ai.health import nhc
from vsphere_ai.health.answers import GPU_FIELDS, SMI, read_guest
from vsphere_ai.health.kernel.kernel_log import events
from vsphere_ai.health.kernel.xids import link_error, nvlink_error, recovery_action
from vsphere_ai.model.guest_probes import CommandAnswer
from vsphere_ai.training.exports import accelerate_config, ansible_check, hostfiles, nccl_conf, nccl_topo, slurm_check

TESTS = Path(__file__).parents[1]
QUERY = "0, 00000000:3B:00.0, NVIDIA A100, GPU-1, Enabled, [N/A], 40960 MiB, 535.154.05\n" * 3
HEALTH = ", ".join("0x0000000000000001" if "throttle" in name else "3" for name in GPU_FIELDS) + "\n"
KERNEL = """[ 1.5] NVRM: Xid (PCI:0000:05:00): 79, pid=1, name=python, GPU has fallen off the bus.
[ 2.5] NVRM: Xid (PCI:0000:18:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000)
[ 3.5] NVRM: Xid (PCI:0000:18:00): 74, NVLink: fatal error on link 6(0x1, 0x0, 0x0, 0x4, 0x0, 0x0, 0x0)
[ 4.5] NVRM: Xid (PCI:0000:18:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)
[ 5.5] nvidia-nvswitch0: SXid (PCI:0000:85:00.0): 20034, Fatal, Link 30 LTSSM Fault Up
[ 6.5] pcieport 0000:00:1c.0: AER: Uncorrected (Fatal) error received: 0000:3b:00.0
[ 7.5] mlx5_core 0000:3b:00.0: mlx5_pcie_event:299:(pid 7): Detected insufficient power on the PCIe slot (27W).
"""
PERFTEST = """                    RDMA_Write BW Test
 Device         : mlx5_0
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             391.00             390.12             0.743
"""
TOPOLOGY = """<system version="1">
<cpu numaid="0" affinity="ffff" arch="x86_64"><pci busid="0000:03:00.0" class="0x030200"><gpu dev="0"/></pci></cpu>
</system>
"""
SLURM = """ClusterName=c
SlurmctldHost=h
NodeName=gpu[01-04]-ib,r[1-2]n[1-4] CPUs=16 Gres=gpu:8
PartitionName=p Nodes=gpu01-ib
"""
ACCELERATE = "distributed_type: MULTI_GPU\nnum_processes: 16\nnum_machines: 2\nmain_process_ip: 10.0.0.1\n"
ANSIBLE = "all:\n  children:\n    gpu:\n      hosts:\n        n[01:16]:\n        other: {ansible_host: 10.0.0.1}\n"


def samples(pattern: str) -> list[str]:
    found = [path.read_text("utf-8", "replace") for path in sorted(TESTS.glob(pattern))]
    assert found, pattern
    return found


def kernel(text: str) -> None:
    for event in events(text.splitlines()):
        nvlink_error(event.number, event.text)
        link_error(event.text)
        recovery_action(event.text)


LISTINGS = (parse_instances, parse_compute_instances, parse_profiles, parse_placements)


def answered(parse: Callable[[int, str], object], text: str) -> object:
    try:
        return parse(0, text)
    except VsphereAiError as error:
        return error


def perftest(text: str) -> None:
    for run in parse_perftest(text.splitlines()):
        assert run.bandwidth is None or run.bandwidth >= 0
        list(perftest_checks(run))
    parse_perftest_json(text)


FORMATS: dict[str, tuple[list[str], Callable[[str], object]]] = {
    "nccl-tests": (samples("benchmarks/samples/nccl-*.txt"), lambda text: parse_text(text.splitlines())),
    "megatron": (samples("benchmarks/samples/megatron-*.txt"), lambda text: parse_megatron(text.splitlines())),
    "perftest": ([PERFTEST, '{"test_info": {"test": "X"}, "results": {"BW_average": 1.0}}'], perftest),
    "vgpu -q": (samples("gpu/fixtures/vgpu-q-*.txt"), lambda text: parse_running(0, text)),
    "query-gpu": ([QUERY], lambda text: parse_gpus(0, text)),
    "mig listings": (samples("gpu/fixtures/real-*.txt"), lambda text: [
        [answered(parse, text) for parse in LISTINGS]
    ]),
    "-q -x": (samples("gpu/fixtures/xml/*.xml"), lambda text: parse_xml(0, text)),
    "health": ([HEALTH * 3], lambda text: read_guest({SMI.name: CommandAnswer(0, text)})),
    "kernel log": ([KERNEL], kernel),
    "nhc": (["* || check_fs_free / 5%\n{n[01-10]x} || check_hw_eth 'ens 1'\n"], nhc.read),
    "hostfile": (["n1 slots=8 # a\n10.0.0.2:8\n^n3 slots=x\n"], hostfiles.check),
    "deepspeed": (["n1 slots=8 max_slots=9\nn2 slots=8\n"], hostfiles.check_deepspeed),
    "nccl.conf": (["# a\nNCCL_DEBUG=INFO\n NCCL_IB_HCA =^mlx5_0:1\n"], nccl_conf.check),
    "topology": ([TOPOLOGY], nccl_topo.check),
    "slurm": ([SLURM], slurm_check.check),
    "accelerate": ([ACCELERATE], accelerate_config.check),
    "ansible": ([ANSIBLE, "[gpu]\nn[01:16]:22 a=b\n[gpu:vars]\nx=1\n"], ansible_check.check),
    **OTHER_FORMATS,
}  # fmt: skip
ODD = [
    "",
    " ",
    "\n",
    "\t",
    "\0",
    "\ufeff",
    "é",
    "²",
    "\u0663",
    "-1",
    "0",
    "9" * 30,
    "inf",
    "nan",
    "[",
    "]",
    "{",
    "}",
    '"',
    "'",
    "#",
    ":",
    "=",
]
CASES = seeds.by_level(60, 10_000)


def mutated(text: str, drawn: random.Random) -> str:
    """Return a text with one to four of its parts removed, doubled, replaced or moved."""
    text = text[: 6_000 if len(text) > 6_000 and drawn.random() < 0.8 else None]
    for _ in range(drawn.randint(1, 4)):
        at = drawn.randint(0, len(text))
        end = min(len(text), at + drawn.choice((0, 1, 1, 2, 5, 40)))
        part = drawn.choice((drawn.choice(ODD), text[at:end] * 2, text[end : end + 20], text[at:end].swapcase()))
        text = text[:at] + part + text[end:]
    return text


@pytest.mark.parametrize("name", FORMATS)
def test_no_mutation_of_a_sample_ends_in_an_internal_error(name):
    texts, read = FORMATS[name]
    drawn = seeds.chance("readers", name)
    for number in range(CASES):
        text = mutated(drawn.choice(texts), drawn)
        try:
            read(text)
        except VsphereAiError:
            continue
        except Exception as fault:
            raise AssertionError(f"case {number} of {name}: {fault!r}\n{text!r}") from fault


PACKAGE = TESTS.parent / "vsphere_ai"
ROOMS = ("benchmarks", "fabric", "gpu", "guests", "health", "kubernetes", "model/names", "training")
READER = re.compile(r"(?:parse|read|check)(?:_\w+)?|events|network_of|\w+_(?:in|error|action)")
TEXTS = {"str", "Iterable[str]", "Sequence[str]"}
NAMES = {"text", "stdout", "out", "lines", "listing", "answer"}


def readers() -> Iterator[tuple[str, str]]:
    """Modules and functions that read a text of another program: by their names, and by what they take."""
    for room in ROOMS:
        for path in sorted((PACKAGE / room).rglob("*.py")):
            for node in ast.parse(path.read_text("utf-8")).body:
                if isinstance(node, ast.FunctionDef) and READER.fullmatch(node.name):
                    first = node.args.args[:2]
                    if any(a.arg in NAMES and a.annotation and ast.unparse(a.annotation) in TEXTS for a in first):
                        yield str(path), node.name


def called(texts: list[str], read: Callable[[str], object]) -> set[tuple[str, str]]:
    """The functions that are called while samples are read."""
    seen: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            seen.add((frame.f_code.co_filename, frame.f_code.co_name))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        for text in texts:
            read(text)
    finally:
        sys.setprofile(before)
    return seen


def test_every_reader_of_the_product_is_in_the_fuzz():
    """A reader is found by its name and by what it takes, and has to be called for the samples of a format."""
    every = set(readers())
    assert len(every) > 40
    seen = set().union(*(called(texts, read) for texts, read in FORMATS.values()))
    assert sorted(every - seen) == []
