"""Configuration of LBNL Node Health Check (NHC): written for nodes, and read back with every fault of a line.

A line is ``<host mask> || <check> <arguments>``; see `nhc_masks`. Source: mej/nhc nhc, scripts/*.nhc (nhc_load_conf has
the shell's read: a backslash is taken out, or joins two lines, and a last line without an end is not read); the checks
of Azure: Azure/azurehpc-health-checks, customTests.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from getopt import GetoptError, getopt

from vsphere_ai.health.nhc_masks import mask_of, wrong_mask
from vsphere_ai.model.dated_table import dated_table
from vsphere_ai.model.names.written_names import line_comment, nhc_name
from vsphere_ai.model.nodes import Node
from vsphere_ai.model.text import counted

_TABLE = dated_table("health/nhc_checks.yaml").values
CHECKS = frozenset(f"check_{name}" for name in _TABLE["checks"])
"""Checks that NHC brings along. A check is evaluated by bash: any function or program of a site may be one."""
OF_AZURE = frozenset(f"check_{name}" for name in _TABLE["of_azure"])
LEAST: Mapping[str, tuple[str, int]] = {
    f"check_{name}": (each["options"], each["words"]) for name, each in _TABLE["always_fails"].items()
}
"""Options of a check as getopts has them, and the words that it needs besides: with fewer it always fails."""
SEPARATOR = "||"
_UNKNOWN = "not looked at: {} is no check of NHC or of Azure's set"
_BLANKS = " \t"
_FORM = "write MASK || CHECK ARGUMENTS"
_CARRIAGE = "the line ends with CR LF: the CR belongs to the last word of the check"
_UNREAD = "NHC does not read a last line that has no line end"
_ESCAPED = re.compile(r"\\(.)")
_SHELL = re.compile(r"[$`;&|<>(){}]", re.ASCII)
"""Signs by which the shell makes other arguments of what is written."""
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
            # without backslashes, which NHC takes out of its lines
            device = nhc_name(f"RDMA device of the VM {node.vm}", rail.rdma_device).replace(".", "[.]")
            found.append(f"check_cmd_output -t 10 -r 0 -m '/link {device}/{rail.port} state ACTIVE/' rdma link")
    return tuple(found)


def _mask(nodes: Sequence[Node]) -> str:
    return mask_of([nhc_name("name of the VM", node.vm) for node in nodes])


def read(text: str) -> tuple[tuple[NhcLine, ...], tuple[NhcFault, ...]]:
    """Return the lines of a configuration and its faults: of masks, separators, quotes, checks and arguments."""
    lines: list[NhcLine] = []
    faults: list[NhcFault] = []
    for number, raw, has_end in _lines(text):
        # the shell's read takes backslashes out before the check is evaluated
        stripped = _ESCAPED.sub(r"\1", raw).strip(_BLANKS)
        if not stripped.strip("\r") or stripped.startswith("#"):
            continue
        mask, separator, rest = (part.strip(_BLANKS) for part in stripped.partition(SEPARATOR))
        if not (mask and rest):
            faults.append(NhcFault(number, _column(raw), _never(separator, mask), _FORM, is_note=True))
            continue
        own = _line(number, mask, rest.removesuffix("\r"))
        wrong = list(_faults(own, raw)) if own else [NhcFault(number, _column(raw), "a quote is not closed")]
        if rest.endswith("\r") and not any(fault.message == _CARRIAGE for fault in faults):
            wrong.append(NhcFault(number, len(raw), _CARRIAGE, "end lines with LF"))
        if not has_end:
            wrong.append(NhcFault(number, max(1, len(raw)), _UNREAD, "end the last line, without a backslash"))
        faults += wrong
        lines += [own] if own and all(fault.is_note for fault in wrong) else []
    return tuple(lines), tuple(faults)


def _column(raw: str) -> int:
    return len(raw) - len(raw.lstrip()) + 1


def _never(separator: str, mask: str) -> str:
    if not separator:  # NHC takes the whole line for the mask and for the check: no host has that name
        return "this is no check: without '||' the line never runs"
    return f"the line never runs: {'no check follows' if mask else 'the host mask is empty'}"


def _lines(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield the lines as the shell's read takes them, with the number of the first one and whether they have an end.

    A backslash at the end joins a line with the next one.
    """
    *lines, last = text.split("\n")
    above, first = "", 0
    for number, line in enumerate(lines, 1):
        first = first or number
        slashes = len(line) - len(line.rstrip("\\"))
        if slashes % 2:
            above += line[:-1]
            continue
        yield first, above + line, True
        above, first = "", 0
    if above or last:
        yield first or len(lines) + 1, above + last, False


def _line(number: int, mask: str, rest: str) -> NhcLine | None:
    if _ASSIGNMENT.match(rest):
        return NhcLine(number, mask, assignment=rest)
    try:
        check, *arguments = shlex.split(rest, comments=True) or [""]
    except ValueError:
        return None
    return NhcLine(number, mask, check, tuple(arguments))


def _faults(line: NhcLine, raw: str) -> Iterator[NhcFault]:
    if why := wrong_mask(line.mask):
        help_ = "write a glob, /a regular expression/ or {a range}"
        yield NhcFault(line.number, max(1, raw.find(line.mask) + 1), why, help_)
    if line.assignment:
        return
    column = max(1, raw.find(line.check, raw.find(SEPARATOR)) + 1)
    if not line.check:
        yield NhcFault(line.number, raw.find(SEPARATOR) + 1, _never(SEPARATOR, line.mask), is_note=True)
    elif line.check not in CHECKS | OF_AZURE:
        yield NhcFault(line.number, column, _UNKNOWN.format(line.check), is_note=True)
    elif (
        line.check in LEAST
        and not _SHELL.search(raw.partition(SEPARATOR)[2])
        and (why := _arguments(line, *LEAST[line.check]))
    ):
        yield NhcFault(line.number, column, f"{line.check} always fails: {why}")


def _arguments(line: NhcLine, options: str, least: int) -> str:
    """Return why a check cannot pass with its arguments; empty where it may."""
    given: list[tuple[str, str]] = []
    words = list(line.arguments)
    if options:
        try:
            given, words = getopt(words, options)
        except GetoptError as error:
            return str(error)
    has_command = line.check == "check_cmd_output" and any(name == "-e" and value for name, value in given)
    if has_command or len(words) >= least:
        return ""
    return f"it needs {counted(least, 'argument')}" + (" besides its options" if options else "")
