"""Memory of probes: what hosts answered over SSH, for readings that follow one another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from vsphere_ai.model.facts import CommandOutput, Estate, Facts, ProbeFailure
from vsphere_ai.model.steps import Probe

Answers = Mapping[str, CommandOutput | ProbeFailure]


@dataclass(frozen=True)
class _KeptAnswers:
    seen: object
    answers: Answers


class ProbeMemory:
    """Answers that hold for as long as a host shows the same, and the same VMs run on it.

    That a host did not let in is kept, too: ESXi locks an account after a few attempts. Nothing is kept before `begin`.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, tuple[Probe, ...]], _KeptAnswers] | None = None

    def begin(self) -> None:
        """Keep what is answered from now on; nothing of what was answered before."""
        self._kept = {}

    def known(self, hosts: Iterable[Facts], probes: tuple[Probe, ...], estate: Estate) -> dict[str, Answers]:
        """Return the answers that hold, by host reference."""
        kept = self._kept or {}
        same = ((host, kept.get((host.ref, probes))) for host in hosts)
        return {h.ref: k.answers for h, k in same if k is not None and k.seen == _seen(h, estate)}

    def keep(
        self, hosts: Iterable[Facts], probes: tuple[Probe, ...], estate: Estate, found: Mapping[str, Answers]
    ) -> None:
        """Take answers of hosts, as they and their VMs were when they were asked."""
        if self._kept is not None:
            asked = (host for host in hosts if host.ref in found)
            self._kept.update({(h.ref, probes): _KeptAnswers(_seen(h, estate), found[h.ref]) for h in asked})


def _seen(host: Facts, estate: Estate) -> object:
    vms = frozenset((vm.ref, str(estate[vm.ref].get("runtime.powerState"))) for vm in estate.vms_on(host.ref))
    return host.properties, vms
