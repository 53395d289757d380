"""The ESXi version a host states, wherever vCenter still shows it, and the virtual hardware it runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from vsphere_ai.model.facts import Estate
from vsphere_ai.model.names.versions import Version, hardware_limit, is_newer_than_known, numbers
from vsphere_ai.model.state import Target

PRODUCT = ("config.product", "summary.config.product")
"""The same AboutInfo twice: the summary outlives the loss of a connection."""


class VersionLimit(NamedTuple):
    """The highest hardware version a host is known to run, with its name and its ESXi version.

    `is_newer`: its ESXi came after the table of releases, and may run more.
    """

    hardware: int
    host: str
    esxi: str
    is_newer: bool = False

    def runs(self, version: int) -> bool | None:
        """Return whether the host runs VMs of a hardware version; None where that is not known."""
        return True if version <= self.hardware else None if self.is_newer else False


def hardware_number(version: object) -> int | None:
    """Return the number of ``vmx-19``, None when it is not one; as texts, vmx-9 would be above vmx-19."""
    digits = str(version or "").removeprefix("vmx-")
    return int(digits) if digits.isdecimal() else None


def hardware_limits(estate: Estate, hosts: Iterable[Target]) -> tuple[tuple[VersionLimit, ...], tuple[str, ...]]:
    """Return what each host runs, the lowest first, and the names of the hosts of which that is not known."""
    known, hidden = [], []
    for host in hosts:
        stated = host_version(estate, host.ref)
        limit = hardware_limit(stated[0]) if stated else None
        if stated and limit:
            known.append(VersionLimit(limit, host.name, stated[1], is_newer_than_known(stated[0])))
        else:
            hidden.append(host.name)
    return tuple(sorted(known)), tuple(hidden)


def host_version(estate: Estate, ref: str) -> tuple[Version, str] | None:
    """Return the version of a host as numbers and as text, None when it is not shown or not understood."""
    facts = estate.get(ref)
    stated = [facts.get(path) for path in PRODUCT] if facts else []
    for text in (str(product.get("version")) for product in stated if product):
        version = numbers(text)
        if version:
            return version, text
    return None
