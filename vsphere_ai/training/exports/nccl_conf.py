"""NCCL settings as ``/etc/nccl.conf`` (``NAME=VALUE`` lines), one part for each group of nodes with the same ones.

Sources: NVIDIA/nccl src/misc/param.cc and src/misc/utils.cc; NCCL user guide, Environment Variables, "System
configuration"; NCCL 2.23 also reads ``NCCL_CONF_FILE``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from vsphere_ai.model.finding import Verdict
from vsphere_ai.model.names.c_number import c_number
from vsphere_ai.model.names.written_names import line_comment, nccl_value
from vsphere_ai.training.exports.finding import LineFinding, at_line, not_looked_at
from vsphere_ai.training.launch import LaunchPlan

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
_HCA = re.compile(rf"[\^=]?=?{_NAME}(:\d+){{0,3}}(,{_NAME}(:\d+){{0,3}})*")
_INTERFACES = re.compile(rf"[\^=]?=?{_NAME}(:\d+){{0,3}}(,{_NAME}(:\d+){{0,3}})*")
_LEVEL = re.compile(r"LOC|NVL|NVB|C2C|PIX|PXB|P2C|PXN|PHB|SYS|[0-9]+")
_LISTS = {
    "NCCL_IB_HCA": (_HCA, "a list such as =mlx5_0:1,mlx5_1:1"),
    "NCCL_SOCKET_IFNAME": (_INTERFACES, "a list of interfaces such as =ens192"),
    "NCCL_OOB_NET_IFNAME": (_INTERFACES, "a list of interfaces such as =ens192"),
}
_CHOICES = {
    "NCCL_NET_GDR_LEVEL": (_LEVEL, "one of LOC PIX PXB PHB SYS"),
    "NCCL_DEBUG": (re.compile("VERSION|WARN|INFO|ABORT|TRACE", re.IGNORECASE), "one of VERSION WARN INFO ABORT TRACE"),
}
NUMBERS = frozenset(
    f"NCCL_{name}"
    for name in (
        *("IB_GID_INDEX", "IB_TC", "IB_SL", "IB_TIMEOUT", "IB_RETRY_CNT", "IB_QPS_PER_CONNECTION", "IB_DISABLE"),
        *("CROSS_NIC", "P2P_DISABLE", "SHM_DISABLE", "IB_PKEY", "IB_ADAPTIVE_ROUTING", "IB_SPLIT_DATA_ON_QPS"),
        *("MIN_NCHANNELS", "MAX_NCHANNELS", "NTHREADS", "BUFFSIZE", "NVLS_ENABLE", "SOCKET_NTHREADS"),
        *("NSOCKS_PERTHREAD", "NET_GDR_READ", "DMABUF_ENABLE", "IB_MERGE_NICS", "CUMEM_ENABLE", "PXN_DISABLE"),
    )
)
"""Variables that NCCL reads with strtoll of base 0 (NCCL_PARAM); there are some 200, of which these are usual."""
_OTHERS = ("NCCL_", "FI_", "OFI_", "UCX_", "IBV_", "MLX5_", "RDMAV_", "AWS_")
"""Beginnings of names that NCCL and the libraries below it read."""
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
    part = 0
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if line.startswith(NODES):
            part = number
        if line.startswith("#") or not line:
            continue
        name, equals, value = line.partition("=")
        if not equals:
            if not line.lstrip().startswith("#"):
                findings.append(at_line(number, f"'{line}' is not NAME=VALUE: NCCL passes over it"))
            continue
        findings += [at_line(number, message, verdict) for message, verdict in _line(name, value)]
        if (part, name) in seen:
            verdict: Verdict = "warn" if seen[part, name] == value else "fail"
            findings.append(at_line(number, f"{name} is set twice: NCCL takes the first", verdict))
        seen.setdefault((part, name), value)
        if not name.strip().startswith(_OTHERS):
            others.setdefault(name, number)
    return [*findings, *not_looked_at("variables that NCCL only passes on", others)]


def _line(name: str, value: str) -> Iterator[tuple[str, Verdict]]:
    if len(name.encode()) + len(value.encode()) + 1 > MOST_LINE or max(map(len, (name, value))) > MOST_NAME:
        yield f"NCCL reads {MOST_LINE} bytes of a line, and {MOST_NAME} of a name or a value", "fail"
        return
    if name != name.strip():
        yield f"blanks belong to the name: this sets '{name}' and not {name.strip()}", "fail"
        return
    if name.split()[0] == "export":
        yield f"NCCL reads no shell: this sets '{name}' and not {name.split()[-1]}", "fail"
        return
    if not value:
        return
    if name in NUMBERS:
        yield from _as_number(name, value)
        return
    if value != value.strip() or value[0] in "\"'" or " #" in value:
        text = f"blanks, quotes and what follows '#' belong to the value of {name}: write no more than the value"
        yield text, "fail" if name in _LISTS or name in _CHOICES else "warn"
        return
    form = _LISTS.get(name) or _CHOICES.get(name)
    if form is not None and not form[0].fullmatch(value):
        yield f"'{value}' of {name} is not {form[1]}", "fail"


def _as_number(name: str, value: str) -> Iterator[tuple[str, Verdict]]:
    number = c_number(value)
    if number is None:
        yield f"'{value}' of {name} is no number: NCCL reads it as 0", "warn"
    elif number[1].strip():
        yield f"NCCL reads {number[0]} of '{value}', the value of {name}, and not what follows", "warn"
    elif re.fullmatch(r"\s*[-+]?0\d+\s*", value):
        yield f"'{value}' of {name} begins with 0: NCCL reads it as octal", "warn"
