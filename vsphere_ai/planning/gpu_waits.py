"""GPUs that a run waits for after a reboot: whether nvidia-smi answers for them before it."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.gpu.listings import UnreadableOutput, parse_gpus
from vsphere_ai.gpu.live import GPUS
from vsphere_ai.model.facts import Estate, Output
from vsphere_ai.model.state import Problem
from vsphere_ai.model.view import View
from vsphere_ai.planning.schedule import Impact
from vsphere_ai.planning.windows import host_now
from vsphere_ai.resources.mixins import DividesGpus, is_stated


def unasked(impact: Impact, estate: Estate) -> tuple[str, ...]:
    """Return the hosts (references) whose GPUs were not asked: they reboot and have some, or VMs may move there."""
    waited = (h for h in impact.reboots if host_now(estate, h).has_gpus)
    return tuple(h.ref for h in sorted({*impact.unread, *waited}) if not estate[h.ref].probes)


def silent(impact: Impact, view: View) -> Iterator[Problem]:
    """Yield the hosts on which nvidia-smi does not work now: after the reboot it would be waited for in vain."""
    for host in impact.reboots:
        answer = view.facts(host.ref).probes.get(GPUS.name)
        if not isinstance(answer, Output) or not host_now(view.estate, host).has_gpus:
            continue
        if is_stated(view, host.ref, DividesGpus):
            continue  # the kind itself says what it could not read
        try:
            parse_gpus(answer.status, answer.stdout)
        except UnreadableOutput as error:
            yield Problem(
                host,
                "gpu.no-answer",
                f"it has to reboot, and nvidia-smi, which is waited for after that, does not work: {error.message}",
                "run nvidia-smi on the host: is the host driver (VIB) loaded?",
            )
