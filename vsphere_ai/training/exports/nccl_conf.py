"""NCCL settings as ``/etc/nccl.conf`` (``NAME=VALUE`` lines), one part for each group of nodes with the same ones.

Sources: NVIDIA/nccl, in the release that nccl.yaml names: src/misc/param.cc, src/misc/utils.cc, src/include/param,
src/graph/paths.cc (ncclGetLevel); NCCL user guide, Environment Variables, "System
configuration"; NCCL 2.23 also reads ``NCCL_CONF_FILE``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from vsphere_ai.model.dated_table import dated_table
from vsphere_ai.model.finding import Verdict
from vsphere_ai.model.names.c_number import c_number
from vsphere_ai.model.names.written_names import line_comment, nccl_value
from vsphere_ai.training.exports.finding import LineFinding, at_line, not_looked_at
from vsphere_ai.training.launch import LaunchPlan

_TABLE = dated_table("training/exports/nccl.yaml").values
RELEASE = str(_TABLE["release"])
"""The release whose variables are known: a later one may have more of them, and more words."""
PREFIX = "NCCL_"
NUMBERS = frozenset(PREFIX + name for kind in ("numbers", "older_numbers") for name in _TABLE[kind])
"""Variables that NCCL reads with strtoll of base 0 (NCCL_PARAM)."""
_BOOLEANS = frozenset(PREFIX + name for name in _TABLE["booleans"])
_WORDS: Mapping[str, Sequence[str]] = {PREFIX + name: words for name, words in _TABLE["words"].items()}
_LEVELS = frozenset(PREFIX + name for name in _TABLE["levels"])
_DISTANCES: Sequence[str] = _TABLE["distances"]
_LISTS = {"NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1", "NCCL_SOCKET_IFNAME": "=ens192", "NCCL_OOB_NET_IFNAME": "=ens192"}
"""Variables with a list of devices or interfaces, and an example of each."""
_KNOWN = NUMBERS | _BOOLEANS | frozenset(_WORDS) | _LEVELS | frozenset(PREFIX + name for name in _TABLE["texts"])
_OTHERS = ("FI_", "OFI_", "UCX_", "IBV_", "MLX5_", "RDMAV_", "AWS_")
"""Beginnings of names that the libraries below NCCL read."""
_TRUE, _FALSE = ("1", "T", "TRUE"), ("0", "F", "FALSE")
_MOST = 2**63
MOST_LINE, MOST_NAME = 4095, 1023
"""Bytes of a line, and of a name or a value, that NCCL reads."""
NODES = "# nodes: "


def write(plan: LaunchPlan) -> str:
    """Return the settings with their reasons; a line ``# nodes: ...`` says which nodes a part is for."""
    parts: dict[str, list[str]] = {}
    for number, node in enumerate(plan.nodes):
        lines = []
        for setting in plan.nccl(number):
            name = f"{setting.name}, not set" if setting.value is None else setting.name
            lines.append(line_comment(f"{name}: {setting.reason}"))
            if setting.value is not None:
                lines.append(f"{setting.name}={nccl_value(f'value of {setting.name} for {node.vm}', setting.value)}")
        parts.setdefault("".join(f"{line}\n" for line in lines), []).append(node.vm)
    return "\n".join(f"{line_comment(', '.join(names), NODES)}\n{text}" for text, names in parts.items())


def check(text: str) -> list[LineFinding]:
    """Return the findings of settings; of names that are not known only the form is checked."""
    findings: list[LineFinding] = []
    seen: dict[tuple[int, str], str] = {}
    others: dict[str, int] = {}
    unknown: dict[str, int] = {}
    part = 0
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if line.startswith(NODES):
            part = number
        if not line.strip() or line.lstrip().startswith("#"):
            continue  # behind blanks, a '#' begins no comment, but a variable that nothing reads
        name, equals, value = line.partition("=")
        if not equals:
            findings.append(at_line(number, f"'{line}' is not NAME=VALUE: NCCL passes over it"))
            continue
        own = [at_line(number, message, verdict) for message, verdict in _line(name, value)]
        findings += own
        if (part, name) in seen:
            verdict: Verdict = "warn" if seen[part, name] == value else "fail"
            findings.append(at_line(number, f"{name} is set twice: NCCL takes the first", verdict))
        seen.setdefault((part, name), value)
        if not own and name not in _KNOWN and not name.startswith(_OTHERS):
            (unknown if name.startswith(PREFIX) else others).setdefault(name, number)
    return [
        *findings,
        *not_looked_at("variables that NCCL only passes on", others),
        *not_looked_at(f"variables that NCCL {RELEASE} does not have", unknown),
    ]


def _line(name: str, value: str) -> Iterator[tuple[str, Verdict]]:
    words = name.split()
    sizes = [len(part.encode()) for part in (name, value)]
    if sum(sizes) + 1 > MOST_LINE or max(sizes) > MOST_NAME:
        yield f"NCCL reads {MOST_LINE} bytes of a line, and {MOST_NAME} of a name or a value", "fail"
    elif not words:
        yield "there is no name before '=': NCCL passes over the line", "fail"
    elif words[0] == "export":
        yield f"NCCL reads no shell: this sets '{name}' and not {words[-1]}", "fail"
    elif name != name.strip():
        yield f"blanks belong to the name: this sets '{name}' and not {name.strip()}", "fail"
    elif value:
        yield from _value(name, value)


def _value(name: str, value: str) -> Iterator[tuple[str, Verdict]]:
    if name in NUMBERS:
        yield from _as_number(name, value)
    elif name in _LISTS:
        yield from _as_list(name, value)
    elif name in _WORDS:
        yield from _as_words(name, value)
    elif name in _LEVELS:
        if value not in _DISTANCES and not value[0].isdecimal():
            yield f"'{value}' of {name} is none of {' '.join(_DISTANCES)}: NCCL passes over it", "fail"
    elif name in _BOOLEANS:
        if value.upper() not in _TRUE + _FALSE:
            yield f"'{value}' of {name} is neither 1 nor 0: NCCL takes the default", "warn"
    elif value != value.strip() or value[0] in "\"'" or " #" in value:
        yield f"blanks, quotes and what follows '#' belong to the value of {name}: write no more than the value", "warn"


def _as_words(name: str, value: str) -> Iterator[tuple[str, Verdict]]:
    several = name != "NCCL_DEBUG"
    given = [word.strip() for word in (value.removeprefix("^").split(",") if several else [value])]
    if unknown := [word for word in given if word and word.upper() not in _WORDS[name]]:
        text = f"'{unknown[0]}' of {name} is none of {' '.join(_WORDS[name])}: NCCL {RELEASE} takes the default"
        yield text, "warn" if several else "fail"
    elif value != value.strip():
        yield f"blanks beside the value of {name}: earlier releases of NCCL take them for a part of it", "warn"


def _as_list(name: str, value: str) -> Iterator[tuple[str, Verdict]]:
    """Yield what matches nothing in a list (misc/utils.cc, parseStringList): ``^`` is before ``=``."""
    items = [item for item in value.removeprefix("^").removeprefix("=").split(",") if item]
    names = [item.split(":") for item in items]
    if not any(first for first, *_ in names):
        yield f"'{value}' of {name} has no name in it: NCCL takes all of them", "warn"
    for first, *ports in names:
        if not re.fullmatch(r"[^\s\"'#=^][^\s\"'#]*", first) and first:
            yield f"'{first}' in {name} is no name, and matches none: write a list such as {_LISTS[name]}", "fail"
        elif wrong := [port for port in ports if port and not re.fullmatch(r"\d+", port, re.ASCII)]:
            number = (c_number(wrong[0]) or (0, ""))[0]
            yield f"'{wrong[0]}' behind {first} in {name} is no port: NCCL reads {number} of it", "fail"
        elif len(ports) > 3:
            yield f"'{':'.join((first, *ports))}' in {name}: NCCL reads a port, a rail and a plane, and no more", "warn"


def _as_number(name: str, value: str) -> Iterator[tuple[str, Verdict]]:
    number = c_number(value)
    if number is None:
        yield f"'{value}' of {name} is no number: NCCL reads it as 0", "warn"
    elif not -_MOST <= number[0] < _MOST:
        yield f"'{value}' of {name} has more than 64 bits: NCCL takes the default", "warn"
    elif number[1].strip():
        yield f"NCCL reads {number[0]} of '{value}', the value of {name}, and not what follows", "warn"
    elif re.fullmatch(r"\s*[-+]?0\d+\s*", value):
        yield f"'{value}' of {name} begins with 0: NCCL reads it as octal", "warn"
