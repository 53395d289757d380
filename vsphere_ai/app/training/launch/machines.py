"""Machines of a job's nodes: processors, memory and GPUs that their guests show, for files of a workload manager."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vsphere_ai.app.events import Emit, Remark, ignore
from vsphere_ai.model.nodes import Node
from vsphere_ai.training.machine import MACHINE, NodeMachine

if TYPE_CHECKING:
    from vsphere_ai.connect.secure_shell.guest_ssh import GuestSettings

RULE = "render.guest"


def machines_of(nodes: Sequence[Node], settings: GuestSettings, emit: Emit = ignore) -> dict[str, NodeMachine]:
    """Return what guests show, by VM; one that does not answer is left out, with a remark."""
    from vsphere_ai.connect.secure_shell.guest_survey import survey

    made = {}
    for vm, answer in survey(nodes, settings, MACHINE).items():
        if isinstance(answer, NodeMachine):
            made[vm] = answer
        else:
            why = answer.message.removeprefix(f"{vm}: ")
            emit(Remark(RULE, f"{vm}: CPUs, memory and GPUs are not known: {why}"))
    return made
