"""ESXi releases by version and build, and the virtual hardware each of them runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from vsphere_ai.model.dated_table import dated_table

Version = tuple[int, ...]

MINIMUM: Version = (7, 0, 2)
"""vSphere 7.0 Update 2, the first release with MIG-backed vGPUs."""


@dataclass(frozen=True)
class Release:
    """An ESXi version, the highest hardware version it runs, and the names of its builds."""

    version: Version
    hardware: int
    builds: Mapping[int, str] = field(default_factory=dict)
    withdrawn: frozenset[int] = frozenset()


@cache
def releases() -> tuple[Release, ...]:
    """Return every release of the table, oldest first."""
    return tuple(
        Release(
            version=numbers(entry["version"]) or (),
            hardware=entry["hardware"],
            builds=entry.get("builds", {}),
            withdrawn=frozenset(entry.get("withdrawn", ())),
        )
        for entry in dated_table("model/releases.yaml").values["releases"]
    )


def numbers(version: object) -> Version | None:
    """Return ``7.0.2`` as (7, 0, 2), None when the text is not a dotted number: versions never compare as text."""
    text = str(version)
    return tuple(int(part) for part in text.split(".")) if re.fullmatch(r"\d+(\.\d+)*", text) else None


def dotted(version: Version) -> str:
    """Return (7, 0, 2) as ``7.0.2``."""
    return ".".join(map(str, version))


def build_name(version: Version, build: str) -> str | None:
    """Return the name of a build of a version, e.g. ``7.0 U2a``; None when the table does not list it."""
    release = _exactly(version)
    return release.builds.get(int(build)) if release and build.isdecimal() else None


def is_withdrawn(version: Version, build: str) -> bool:
    """Return whether VMware took that build back."""
    release = _exactly(version)
    return release is not None and build.isdecimal() and int(build) in release.withdrawn


def hardware_limit(version: Version) -> int | None:
    """Return the highest virtual hardware version an ESXi version is known to run; None before ESXi 6.5."""
    known = [r.hardware for r in releases() if r.version <= version]
    return known[-1] if known else None


def is_newer_than_known(version: Version) -> bool:
    """Return whether an ESXi version came after the table: it may run a later virtual hardware than is known."""
    return version > releases()[-1].version


def first_esxi_with(hardware: int) -> str:
    """Return the first listed release that runs a hardware version, as ``ESXi 8.0.2``."""
    listed = next((r.version for r in releases() if r.hardware >= hardware), None)
    return f"ESXi {dotted(listed)}" if listed else f"a release after ESXi {dotted(releases()[-1].version)}"


def _exactly(version: Version) -> Release | None:
    return next((r for r in releases() if r.version == version[:3]), None)
