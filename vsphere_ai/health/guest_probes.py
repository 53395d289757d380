"""Probes of guests: for health, for the rails of a launch, for topologies, and for a certificate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from vsphere_ai.health import answers
from vsphere_ai.health.answers import GuestFacts, read_guest, refined
from vsphere_ai.health.guest_pci import DEVICES, rdma_addresses, with_interfaces
from vsphere_ai.model.guest_probes import Answers, CommandAnswer, GuestCommand, GuestProbe, NoAnswer
from vsphere_ai.model.nodes import Node

RELEASE = GuestCommand("release", ("uname", "-r"))


@dataclass(frozen=True)
class SurveyedGuest:
    """What a guest answered: its facts, the answer to `DEVICES` where it was asked, and when it had answered."""

    facts: GuestFacts
    devices: CommandAnswer | None = None
    at: datetime = field(default=datetime.min.replace(tzinfo=UTC))

    @property
    def cards(self) -> dict[str, str]:
        """The PCI addresses of RDMA devices by their names."""
        return rdma_addresses(self.devices)

    def node(self, node: Node) -> Node:
        """Return a node with what its guest knows better."""
        return refined(with_interfaces(node, self.devices), self.facts)


def _surveyed(own: Answers) -> SurveyedGuest:
    ended = max((each.ended for each in own.values()), default=0.0)
    return SurveyedGuest(read_guest(own), own.get(DEVICES.name), datetime.fromtimestamp(ended, UTC))


def _certified(own: Answers) -> Mapping[str, str]:
    """Return fact -> value, without what the guest does not have; `NoAnswer` where a command brought no answer."""
    for name, answer in own.items():
        if answer.failure:
            raise NoAnswer(f"{name}: {answer.failure}")
    guest, release = read_guest(own), own[RELEASE.name]
    values = {
        "guest driver": ", ".join(sorted({gpu.driver for gpu in guest.gpus})),
        "guest GPUs": ", ".join(sorted(gpu.uuid for gpu in guest.gpus)),
        "CUDA": guest.cuda,
        "kernel": release.out.strip() if release.is_good else "",
        **guest.packages,
    }
    return {name: value for name, value in values.items() if value}


_RDMA = (answers.LINKS, answers.SYSFS)
RAILS = GuestProbe((answers.ADDRESSES, *_RDMA), read_guest)
"""RDMA devices, GID indexes and MTUs of a node's rails."""
TOPOLOGY = GuestProbe((answers.SMI, answers.LINKS, answers.ADDRESSES, answers.SYSFS, DEVICES, answers.PATHS), _surveyed)
"""PCI addresses of GPUs and NICs: vCenter's slot numbers are no promise."""
HEALTH = GuestProbe(
    (
        answers.SMI, answers.MEASURES, answers.PROCESSES, answers.CUDA, answers.VERSIONS, answers.LINKS,
        answers.ADDRESSES, answers.RULES, answers.KERNEL, answers.UPTIME, answers.SYSFS, answers.REPLAYS, DEVICES,
        answers.LISTED, answers.PATHS,
    ),
    _surveyed,
)  # fmt: skip
"""All that the checks of health judge."""
COUNTERS = GuestProbe((answers.SYSFS, answers.REPLAYS, answers.PROCESSES, answers.MEASURES), _surveyed)
"""Counters and the use of GPUs, a second time."""
CERTIFIED = GuestProbe((answers.SMI, answers.CUDA, answers.VERSIONS, RELEASE), _certified)
"""Facts that a certificate rests on: drivers, CUDA, NCCL, kernel, and the GPUs as the guest sees them."""
GUEST_FACTS = frozenset(("guest driver", "guest GPUs", "CUDA", "kernel", *answers.PACKAGES))
"""Names of these facts; other facts of a VM are vCenter's."""
BASIC = (answers.SMI, answers.PROCESSES, answers.CUDA, answers.VERSIONS, answers.ADDRESSES)
"""What a pre-flight asks every guest; the first three where GPUs are needed."""
_OF_GPUS = (answers.SMI.name, answers.PROCESSES.name, answers.CUDA.name)


def before_a_start(*, gpus: bool, rails: bool, python: str) -> tuple[GuestCommand, ...]:
    """Return the commands whose answers are the facts that a pre-flight judges; `python` is the job's."""
    asked = [each for each in BASIC if gpus or each.name not in _OF_GPUS]
    versions = replace(answers.VERSIONS, argv=(python, *answers.VERSIONS.argv[1:]))
    return (*(versions if each.name == versions.name else each for each in asked), *(_RDMA if rails else ()))
