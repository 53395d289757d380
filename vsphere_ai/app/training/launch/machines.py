"""Machines of a job's nodes: processors, memory and GPUs that their guests show, for files of a workload manager."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vsphere_ai.app.events import Emit, Remark, ignore
from vsphere_ai.model.nodes import Node
from vsphere_ai.training.machine import CPUS, GPUS, MEMORY, NodeMachine, machine_of

if TYPE_CHECKING:
    from vsphere_ai.connect.secure_shell.guest_ssh import GuestSettings, GuestSsh

RULE = "render.guest"


def machines_of(nodes: Sequence[Node], settings: GuestSettings, emit: Emit = ignore) -> dict[str, NodeMachine]:
    """Return what guests show, by VM; one that does not answer is left out, with a remark."""
    from vsphere_ai.connect.secure_shell.guest_ssh import on_guests

    found, made = on_guests(nodes, settings, _machine), {}
    for node in nodes:
        answer = found[node.vm]
        if isinstance(answer, NodeMachine):
            made[node.vm] = answer
        else:
            why = answer if isinstance(answer, str) else answer.message
            emit(Remark(RULE, f"{node.vm}: CPUs, memory and GPUs are not known: {why}"))
    return made


def _machine(shell: GuestSsh) -> NodeMachine | str:
    cpus, memory, gpus = (shell.run(argv) for argv in (CPUS, MEMORY, GPUS))
    try:
        return machine_of(cpus.out, memory.out, "" if gpus.code else gpus.out)
    except ValueError as error:
        return str(error)
