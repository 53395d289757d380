"""Answers of a guest to the commands of a check, and the values in them.

Formats: nvidia-smi --query-gpu (CSV), `rdma link` of iproute2, `ip -j`, sysfs. A value that is not there is None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from vsphere_ai.gpu.smi.device_paths import GpuList, parse_device_paths, parse_gpu_list
from vsphere_ai.gpu.smi.listings import LOST_GPU, UnreadableOutput, fault_of, has_value
from vsphere_ai.model.bounded import json_value
from vsphere_ai.model.guest_probes import Answers, CommandAnswer, GuestCommand
from vsphere_ai.model.names.pci_address import read_pci
from vsphere_ai.model.nodes import Node, NodeGpu, Rail
from vsphere_ai.model.topology import ShownTopology

T = TypeVar("T")


GPU_FIELDS = (
    "index",
    "uuid",
    "pci.bus_id",
    "name",
    "driver_version",
    "memory.total",
    "memory.used",
    "clocks_throttle_reasons.active",
    "ecc.errors.uncorrected.volatile.total",
    "ecc.errors.corrected.volatile.total",
    "remapped_rows.pending",
    "remapped_rows.failure",
    "pcie.link.gen.current",
    "pcie.link.gen.max",
    "pcie.link.width.current",
    "pcie.link.width.max",
)
MEASURED = ("index", "mig.mode.current", "utilization.gpu", "temperature.gpu", "power.limit", "clocks.max.sm")
"""Fields of a second question: a driver that does not know one of them refuses all."""
REPLAYED = "pcie_replays"
NO_DEVICES = 6
"""Exit code of nvidia-smi where the driver finds no GPU."""
PACKAGES = ("torch", "nvidia-nccl-cu12", "nvidia-nccl-cu13")
_VERSIONS = (
    "import importlib.metadata as m\n"
    f"for name in [{', '.join(repr(name) for name in PACKAGES)}]:\n"
    "    try: print(name, m.version(name))\n"
    "    except m.PackageNotFoundError: pass\n"
)
_SYSFS = (
    "/sys/class/infiniband/*/ports/*/counters/* /sys/class/infiniband/*/ports/*/hw_counters/* "
    "/sys/class/infiniband/*/ports/*/gid_attrs/types/* /sys/class/infiniband/*/ports/*/gids/* "
    "/sys/class/infiniband/*/ports/*/rate /sys/class/net/*/carrier_changes"
)
_RATE = re.compile(r"/sys/class/infiniband/([^/]+)/ports/(\d+)/rate:([\d.]+) Gb/sec.*")
SMI = GuestCommand("nvidia-smi", ("nvidia-smi", f"--query-gpu={','.join(GPU_FIELDS)}", "--format=csv,noheader,nounits"))
MEASURES = GuestCommand(
    "gpu-measures",
    ("nvidia-smi", f"--query-gpu={','.join(MEASURED)}", "--format=csv,noheader,nounits"),
    after=SMI.name,
)
REPLAYS = GuestCommand("gpu-replays", ("nvidia-smi", "-q", "-x"), after=SMI.name)
LISTED = GuestCommand("gpu-list", ("nvidia-smi", "-L"), after=SMI.name)
PATHS = GuestCommand("gpu-paths", ("nvidia-smi", "topo", "-m"), after=SMI.name)
PROCESSES = GuestCommand(
    "gpu-processes",
    ("nvidia-smi", "--query-compute-apps=pid,gpu_uuid", "--format=csv,noheader,nounits"),
    after=SMI.name,
)
CUDA = GuestCommand("cuda", ("nvidia-smi",), after=SMI.name)
VERSIONS = GuestCommand("packages", ("python3", "-c", _VERSIONS))
LINKS = GuestCommand("rdma-link", ("rdma", "link"))
ADDRESSES = GuestCommand("addresses", ("ip", "-j", "addr"))
RULES = GuestCommand("rules", ("ip", "-j", "rule"))
KERNEL = GuestCommand("kernel", ("dmesg",))
UPTIME = GuestCommand("uptime", ("cat", "/proc/uptime"))
SYSFS = GuestCommand("sysfs", ("sh", "-c", f"grep -H . {_SYSFS} 2>/dev/null"))


@dataclass(frozen=True)
class SmiGpu:
    """A GPU as nvidia-smi in the guest shows it; memory in MiB, None where it shows nothing (a vGPU)."""

    index: int
    uuid: str
    bus: str
    name: str
    driver: str
    memory_total: int | None = None
    memory_used: int | None = None
    throttle: int | None = None
    ecc_uncorrected: int | None = None
    ecc_corrected: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    pcie: tuple[int | None, int | None, int | None, int | None] = (None, None, None, None)
    """Generation now and at most, lanes now and at most."""
    mig: bool = False
    fault: str = ""
    """What nvidia-smi prints instead of values of a GPU in trouble, such as ``GPU is lost``."""
    measures: Mapping[str, float] = field(default_factory=dict)
    """Values of `MEASURED` by their names: %, degrees Celsius, W, MHz; without those that are not shown."""


@dataclass(frozen=True)
class RdmaLink:
    """A port of an RDMA device and the interface that belongs to it."""

    device: str
    port: int
    state: str
    netdev: str

    @property
    def is_active(self) -> bool:
        """Whether it carries traffic."""
        return self.state == "ACTIVE"


@dataclass(frozen=True)
class Interface:
    """A network interface: MTU in bytes, whether it has a carrier, and its addresses without prefix length."""

    name: str
    mtu: int
    up: bool
    addresses: tuple[str, ...]


@dataclass(frozen=True)
class GuestFacts:
    """What a guest answered. `failures` are the names of commands without a usable answer, and why."""

    gpus: tuple[SmiGpu, ...] = ()
    processes: tuple[tuple[int, str], ...] = ()
    cuda: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    links: tuple[RdmaLink, ...] = ()
    interfaces: Mapping[str, Interface] = field(default_factory=dict)
    rules: tuple[tuple[str, str], ...] = ()
    """Pairs of a source address and a table."""
    kernel: tuple[str, ...] = ()
    """Lines of the kernel's log, as `dmesg` prints them."""
    uptime: float | None = None
    counters: Mapping[str, int] = field(default_factory=dict)
    gid_types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Types of the GIDs by ``device/port``, in the order of their indexes."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Speeds of RDMA ports in Gb/s by ``device/port``."""
    failures: Mapping[str, str] = field(default_factory=dict)
    listed: GpuList | None = None
    """The GPUs of ``nvidia-smi -L``; None where it was not asked, or has no readable answer."""
    shown: ShownTopology | None = None
    """Paths between GPUs and RDMA devices; None as of `listed`."""


def read_guest(answers: Answers) -> GuestFacts:
    """Return the facts in the answers of a guest; what cannot be read is a failure of its command."""
    failures: dict[str, str] = {}

    def read(asked: GuestCommand, parse: Callable[[str], T], default: T, codes: Sequence[int] = (0,)) -> T:
        answer = answers.get(asked.name)
        if answer is None:
            return default
        if answer.failure or answer.code not in codes:
            last = (answer.out.strip().splitlines() or [""])[-1]
            failures[asked.name] = answer.failure or f"`{asked.argv[0]}` ended with {answer.code}: {last}".rstrip(": ")
            return default
        try:
            return parse(answer.out)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            failures[asked.name] = f"the output of `{asked.argv[0]}` is not as expected"
            return default

    none: tuple[()] = ()
    values: dict[str, str] = read(SYSFS, _pairs, {}, (0, 1, 2))  # grep says 2 where one of the patterns means no file
    more = answers.get(MEASURES.name)
    measures = measures_in(more.out) if more is not None and not more.failure and more.code == 0 else {}
    return GuestFacts(
        gpus=with_measures(read(SMI, lambda out: tuple(gpus_in(out)), none, _codes(answers.get(SMI.name))), measures),
        processes=read(PROCESSES, lambda out: tuple(_processes(out)), none, (0, NO_DEVICES)),
        cuda=read(CUDA, _cuda, "", (0, NO_DEVICES)),
        packages=read(VERSIONS, lambda out: {name: version for name, version in map(str.split, out.splitlines())}, {}),
        links=read(LINKS, lambda out: tuple(_links(out)), none),
        interfaces=read(ADDRESSES, lambda out: {i.name: i for i in _interfaces(out)}, {}),
        rules=read(RULES, lambda out: tuple((str(r.get("src")), str(r["table"])) for r in json_value(out)), none),
        kernel=read(KERNEL, lambda out: tuple(out.splitlines()), none),
        uptime=read(UPTIME, lambda out: float(out.split()[0]), None),
        counters={
            **{path: int(value) for path, value in values.items() if value.isdecimal() and "gid" not in path},
            **(replays_in(answers[REPLAYS.name].out) if REPLAYS.name in answers else {}),
        },
        gid_types=_gid_types(values),
        rates={f"{m[1]}/{m[2]}": float(m[3]) for path, v in values.items() if (m := _RATE.fullmatch(f"{path}:{v}"))},
        failures=failures,
        listed=_shown(answers.get(LISTED.name), parse_gpu_list),
        shown=_shown(answers.get(PATHS.name), parse_device_paths),
    )


def _shown(answer: CommandAnswer | None, parse: Callable[[int, str], T]) -> T | None:
    """Return what an answer shows beside the values of GPUs; None where it cannot be read: nothing is judged by it."""
    if answer is None or answer.failure:
        return None
    try:
        return parse(answer.code, answer.out)
    except UnreadableOutput:
        return None


def _number(text: str) -> int | None:
    text = text.strip()
    return int(text, 16) if text.lower().startswith("0x") else int(text) if text.isdecimal() else None


def _yes(text: str) -> bool | None:
    return {"yes": True, "no": False}.get(text.strip().lower())


def _cuda(out: str) -> str:
    found = re.search(r"CUDA Version: ([\d.]+)", out)
    return found[1] if found else ""


def gpus_in(out: str) -> Iterator[SmiGpu]:
    """Yield the GPUs of an answer to `SMI`, of a guest or of a host; `ValueError` where it is not one.

    A GPU in trouble has a `fault` and leaves the others readable; one that nvidia-smi cannot even number is left out.
    """
    for line in out.splitlines():
        if line.startswith("No devices"):
            return
        if LOST_GPU.fullmatch(line.strip()) or not line.strip() or line.startswith("WARNING: "):
            continue  # it is missing in the count of GPUs; a damaged InfoROM adds the warning to any output
        row = dict(zip(GPU_FIELDS, (part.strip() for part in line.split(",")), strict=True))
        pcie = tuple(_number(row[f"pcie.link.{name}"]) for name in ("gen.current", "gen.max"))
        width = tuple(_number(row[f"pcie.link.{name}"]) for name in ("width.current", "width.max"))
        yield SmiGpu(
            int(row["index"]),
            _text(row["uuid"]),
            read_pci(row["pci.bus_id"]),
            _text(row["name"]),
            _text(row["driver_version"]),
            _number(row["memory.total"]),
            _number(row["memory.used"]),
            _number(row["clocks_throttle_reasons.active"]),
            _number(row["ecc.errors.uncorrected.volatile.total"]),
            _number(row["ecc.errors.corrected.volatile.total"]),
            _yes(row["remapped_rows.pending"]),
            _yes(row["remapped_rows.failure"]),
            (*pcie, *width),  # type: ignore[arg-type] # two and two
            fault=fault_of(row.values(), (row["name"], row["uuid"], row["memory.total"], row["memory.used"])),
        )


def names_lost_gpu(out: str) -> bool:
    """Return whether an answer has GPUs beside a line of one that does not answer: its exit code is of that one."""
    lines = [line.strip() for line in out.splitlines() if line.strip()]
    lost = sum(LOST_GPU.fullmatch(line) is not None for line in lines)
    return 0 < lost < len(lines)


def _codes(answer: CommandAnswer | None) -> tuple[int, ...]:
    beside = (answer.code,) if answer is not None and names_lost_gpu(answer.out) else ()
    return (0, NO_DEVICES, *beside)


def _text(cell: str) -> str:
    return cell if has_value(cell) else ""


def replays_in(out: str) -> dict[str, int]:
    """Return the PCIe replays of GPUs in ``nvidia-smi -q -x``, by paths as ``/gpu/0000:3b:00.0/pcie_replays``.

    A vGPU shows N/A instead.
    """
    found: dict[str, int] = {}
    for part in out.split("<gpu id=")[1:]:
        bus, count = re.match(r'"([0-9A-Fa-f:.]+)"', part), re.search(r"<replay_counter>(\d+)</replay_counter>", part)
        if bus and count:
            found[f"/gpu/{read_pci(bus[1])}/{REPLAYED}"] = int(count[1])
    return found


def measures_in(out: str) -> dict[int, dict[str, str]]:
    """Return the rows of an answer to `MEASURES` by the indexes of GPUs; lines of another form are left out."""
    rows = ([part.strip() for part in line.split(",")] for line in out.splitlines())
    return {
        int(r[0]): dict(zip(MEASURED, r, strict=True)) for r in rows if len(r) == len(MEASURED) and r[0].isdecimal()
    }


def with_measures(gpus: tuple[SmiGpu, ...], rows: Mapping[int, Mapping[str, str]]) -> tuple[SmiGpu, ...]:
    """Return GPUs with the values of `measures_in`."""
    found = []
    for gpu in gpus:
        row = rows.get(gpu.index, {})
        values = {n: float(v) for n, v in row.items() if n != "index" and re.fullmatch(r"\d+(?:\.\d+)?", v)}
        found.append(replace(gpu, mig=row.get("mig.mode.current") == "Enabled", measures=values))
    return tuple(found)


def _processes(out: str) -> Iterator[tuple[int, str]]:
    for line in out.splitlines():
        pid, _, uuid = line.partition(",")
        if pid.strip().isdecimal():
            yield int(pid), uuid.strip()


def _links(out: str) -> Iterator[RdmaLink]:
    for line in out.splitlines():
        words = line.split()
        if words[:1] == ["link"]:
            device, _, port = words[1].partition("/")
            named = dict(zip(words[2::2], words[3::2], strict=False))
            yield RdmaLink(device, int(port), named["state"], named.get("netdev", ""))


def _interfaces(out: str) -> Iterator[Interface]:
    for each in json_value(out):
        addresses = tuple(str(a["local"]) for a in each.get("addr_info", ()) if "local" in a)
        yield Interface(str(each["ifname"]), int(each["mtu"]), "LOWER_UP" in each.get("flags", ()), addresses)


def _pairs(out: str) -> dict[str, str]:
    found = (line.partition(":") for line in out.splitlines() if line.startswith("/sys/"))
    return {path: value.strip() for path, _, value in found}


def _gid_types(values: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[int, str]] = {}
    for path, value in values.items():
        match = re.fullmatch(r"/sys/class/infiniband/([^/]+)/ports/(\d+)/gid_attrs/types/(\d+)", path)
        if match:
            found.setdefault(f"{match[1]}/{match[2]}", {})[int(match[3])] = value
    return {port: tuple(own[n] for n in sorted(own)) for port, own in found.items()}


def link_of(rail: Rail, facts: GuestFacts) -> RdmaLink | None:
    """Return the RDMA port of a rail: by its interface, else by the name of its device."""
    named = (link for link in facts.links if rail.interface and link.netdev == rail.interface)
    same = (link for link in facts.links if rail.rdma_device and link.device == rail.rdma_device)
    return next((link for own in (named, same) for link in own), None)


def refined(node: Node, facts: GuestFacts) -> Node:
    """Return a node with what its guest knows better: UUIDs and addresses of GPUs, RDMA devices, MTU, GID index."""
    gpus = list(node.gpus)
    if len(facts.gpus) == len(gpus):
        gpus = [
            replace(gpu, index=seen.index, uuid=seen.uuid, guest_pci=seen.bus)
            for gpu, seen in zip(gpus, facts.gpus, strict=True)
        ]
    elif facts.gpus and not gpus:
        gpus = [NodeGpu(seen.index, seen.bus, uuid=seen.uuid) for seen in facts.gpus]
    return replace(node, gpus=tuple(gpus), rails=tuple(_rail(rail, facts) for rail in node.rails), shown=facts.shown)


def _rail(rail: Rail, facts: GuestFacts) -> Rail:
    link = link_of(rail, facts)
    if link is None:
        return rail
    interface = facts.interfaces.get(link.netdev or rail.interface)
    types = facts.gid_types.get(f"{link.device}/{link.port}", ())
    index = next((n for n, kind in enumerate(types) if kind == "RoCE v2"), None)
    return replace(
        rail,
        interface=link.netdev or rail.interface,
        rdma_device=link.device,
        port=link.port,
        gid_index=index if index is not None else rail.gid_index,
        mtu=interface.mtu if interface else rail.mtu,
    )
