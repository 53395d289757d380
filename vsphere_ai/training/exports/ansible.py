"""Inventory for Ansible in YAML: a group with the nodes of a job, and what is known of each as variables."""

from __future__ import annotations

import json
import re

from vsphere_ai.model.names.written_names import ansible_name, ansible_text, refusal
from vsphere_ai.model.nodes import Node
from vsphere_ai.training.launch import LaunchPlan


def write(plan: LaunchPlan) -> str:
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


def _variables(plan: LaunchPlan, number: int, node: Node) -> dict[str, object]:
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
