"""Facts of guests that a certificate rests on: drivers, CUDA, NCCL, kernel, and the GPUs as the guest sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from vsphere_ai.app.training.nodes.preflight import ask_guest
from vsphere_ai.health.answers import CUDA, SMI, VERSIONS, GuestCommand, read_guest
from vsphere_ai.model.nodes import Node

if TYPE_CHECKING:
    from vsphere_ai.connect.secure_shell.guest_ssh import GuestSettings, GuestSsh

KERNEL = GuestCommand("release", ("uname", "-r"))


def guest_facts(nodes: Sequence[Node], settings: GuestSettings) -> dict[str, Mapping[str, str]]:
    """Return fact -> value by VM; without VMs whose guest cannot be asked, and without what it does not answer."""
    from vsphere_ai.connect.secure_shell.guest_ssh import on_guests

    found = on_guests(nodes, settings, _facts)
    return {vm: facts for vm, facts in found.items() if isinstance(facts, Mapping)}


def _facts(shell: GuestSsh) -> Mapping[str, str]:
    answers = ask_guest(shell, (SMI, CUDA, VERSIONS, KERNEL))
    guest, release = read_guest(answers), answers[KERNEL.name]
    values = {
        "guest driver": ", ".join(sorted({gpu.driver for gpu in guest.gpus})),
        "guest GPUs": ", ".join(sorted(gpu.uuid for gpu in guest.gpus)),
        "CUDA": guest.cuda,
        "kernel": release.out.strip() if release.code == 0 else "",
        **guest.packages,
    }
    return {name: value for name, value in values.items() if value}
