"""Orders that this process has sent, and what is not known of their effect."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True)
class Boot:
    """The boot time of a host before a reboot, and when the order to reboot left, or is about to leave."""

    before: datetime
    sent: datetime


@dataclass
class Sent:
    """Orders by the reference of their target. Steps of one target do not overlap, so no lock is needed."""

    boots: dict[str, Boot] = field(default_factory=dict)
    reboots: set[str] = field(default_factory=set)
    """Hosts that were ordered to reboot, and may have refused it."""
    unanswered: set[str] = field(default_factory=set)
    """Hosts of which it is not known whether the order to reboot has reached them."""
    rebooted: set[str] = field(default_factory=set)
    """Hosts that were seen with a newer boot time."""
    shutdowns: set[str] = field(default_factory=set)
    """VMs whose guests may have been asked to shut down, and may do so yet."""
    uncertain: set[tuple[str, str]] = field(default_factory=set)
    """Steps (reference and summary) of which a response was lost."""
