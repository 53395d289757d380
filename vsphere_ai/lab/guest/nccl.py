"""`all_reduce_perf` and its relatives of nccl-tests, started by `mpirun` or alone: tables computed from the farm.

What a run reaches is the least of its nodes: the sum of the rails of a node, and NVLink, PCIe or the memory of the host
between its GPUs, as the variables of NCCL allow; times the factors of slow GPUs, and of slow connections between hosts.
Layout: nccl-tests 2.18.3 (src/util.cu).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise

from vsphere_ai.lab.guest.load import pace
from vsphere_ai.lab.guest.machine import GuestGpu, GuestMachine, LabGuestNic
from vsphere_ai.lab.guest.network import is_down, speed_gb
from vsphere_ai.lab.shell.result import ShellResult

EFFICIENCY = 0.92
"""Bus bandwidth of a sound fabric, as a part of its line rate (2 x DGX A100 with 8 x 200 Gb: NVIDIA/deepops, 94 %)."""
NVLINK, PCIE, MEMORY = 230.0, 20.0, 16.0
"""GB/s of bus bandwidth in one node: 8 x A100 with NVLink (azurehpc-health-checks), GPUs without it, without P2P."""
SOCKET = 10 / 8 * EFFICIENCY
"""GB/s over TCP."""
NOISE = 0.01
HALF = 4 << 20
"""Bytes at which half the bandwidth is reached."""
LATENCY_US = 20.0
_SIZE = re.compile(r"(\d+)([KMGT]?)B?", re.IGNORECASE)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
FACTORS: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "alltoall": lambda n: (n - 1) / n,
    "gather": lambda n: (n - 1) / n,
    "scatter": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
    "reduce": lambda n: 1.0,
    "sendrecv": lambda n: 1.0,
}
WHOLE = ("all_gather", "reduce_scatter", "alltoall", "gather", "scatter")
"""Collectives whose size counts all ranks."""
WIDTHS = {
    "int8": 1, "uint8": 1, "f8e4m3": 1, "f8e5m2": 1, "half": 2, "bfloat16": 2, "int32": 4, "uint32": 4, "float": 4,
    "int64": 8, "uint64": 8, "double": 8,
}  # fmt: skip
REDUCING = ("all_reduce", "reduce_scatter", "reduce")
Find = Callable[[str], GuestMachine | None]


@dataclass
class LabNcclRun:
    """A run: the nodes with their number of ranks, and the variables that mpirun hands on."""

    nodes: list[tuple[GuestMachine, int]]
    program: list[str]
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return sum(number for _, number in self.nodes)

    @property
    def options(self) -> dict[str, str]:
        """The options of the program by their letter."""
        words = self.program[1:]
        return {w: v for w, v in pairwise(words) if w.startswith("-")}


def mpirun(head: GuestMachine, argv: Sequence[str], find: Find) -> ShellResult:
    """Answer `mpirun OPTIONS PROGRAM ARGUMENTS` for a program of nccl-tests."""
    if not argv or argv[0] in ("--version", "-V"):
        return ShellResult(0, "mpirun (Open MPI) 4.1.4\n")
    hosts: list[tuple[str, int]] = []
    variables: dict[str, str] = {}
    total, words = 0, list(argv)
    while words and words[0].startswith("-"):
        option = words.pop(0)
        name, _, joined = option.partition("=")
        takes = _TAKES.get(name.lstrip("-"), 0)
        values = [joined] if joined else [words.pop(0) for _ in range(min(takes, len(words)))]
        if name in ("-np", "-n", "--np"):
            total = int(values[0])
        elif name in ("-H", "-host", "--host"):
            hosts += [_slots(part, ":") for part in values[0].split(",")]
        elif name in ("-hostfile", "--hostfile", "-machinefile", "--machinefile"):
            if values[0] not in head.files:
                return ShellResult(1, "", f"Open RTE was unable to open the hostfile:\n    {values[0]}\n")
            lines = (line.partition("#")[0] for line in head.files[values[0]].splitlines())
            hosts += [_slots(line, " slots=") for line in lines if line.strip()]
        elif name == "-x":
            key, _, value = values[0].partition("=")
            variables[key] = value
    nodes = []
    for address, slots in hosts or [(head.name, total or len(head.gpus))]:
        machine = find(address)
        if machine is None:
            return ShellResult(255, "", f"ssh: connect to host {address} port 22: No route to host\n{_ORTE}")
        nodes.append((machine, slots))
    run = LabNcclRun(_dealt(nodes, total), words, variables)
    return perf(run)


_TAKES = {
    "np": 1, "n": 1, "H": 1, "host": 1, "hostfile": 1, "machinefile": 1, "x": 1, "mca": 2, "map-by": 1, "bind-to": 1,
    "prefix": 1, "wdir": 1, "rank-by": 1, "gmca": 2, "pmixmca": 2, "prtemca": 2, "timeout": 1, "output-filename": 1,
}  # fmt: skip
_ORTE = "ORTE was unable to reliably start one or more daemons.\n"


def _slots(text: str, sign: str) -> tuple[str, int]:
    name, _, number = text.strip().partition(sign)
    return name.strip(), int(number.split()[0]) if number.strip() else 1


def _dealt(nodes: list[tuple[GuestMachine, int]], total: int) -> list[tuple[GuestMachine, int]]:
    """Give the ranks to the nodes, slot by slot."""
    left = total or sum(slots for _, slots in nodes)
    dealt = []
    for machine, slots in nodes:
        own = min(slots, left)
        left -= own
        if own:
            dealt.append((machine, own))
    return dealt


def perf(run: LabNcclRun) -> ShellResult:
    """Answer a program of nccl-tests."""
    name = run.program[0].rpartition("/")[2].removesuffix("_mpi").removesuffix("_perf") if run.program else ""
    if name not in FACTORS:
        return ShellResult(127, "", f"mpirun was unable to find the specified executable file:\n  {name}\n")
    for machine, ranks in run.nodes:
        if ranks * int(run.options.get("-g", "1")) > len(machine.gpus):
            text = f"{machine.name}: Test CUDA failure common.cu:892 'invalid device ordinal'\n"
            return ShellResult(
                2, text, "Primary job terminated normally, but 1 process returned a non-zero exit code.\n"
            )
    return ShellResult(0, "".join(f"{line}\n" for line in _lines(run, name)))


def _bytes(text: str) -> int:
    found = _SIZE.fullmatch(text)
    return int(found[1]) * _UNITS[found[2].upper()] if found else 32 << 20


def _lines(run: LabNcclRun, name: str) -> Iterator[str]:
    ranks = run.ranks * int(run.options.get("-g", "1"))
    first, last = _bytes(run.options.get("-b", "32M")), _bytes(run.options.get("-e", "32M"))
    step = int(run.options.get("-f", "1") or 1)
    iterations = run.options.get("-n", "20")
    yield "# nccl-tests version 2.18.3 nccl-headers=23003 nccl-library=23003"
    yield f"# Collective test starting: {name}_perf"
    yield (
        f"# nThread 1 nGpus {run.options.get('-g', '1')} minBytes {first} maxBytes {last} step: {step}(factor) "
        f"warmup iters: {run.options.get('-w', '1')} iters: {iterations} agg iters: 1 "
        f"validation: {run.options.get('-c', '1')} graph: {run.options.get('-G', '0')} unalign: 0"
    )
    yield "#"
    yield "# Using devices"
    yield from _devices(run)
    yield "NCCL version 2.30.3+cuda13.0"
    if run.variables.get("NCCL_DEBUG") == "INFO":
        yield from _info(run)
    yield "#"
    yield f"#{'out-of-place':>74}{'in-place':>33}          "
    columns = "time   algbw   busbw  #wrong"
    yield f"#       size         count      type   redop    root     {columns}     {columns} "
    units = f"{'(us)  (GB/s)  (GB/s)':<28}     (us)  (GB/s)  (GB/s)         "
    yield f"#        (B)    (elements)                               {units}"
    kind = run.options.get("-d", "float")
    share = WIDTHS[kind] * (ranks if name in WHOLE else 1)
    best, noise = bandwidth(run, ranks), random.Random()  # noqa: S311 - noise, not a secret
    seen, size = [], first
    while size <= last:
        count = size // share
        pair, own = [], count * share
        for _ in range(2):
            reached = best * noise.gauss(1.0, NOISE) * own / (own + HALF)
            factor = FACTORS[name](ranks) if ranks > 1 else 1.0
            microseconds = LATENCY_US + own * factor / (max(reached, 1e-3) * 1e3)
            algbw = own / microseconds / 1e3
            pair.append((microseconds, algbw, algbw * factor))
        seen += [busbw for *_, busbw in pair]
        redop = run.options.get("-o", "sum") if name in REDUCING else "none"
        root = run.options.get("-r", "0") if name in ("broadcast", "reduce") else "-1"
        wrong = "N/A" if run.options.get("-c") == "0" else "0"
        cells = "".join(f"  {_time(t)}  {a:6.2f}  {b:6.2f}  {wrong:>6}" for t, a, b in pair)
        yield f"{own:>12}  {count:>12}  {kind:>8}  {redop:>6}  {root:>6}{cells}"
        size = size * step if step > 1 else size + (1 << 20)
    average = sum(seen) / len(seen) if seen else 0.0
    yield "# Out of bounds values : 0 OK"
    yield f"# Avg bus bandwidth    : {average:g} "
    yield "#"
    yield f"# Collective test concluded: {name}_perf"


def _time(microseconds: float) -> str:
    return f"{microseconds:7.2f}" if microseconds < 10_000 else f"{microseconds:7.1f}"


def _devices(run: LabNcclRun) -> Iterator[str]:
    rank = 0
    for machine, own in run.nodes:
        for device, gpu in enumerate(_visible(run, machine)[:own]):
            yield (
                f"#  Rank {rank:>2} Group  0 Pid {10000 + rank:>6} on {machine.name} device {device:>2} "
                f"[{gpu.bus.rpartition('.')[0]}] {gpu.name}"
            )
            rank += 1


def _visible(run: LabNcclRun, machine: GuestMachine) -> list[GuestGpu]:
    """Return the GPUs that a run may use."""
    asked = run.variables.get("CUDA_VISIBLE_DEVICES", "")
    return [gpu for gpu in machine.gpus if not asked or str(gpu.index) in asked.split(",")]


def _is_off(run: LabNcclRun, name: str) -> bool:
    return run.variables.get(name) == "1"


def _rails(run: LabNcclRun, machine: GuestMachine) -> list[LabGuestNic]:
    """Return the interfaces whose RDMA device a run may use, and whose link is up."""
    if _is_off(run, "NCCL_IB_DISABLE") or run.variables.get("NCCL_NET") == "Socket":
        return []
    asked = run.variables.get("NCCL_IB_HCA", "").lstrip("=")
    names = {each.partition(":")[0] for each in asked.split(",") if each}
    return [n for n in machine.nics if n.rdma and not is_down(machine, n) and (not names or n.rdma in names)]


def _info(run: LabNcclRun) -> Iterator[str]:
    for machine, _ in run.nodes:
        rdma = [nic.rdma for nic in _rails(run, machine)]
        start = f"{machine.name}:10000:10000 [0] NCCL INFO"
        shown = " ".join(f"[{n}]{device}:1/RoCE" for n, device in enumerate(rdma))
        yield f"{start} NET/IB : Using {shown}" if rdma else f"{start} NET/IB : No device found."
        if len(run.nodes) > 1:
            how = "NET/IB/0" if rdma else "NET/Socket/0"
            yield f"{start} Channel 00/0 : 0[0] -> 1[0] [send] via {how}"


def bandwidth(run: LabNcclRun, ranks: int) -> float:
    """Return the bus bandwidth of large messages in GB/s, without noise."""
    if ranks <= 1:
        return 1000.0
    found = []
    for machine, own in run.nodes:
        gpus = _visible(run, machine)[:own]
        slow, lanes, links = (_least(machine, kind, gpus) for kind in ("gpu-slow", "gpu-pcie", "nvlink-slow"))
        rails = [speed_gb(machine, nic) for nic in _rails(run, machine)]
        # a collective waits for its slowest rail
        network = (min(rails) * len(rails) / 8 * EFFICIENCY if rails else SOCKET) * lanes
        inside = _inside(run, gpus, network, lanes, links)
        ways = [*([network] if len(run.nodes) > 1 else []), *([inside] if own > 1 or len(run.nodes) == 1 else [])]
        found.append(min(ways) * slow * pace(machine, len(run.nodes)))
    for (one, _), (other, _) in combinations(run.nodes, 2):
        found.append(min(found) * one.defects.between(one.host.name, other.host.name))
    return min(found)


def _least(machine: GuestMachine, kind: str, gpus: Sequence[GuestGpu]) -> float:
    return min((machine.defects.factor(kind, **machine.at(gpu)) for gpu in gpus), default=1.0)


def _inside(run: LabNcclRun, gpus: Sequence[GuestGpu], network: float, lanes: float, links: float) -> float:
    """Return the bandwidth between the GPUs of a node, by the fastest way that NCCL may take."""
    has_links = bool(gpus) and not gpus[0].is_vgpu
    if not _is_off(run, "NCCL_P2P_DISABLE") and has_links:
        return NVLINK * links
    if not _is_off(run, "NCCL_P2P_DISABLE") and run.variables.get("NCCL_P2P_LEVEL") != "NVL":
        return PCIE * lanes
    return MEMORY * lanes if not _is_off(run, "NCCL_SHM_DISABLE") else network
