"""Inventory for Ansible in YAML: a group with the nodes of a job, and what is known of each as variables."""

from __future__ import annotations

import json
import re

from vsphere_ai.model.bounded import yaml_value
from vsphere_ai.model.names.written_names import ansible_name, ansible_text, refusal
from vsphere_ai.model.nodes import Node
from vsphere_ai.training.exports.finding import Finding
from vsphere_ai.training.launch import Plan

_GROUP = re.compile(r"[A-Za-z_]\w*")
_VARIABLE = re.compile(r"[A-Za-z_]\w*")
_OF_GROUP = {"hosts", "children", "vars"}


def write(plan: Plan) -> str:
    """Return the inventory."""
    group = re.sub(r"\W", "_", plan.job.training_job)
    lines = ["all:", "  children:", f"    {group}:", "      hosts:"]
    for number, node in enumerate(plan.nodes):
        if node.vm == group:
            raise refusal(
                "name of the VM",
                node.vm,
                "an inventory of Ansible",
                "its group has that name",
                "call the job otherwise",
            )
        lines.append(f"        {_json(ansible_name('name of the VM', node.vm))}:")
        lines += [f"          {name}: {_json(value)}" for name, value in _variables(plan, number, node).items()]
    lines += [
        "      vars:",
        f"        master_addr: {_json(plan.head.address)}",
        f"        nodes: {len(plan.nodes)}",
    ]
    return "".join(f"{line}\n" for line in lines)


def _variables(plan: Plan, number: int, node: Node) -> dict[str, object]:
    def text(what: str, value: str) -> str:
        return ansible_text(f"{what} of the VM {node.vm}", value)

    rails = [
        {
            "interface": text("interface", r.interface),
            "address": text("address", r.address),
            "rdma_device": text("RDMA device", r.rdma_device),
        }
        for r in node.rails
    ]
    nccl = {s.name: text(f"value of {s.name}", s.value) for s in plan.nccl(number) if s.value is not None}
    host = text("ESXi host", node.host)
    known = {"ansible_host": node.address, "node_rank": number, "gpus": len(node.gpus), "esxi_host": host}
    return {**{k: v for k, v in known.items() if v != ""}, "rails": rails, "nccl_env": nccl}


def _json(value: object) -> str:
    """Return a value as JSON, which YAML reads alike; PyYAML does not put pairs of escapes of UTF-16 together."""
    return json.dumps(value, ensure_ascii=False)


def check(text: str) -> list[Finding]:
    """Return what stands against an inventory: names of groups and variables, hosts, and their addresses."""
    try:
        found = yaml_value(text)
    except ValueError as error:
        return [Finding(0, f"this is not YAML: {error}")]
    if not isinstance(found, dict) or not found:
        return [Finding(0, "an inventory is a mapping of groups")]
    problems: list[Finding] = []
    hosts: dict[str, object] = {}
    for name, group in found.items():
        _check_group(str(name), group, problems, hosts)
    if not hosts and not problems:
        problems.append(Finding(0, "no host is listed"))
    addresses = [h.get("ansible_host") for h in hosts.values() if isinstance(h, dict) and h.get("ansible_host")]
    if len(set(map(str, addresses))) < len(addresses):
        problems.append(Finding(0, "two hosts have the same ansible_host"))
    return problems


def _check_group(name: str, group: object, problems: list[Finding], hosts: dict[str, object]) -> None:
    if not _GROUP.fullmatch(name):
        problems.append(Finding(0, f"'{name}' is no name of a group: letters, digits and _"))
    if group is None:
        return
    if not isinstance(group, dict) or set(group) - _OF_GROUP:
        problems.append(Finding(0, f"the group '{name}' has other keys than hosts, children and vars"))
        return
    for host, variables in (group.get("hosts") or {}).items():
        hosts[str(host)] = variables
        wrong = [v for v in (variables or {}) if not _VARIABLE.fullmatch(str(v))]
        problems += [Finding(0, f"'{each}' of {host} is no name of a variable") for each in wrong]
    for child, below in (group.get("children") or {}).items():
        _check_group(str(child), below, problems, hosts)
