"""GPUs of hosts that reboot: what they lose, what has to be there afterwards, and whether nvidia-smi answers before."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.gpu.smi.listings import UnreadableOutput, parse_gpus
from vsphere_ai.gpu.smi.live import GPUS
from vsphere_ai.model.facts import CommandOutput, Estate
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.planning.scheduling.schedule import Impact
from vsphere_ai.planning.scheduling.windows import host_now
from vsphere_ai.resources import kinds
from vsphere_ai.resources.host_settings import DividesGpus, Loss
from vsphere_ai.resources.mixins import is_stated


def loss_of(host: Target, view: View) -> Loss | None:
    """Return what a host that will reboot loses; `view` is how everything is now, with what the playbook states."""
    return next((loss for kind in _dividing() if (loss := kind.loss(host, view)) is not None), None)


def kept_modes(host: Target, view: View) -> dict[str, str]:
    """Return PCI address -> the mode of a GPU that has to be there after a reboot, where no playbook says another."""
    return {pci: mode for kind in _dividing() for pci, mode in kind.kept(host, view).items()}


def _dividing() -> list[type[DividesGpus]]:
    return [kind for kind in kinds().values() if issubclass(kind, DividesGpus)]


def hosts_to_probe(impact: Impact, estate: Estate) -> tuple[str, ...]:
    """Return the hosts (references) whose GPUs were not asked: they reboot and have some, or VMs may move there."""
    waited = (h for h in impact.reboots if host_now(estate, h).has_gpus)
    return tuple(h.ref for h in sorted({*impact.unread, *waited}) if not estate[h.ref].probes)


def silent(impact: Impact, view: View) -> Iterator[Problem]:
    """Yield the hosts on which nvidia-smi does not work now: after the reboot it would be waited for in vain."""
    for host in impact.reboots:
        answer = view.facts(host.ref).probes.get(GPUS.name)
        if not isinstance(answer, CommandOutput) or not host_now(view.estate, host).has_gpus:
            continue
        if is_stated(view, host.ref, DividesGpus):
            continue  # the kind itself says what it could not read
        try:
            parse_gpus(answer.status, answer.stdout)
        except UnreadableOutput as error:
            why = f"nvidia-smi, which is waited for after that, does not work: {error.message}"
            help_ = "run nvidia-smi on the host: is the host driver (VIB) loaded?"
            yield Finding.problem(host, "gpu.no-answer", f"it has to reboot, and {why}", help_)
