"""Corrections of hosts and clusters: what has to be of them for the rules of the five pillars to pass.

The kind that sets one says how a play states it: `resources.corrections`.
"""

from __future__ import annotations

from dataclasses import dataclass

from vsphere_ai.model.estate.correction import Correction


@dataclass(frozen=True)
class HighPerformance(Correction):
    """A host keeps its processors at their highest speed, whatever its load."""


@dataclass(frozen=True)
class TimeServers(Correction):
    """The clock of a host follows time servers from every start on; `has_servers`: those it has may stay."""

    has_servers: bool = False


@dataclass(frozen=True)
class LogHosts(Correction):
    """A host sends its logs to another machine."""


@dataclass(frozen=True)
class ServiceStopped(Correction):
    """A service of a host (`name`: its key) does not run, and does not start with the host."""


@dataclass(frozen=True)
class LockedDown(Correction):
    """A host is in lockdown mode, and takes logins of its exception users only."""


@dataclass(frozen=True)
class AddressTranslation(Correction):
    """The kernel of a host has ATS (address translation services of PCIe) on."""
