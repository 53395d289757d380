"""Configuration of LBNL Node Health Check (NHC): written for nodes, and read back with every fault of a line.

A line is ``<host mask> || <check> <arguments>``. A mask is a glob, ``/a regular expression/`` or ``{a node range}``.
Source: mej/nhc, README; the checks of Azure: Azure/azurehpc-health-checks, customTests.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial

from vsphere_ai.model.names.written_names import line_comment, nhc_name
from vsphere_ai.model.nodes import Node

_NAMES = """
    cmd_dmesg cmd_output cmd_status dmi_data_match dmi_raw_data_match file_contents file_stat file_test
    fs_free fs_ifree fs_inodes fs_iused fs_mount fs_mount_ro fs_mount_rw fs_size fs_used hw_cpuinfo hw_eth
    hw_gm hw_ib hw_mcelog hw_mem hw_mem_free hw_physmem hw_physmem_free hw_swap hw_swap_free moab_rm
    moab_sched moab_torque net_ping net_socket nv_healthmon nvsmi_healthmon ps_blacklist ps_cpu ps_daemon
    ps_kswapd ps_loadavg ps_mem ps_physmem ps_service ps_time ps_unauth_users ps_userproc_lineage
"""
CHECKS = frozenset(f"check_{name}" for name in _NAMES.split())
"""Checks that NHC 1.4.3 brings along. A check is evaluated by bash: any function or program of a site may be one."""
OF_AZURE = frozenset(
    f"check_{n}"
    for n in (
        "gpu_count", "nvlink_status", "nvlink_enabled", "gpu_xid", "gpu_bw", "gpu_ecc", "ecc", "gpu_clock_throttling",
        "gpu_persistence", "gpu_xgmi", "rocm_gpu_bw", "app_gpu_clocks", "vbios_version", "nccl_allreduce",
        "nccl_allreduce_ib_loopback", "rccl_allreduce", "ib_bw_gdr", "ib_bw_non_gdr", "ib_link_flapping", "hw_topology",
        "cpu_stream", "nvme_count",
    )
)  # fmt: skip
LEAST: dict[str, int] = {
    "check_cmd_output": 1, "check_cmd_status": 1, "check_file_contents": 2, "check_file_test": 1, "check_fs_mount": 1,
    "check_fs_free": 2, "check_fs_used": 2, "check_fs_size": 2, "check_hw_cpuinfo": 1, "check_hw_eth": 1,
    "check_hw_ib": 1, "check_hw_physmem": 2, "check_ps_service": 1, "check_ps_loadavg": 1, "check_net_ping": 1,
}  # fmt: skip
"""Arguments that a check needs at least."""
SEPARATOR = "||"
_UNKNOWN = "not looked at: {} is no check of NHC or of Azure's set"
_RANGE = re.compile(r"([^\[\],]*)(?:\[([0-9,-]+)\])?([^\[\],]*)")
_ASSIGNMENT = re.compile(r"(?:export\s+)?[A-Za-z_][A-Za-z0-9_]*=")


@dataclass(frozen=True)
class NhcLine:
    """A line of a configuration: number of the line, host mask, check and arguments; or an assignment of a variable."""

    number: int
    mask: str
    check: str = ""
    arguments: tuple[str, ...] = ()
    assignment: str = ""


@dataclass(frozen=True)
class NhcFault:
    """What is wrong at a line and column (both from 1), and what would work; `is_note`: NHC reads it all the same."""

    line: int
    column: int
    message: str
    help: str = ""
    is_note: bool = False


@dataclass(frozen=True)
class Size:
    """Virtual sockets, CPUs and memory (GB) of a node, as its VM has them."""

    sockets: int
    cpus: int
    memory_gb: int


def written(nodes: Sequence[Node], sizes: Mapping[str, Size], name: str) -> str:
    """Return a configuration for nodes: CPUs and memory (`sizes` by VM), GPUs, interfaces, RDMA devices, services.

    Checks of what the guest of a vGPU does not see (ECC, clocks, NVLink) are not written: the ESXi host is asked for
    those. ValueError: no node; `Refused`: a name that a node would run as a command.
    """
    if not nodes:
        raise ValueError("no node is given")
    everyone = _mask(nodes)
    lines = [
        line_comment(f"Node health check of {name}: {len(nodes)} nodes. Written by vsphere-ai."),
        "# vGPU guests: ECC, clocks and NVLink are checked on the ESXi host, not here.",
        f"{everyone} || check_fs_mount_rw -f /",
        f"{everyone} || check_fs_free / 5%",
        f"{everyone} || check_ps_service -u root sshd",
    ]
    for checks in (partial(_size_checks, sizes), _gpu_checks, _nic_checks):
        groups: dict[tuple[str, ...], list[Node]] = {}
        for node in nodes:
            groups.setdefault(checks(node), []).append(node)
        lines += [f"{_mask(own)} || {check}" for found, own in groups.items() for check in found]
    return "\n".join(lines) + "\n"


def _size_checks(sizes: Mapping[str, Size], node: Node) -> tuple[str, ...]:
    size = sizes.get(node.vm)
    if size is None:
        return ()
    cpus = f"check_hw_cpuinfo {size.sockets} {size.cpus} {size.cpus}"
    if not size.memory_gb:
        return (cpus,)  # not known, or below 1 GB: 0gb would drain the node
    return (cpus, f"check_hw_physmem {size.memory_gb}gb {size.memory_gb}gb 5%")


def _gpu_checks(node: Node) -> tuple[str, ...]:
    counted = f"check_cmd_output -t 30 -r 0 -m '/^GPU {len(node.gpus) - 1}:/' nvidia-smi -L"
    return (counted,) if node.gpus else ()


def _nic_checks(node: Node) -> tuple[str, ...]:
    names = [node.interface, *(r.interface for r in node.rails)]
    of = f"interface of the VM {node.vm}"
    found = [f"check_hw_eth {nhc_name(of, name)}" for name in dict.fromkeys(names) if name]
    for rail in node.rails:
        if rail.rdma_device:
            device = re.escape(nhc_name(f"RDMA device of the VM {node.vm}", rail.rdma_device))
            found.append(f"check_cmd_output -t 10 -r 0 -m '/link {device}\\/{rail.port} state ACTIVE/' rdma link")
    return tuple(found)


def _mask(nodes: Sequence[Node]) -> str:
    return "{" + ",".join(nhc_name("name of the VM", node.vm) for node in nodes) + "}"


def read(text: str) -> tuple[tuple[NhcLine, ...], tuple[NhcFault, ...]]:
    """Return the lines of a configuration and its faults: of masks, separators, quotes, checks and arguments."""
    lines: list[NhcLine] = []
    faults: list[NhcFault] = []
    for number, raw in enumerate(text.splitlines(), 1):
        stripped = raw.strip()
        if not stripped or stripped.startswith("#"):
            continue
        mask, separator, rest = stripped.partition(SEPARATOR)
        column = len(raw) - len(raw.lstrip()) + 1
        if not separator:
            if _ASSIGNMENT.match(stripped):
                lines.append(NhcLine(number, "*", assignment=stripped))
            else:
                # NHC takes the whole line for the mask and for the check: no host has that name
                text = "this is no check: without '||' the line never runs"
                faults.append(NhcFault(number, column, text, "write MASK || CHECK ARGUMENTS", is_note=True))
            continue
        own = _line(number, mask.strip(), rest.strip())
        wrong = list(_faults(own, raw)) if own else [NhcFault(number, column, "a quote is not closed")]
        faults += wrong
        lines += [own] if own and all(fault.is_note for fault in wrong) else []
    return tuple(lines), tuple(faults)


def _line(number: int, mask: str, rest: str) -> NhcLine | None:
    if _ASSIGNMENT.match(rest):
        return NhcLine(number, mask, assignment=rest)
    try:
        check, *arguments = shlex.split(rest, comments=True) or [""]
    except ValueError:
        return None
    return NhcLine(number, mask, check, tuple(arguments))


def _faults(line: NhcLine, raw: str) -> Iterator[NhcFault]:
    if why := _wrong_mask(line.mask):
        yield NhcFault(line.number, raw.find(line.mask) + 1, why, "write a glob, /a regular expression/ or {a range}")
    if line.assignment:
        return
    column = raw.find(line.check, raw.find(SEPARATOR)) + 1
    if not line.check:
        yield NhcFault(line.number, raw.find(SEPARATOR) + 1, "no check follows")
    elif line.check not in CHECKS | OF_AZURE:
        yield NhcFault(line.number, column, _UNKNOWN.format(line.check), is_note=True)
    elif line.check in LEAST and len(line.arguments) < LEAST[line.check]:
        yield NhcFault(line.number, column, f"{line.check} needs {LEAST[line.check]} arguments or more")


def _wrong_mask(mask: str) -> str:
    if not mask:
        return "the host mask is empty"
    if mask.startswith("/"):
        if len(mask) < 3 or not mask.endswith("/"):
            return "the regular expression is not closed"
        try:
            re.compile(mask[1:-1])
        except re.error as error:
            return f"the regular expression is wrong: {error}"
    if mask.startswith("{") != mask.endswith("}"):
        return "the node range is not closed"
    return ""


def matches(mask: str, host: str) -> bool:
    """Return whether a host mask means a host; ``!`` in front negates it. A wrong mask means none."""
    if mask.startswith("!"):
        return not matches(mask[1:], host)
    if _wrong_mask(mask):
        return False
    if mask.startswith("/"):
        return re.search(mask[1:-1], host) is not None
    if mask.startswith("{"):
        return host in set(_expanded(mask[1:-1]))
    return fnmatchcase(host, mask)


def _expanded(text: str) -> Iterator[str]:
    for part in re.split(r",(?![^\[]*\])", text):
        found = _RANGE.fullmatch(part.strip())
        if found is None:
            continue
        before, numbers, after = found.groups()
        if not numbers:
            yield part.strip()
            continue
        for each in numbers.split(","):
            first, _, last = each.partition("-")
            if first.isdecimal() and (last or first).isdecimal() and int(last or first) - int(first) < 100_000:
                yield from (f"{before}{n:0{len(first)}}{after}" for n in range(int(first), int(last or first) + 1))
