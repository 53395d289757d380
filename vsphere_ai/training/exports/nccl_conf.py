"""NCCL settings as ``/etc/nccl.conf`` (``NAME=VALUE`` lines), one part for each group of nodes with the same ones.

Source: NCCL user guide, Environment Variables, "System configuration"; NCCL 2.23 also reads ``NCCL_CONF_FILE``.
"""

from __future__ import annotations

import re

from vsphere_ai.model.names.written_names import line_comment, nccl_value
from vsphere_ai.training.exports.finding import Finding, lines_of
from vsphere_ai.training.launch import Plan

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
_LINE = re.compile(r"(NCCL_[A-Z0-9_]+)\s*=\s*(\S.*)")
_HCA = re.compile(rf"[\^=]?=?{_NAME}(:\d+)?(,{_NAME}(:\d+)?)*")
_INTERFACES = re.compile(rf"[\^=]?=?{_NAME}(,{_NAME})*")
_NUMBER = re.compile(r"-?\d+")
_LEVEL = re.compile(r"LOC|NVL|NVB|C2C|PIX|PXB|P2C|PXN|PHB|SYS|[0-5]")
_FORMS = {
    "NCCL_IB_HCA": (_HCA, "a list such as =mlx5_0:1,mlx5_1:1"),
    "NCCL_SOCKET_IFNAME": (_INTERFACES, "a list of interfaces such as =ens192"),
    "NCCL_OOB_NET_IFNAME": (_INTERFACES, "a list of interfaces such as =ens192"),
    "NCCL_IB_GID_INDEX": (_NUMBER, "a number"),
    "NCCL_IB_TC": (_NUMBER, "a number"),
    "NCCL_IB_SL": (_NUMBER, "a number"),
    "NCCL_IB_TIMEOUT": (_NUMBER, "a number"),
    "NCCL_IB_RETRY_CNT": (_NUMBER, "a number"),
    "NCCL_IB_QPS_PER_CONNECTION": (_NUMBER, "a number"),
    "NCCL_IB_DISABLE": (re.compile("[01]"), "0 or 1"),
    "NCCL_CROSS_NIC": (re.compile("[012]"), "0, 1 or 2"),
    "NCCL_NET_GDR_LEVEL": (_LEVEL, "one of LOC PIX PXB PHB SYS"),
    "NCCL_DEBUG": (re.compile("VERSION|WARN|INFO|ABORT|TRACE"), "one of VERSION WARN INFO TRACE"),
}
NODES = "# nodes: "


def write(plan: Plan) -> str:
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


def check(text: str) -> list[Finding]:
    """Return what stands against settings; of names that are not known only the form is checked."""
    found, seen = [], set()
    comments = {n for n, line in enumerate(text.splitlines(), 1) if line.startswith(NODES)}
    for number, line in lines_of(text):
        match = _LINE.fullmatch(line)
        if match is None:
            found.append(Finding(number, f"'{line}' is not NCCL_NAME=VALUE"))
            continue
        name, value = match.groups()
        part = max((n for n in comments if n < number), default=0)
        if (part, name) in seen:
            found.append(Finding(number, f"{name} is set twice"))
        seen.add((part, name))
        form = _FORMS.get(name)
        if form is not None and not form[0].fullmatch(value):
            found.append(Finding(number, f"'{value}' of {name} is not {form[1]}"))
    return found
