"""Alert rules of Prometheus for nodes: written for what a node can show, and read back with every fault.

Source: prometheus/prometheus model/rulefmt/rulefmt.go (files of rules).

Metrics: NVIDIA/dcgm-exporter, etc/default-counters.csv; prometheus/node_exporter, infiniband. The exporter's
DCGM_FI_DEV_XID_ERRORS keeps the last XID for ever, so DCGM_EXP_XID_ERRORS_COUNT is used, which is off in its defaults.
A guest with a vGPU shows memory, clocks, XIDs and its licence only: the other alerts are for whole GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from vsphere_ai.model.names.written_names import pattern_address
from vsphere_ai.model.nodes import Node
from vsphere_ai.model.text import safe

GPU_PORT, NODE_PORT = 9400, 9100
FOR_EVER = "DCGM_FI_DEV_XID_ERRORS"
_DURATION = re.compile(r"(?:\d+(?:ms|[smhdwy]))+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PAIRS = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True)
class Alert:
    """An alert: name, expression with ``$NODES`` for the label of the nodes, duration, severity and what it says.

    `port` is that of the exporter; `whole`: only GPUs that are no vGPU show its metric.
    """

    name: str
    expression: str
    duration: str
    severity: str
    summary: str
    port: int = GPU_PORT
    whole: bool = False


ALERTS = (
    Alert("NodeNotSeen", "up{$NODES} == 0", "5m", "critical", "an exporter of the node does not answer", NODE_PORT),
    Alert(
        "GpuXid",
        "sum by (instance, gpu, xid) (DCGM_EXP_XID_ERRORS_COUNT{$NODES}) > 0",
        "0m",
        "warning",
        "a GPU has an XID",
    ),
    Alert(
        "GpuMemoryUncorrectable",
        "increase(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{$NODES}[1h]) > 0",
        "0m",
        "critical",
        "a memory error that cannot be corrected",
        whole=True,
    ),
    Alert(
        "GpuRowRemapFailed",
        "DCGM_FI_DEV_ROW_REMAP_FAILURE{$NODES} > 0",
        "0m",
        "critical",
        "row remapping failed",
        whole=True,
    ),
    Alert(
        "GpuHot", "DCGM_FI_DEV_GPU_TEMP{$NODES} > 85", "10m", "warning", "the GPU is hotter than 85 degrees", whole=True
    ),
    Alert(
        "NvlinkErrors",
        "increase(DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL{$NODES}[10m]) > 0",
        "15m",
        "warning",
        "NVLink has transmission errors",
        whole=True,
    ),
    Alert(
        "VgpuNotLicensed", "DCGM_FI_DEV_VGPU_LICENSE_STATUS{$NODES} == 0", "15m", "warning", "the vGPU is not licensed"
    ),
    Alert(
        "RdmaLinkDown",
        "increase(node_infiniband_link_downed_total{$NODES}[10m]) > 0",
        "0m",
        "critical",
        "an RDMA link went down",
        NODE_PORT,
    ),
    Alert(
        "RdmaSymbolErrors",
        "increase(node_infiniband_symbol_error_total{$NODES}[1h]) > 120",
        "0m",
        "critical",
        "an RDMA link has more than 120 symbol errors per hour",
        NODE_PORT,
    ),
    Alert(
        "RdmaDiscards",
        "rate(node_infiniband_port_transmit_discards_total{$NODES}[5m]) > 100",
        "5m",
        "warning",
        "an RDMA port drops more than 100 packets per second",
        NODE_PORT,
    ),
    Alert(
        "ClockOff",
        "abs(node_timex_offset_seconds{$NODES}) > 1",
        "5m",
        "warning",
        "the clock is off by more than 1 s",
        NODE_PORT,
    ),
)


@dataclass(frozen=True)
class RuleFault:
    """What is wrong with a file of rules: the path in it, as ``("groups", 0, "rules", 2)``, and what would work."""

    path: tuple[str | int, ...]
    message: str
    help: str = ""


def rule_file(nodes: Sequence[Node], name: str) -> dict[str, object]:
    """Return the groups of alert rules for nodes, as the values of a file of rules.

    ValueError: no node; `Refused`: an address that is none, or none is known. VMs without one are left out.
    """
    if not nodes:
        raise ValueError("no node is given")
    nodes = [n for n in nodes if n.address] or nodes  # an empty address would mean another target
    whole = [n for n in nodes if any(not g.profile for g in n.gpus)]
    vgpu = [n for n in nodes if any(g.profile for g in n.gpus)]
    rules = []
    for alert in ALERTS:
        own = whole if alert.whole else vgpu if "VGPU" in alert.expression else nodes
        if own:
            rules.append(_rule(alert, own))
    return {"groups": [{"name": f"vsphere-ai {safe(name)}", "rules": rules}]}


def _rule(alert: Alert, nodes: Sequence[Node]) -> dict[str, object]:
    # dots of addresses, and the backslash itself within a string of PromQL, are escaped
    addresses = "|".join(pattern_address(f"address of the VM {n.vm}", n.address) for n in nodes).replace("\\", "\\\\")
    label = f'instance=~"(?:{addresses}):{alert.port}"'
    return {
        "alert": alert.name,
        "expr": alert.expression.replace("$NODES", label),
        "for": alert.duration,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": f"{{{{ $labels.instance }}}}: {alert.summary}"},
    }


def faults(document: object) -> tuple[RuleFault, ...]:
    """Return what is wrong with the values of a file of rules."""
    groups = document.get("groups") if isinstance(document, Mapping) else None
    if not isinstance(groups, Sequence) or isinstance(groups, str):
        return (RuleFault(("groups",), "this is no file of rules", "begin with groups:"),)
    found: list[RuleFault] = []
    names: set[str] = set()
    for at, group in enumerate(groups):
        place: tuple[str | int, ...] = ("groups", at)
        if not isinstance(group, Mapping) or not group.get("name"):
            found.append(RuleFault(place, "the group has no name"))
            continue
        if str(group["name"]) in names:
            found.append(RuleFault((*place, "name"), f"the group {group['name']} is there twice"))
        names.add(str(group["name"]))
        rules = group.get("rules")
        if not isinstance(rules, Sequence) or isinstance(rules, str):
            found.append(RuleFault((*place, "rules"), "the group has no rules"))
            continue
        for number, rule in enumerate(rules):
            found += _of_rule(rule, (*place, "rules", number))
    return tuple(found)


def _of_rule(rule: object, place: tuple[str | int, ...]) -> Iterable[RuleFault]:
    if not isinstance(rule, Mapping) or ("alert" in rule) == ("record" in rule):
        yield RuleFault(place, "a rule has either alert or record")
        return
    if "alert" in rule and not _NAME.fullmatch(str(rule["alert"])):
        yield RuleFault((*place, "alert"), f"{rule['alert']} is no name of an alert", "use letters, digits and _")
    expression = rule.get("expr")
    if not isinstance(expression, str | int | float):
        yield RuleFault((*place, "expr"), "the rule has no expression")
        return
    if why := _unbalanced(str(expression)):
        yield RuleFault((*place, "expr"), why)
    if re.search(rf"\b{FOR_EVER}\b", str(expression)):
        help = "use DCGM_EXP_XID_ERRORS_COUNT, which counts within a window"
        yield RuleFault((*place, "expr"), f"{FOR_EVER} keeps the last XID for ever", help)
    if "for" in rule and not _DURATION.fullmatch(str(rule["for"])):
        yield RuleFault((*place, "for"), f"{rule['for']} is no duration", "write it as 5m or 1h30m")
    for part in ("labels", "annotations"):
        values = rule.get(part) or {}
        if not isinstance(values, Mapping) or not all(_LABEL.fullmatch(str(k)) for k in values):
            yield RuleFault((*place, part), f"{part} are names with texts")
    for key in set(rule) - {"alert", "record", "expr", "for", "keep_firing_for", "labels", "annotations"}:
        yield RuleFault((*place, str(key)), f"{key} is no key of a rule")


def _unbalanced(expression: str) -> str:
    """Return why brackets or quotes of an expression do not fit, "" where they do."""
    waiting: list[str] = []
    quote, escaped = "", False
    for character in expression:
        if quote:
            if not escaped and character == quote:
                quote = ""
            escaped = character == "\\" and not escaped and quote != "`"
        elif character in "\"'`":
            quote = character
        elif character in "([{":
            waiting.append(character)
        elif character in _PAIRS and (not waiting or waiting.pop() != _PAIRS[character]):
            return f"{character} closes nothing"
    if quote:
        return f"the quote {quote} is not closed"
    return f"{waiting[-1]} is not closed" if waiting else ""
