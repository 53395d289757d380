"""Rule about the NVIDIA host driver (vGPU manager) among the installed VIBs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vsphere_ai.compat.base import RuleCase, host_rule
from vsphere_ai.gpu.catalog import Board
from vsphere_ai.gpu.devices import found_gpus
from vsphere_ai.gpu.smi.live import readable
from vsphere_ai.model.estate.host_version import PRODUCT, host_version
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.finding import Finding
from vsphere_ai.resources.topics import Topic

# NVIDIA-VMware_ESXi_7.0.2_Driver, NVIDIA-AIE_ESXi_7.0.2_Driver; from R525 on NVD-VMware_ESXi_8.0.0_Driver, NVD-AIE_…
VIB_NAME = re.compile(r"(?:NVIDIA|NVD)-(?P<line>VMware|AIE)(?:_ESXi_|-x86_64)")
VIB_VERSION = re.compile(r"(?P<driver>\d+(?:\.\d+)*)(?:-\d+OEM\.(?P<major>\d+)(?P<minor>\d)(?P<update>\d)\.)?")
LINES = {"AIE": "NVIDIA AI Enterprise", "VMware": "vGPU (graphics)"}
COMPUTE_ONLY_SINCE = 470  # from vGPU 13 (R470) on, compute-only boards have no driver in the graphics line


@dataclass(frozen=True)
class HostDriver:
    """An NVIDIA host driver VIB: its line, its driver version, and the ESXi version it was built for."""

    name: str
    version: str
    line: str
    driver: str
    built_for: tuple[int, int, int] | None

    @property
    def branch(self) -> int:
        """The driver branch, e.g. 550."""
        return int(self.driver.partition(".")[0])


@host_rule(
    "gpu.vib",
    "NVIDIA vGPU manager installed",
    source="NVIDIA AI Enterprise User Guide, Installing the NVIDIA Virtual GPU Manager on VMware vSphere",
    verdicts={
        "pass": "a driver VIB that suits the boards and the ESXi release",
        "warn": "graphics line with a compute board, built for another ESXi release, or more than one driver",
        "fail": "no NVIDIA driver VIB, or one older than the board",
        "unknown": "the version of the VIB is not understood",
    },
    reads=("software", "hardware.pciDevice", *PRODUCT),
    about=Topic.SHARED_GPUS,
)
def gpu_vib(case: RuleCase) -> Iterator[Finding]:
    """The NVIDIA vGPU manager has to be installed on the host.

    Boards for computing alone (A100, A30, H100) are served by the AI Enterprise line only; every board has an oldest
    driver branch; a VIB is built for one ESXi release. Reading the list of VIBs takes the privilege Host.Config.Image.
    """
    packages = case.need("software")
    vibs = [p for p in packages if VIB_NAME.match(str(p.get("name", "")))]
    if not vibs:
        seen = ("software", f"NVIDIA vGPU manager VIB not installed ({len(packages)} VIBs checked)")
        help = "install the NVIDIA host driver VIB in maintenance mode and restart the host"
        yield case.failed("the NVIDIA vGPU manager is not installed", seen, help=help)
    if len(vibs) > 1:
        names = ", ".join(str(v["name"]) for v in vibs)
        yield case.warned("more than one NVIDIA host driver", ("software", names), help="remove all but one")
    for vib in vibs:
        yield _of(case, vib)


def _of(case: RuleCase, vib: Mapping[str, object]) -> Finding:
    seen = (f"software[{vib['name']}].version", vib.get("version", ""))
    driver = host_driver(vib)
    if driver is None:
        return case.unknown(f"{vib['name']}: version {vib.get('version')!r} is not understood", seen)
    words = f"{LINES[driver.line]} driver {driver.driver}"
    old = [b.title for b in _boards(case) if b.min_driver and b.min_driver > driver.branch]
    if old:
        return case.failed(f"{words} is too old for {', '.join(old)}", seen, help="install a later vGPU manager")
    reasons = list(_reasons(case, driver))
    return case.warned(f"{words}: {'; '.join(reasons)}", seen) if reasons else case.passed(words, seen)


def host_driver(vib: Mapping[str, object]) -> HostDriver | None:
    """Read name and version of a VIB; None when it is no NVIDIA host driver or its version is not understood."""
    name, version = str(vib.get("name", "")), str(vib.get("version", ""))
    named, numbered = VIB_NAME.match(name), VIB_VERSION.match(version)
    if not named or not numbered:
        return None
    parts = numbered.group("major", "minor", "update")
    built_for = None if parts[0] is None else (int(parts[0]), int(parts[1]), int(parts[2]))
    return HostDriver(name, version, named["line"], numbered["driver"], built_for)


def branch(facts: Facts) -> int | None:
    """Return the driver branch of a host, e.g. 535: as nvidia-smi shows it, else as its package (VIB) is called.

    None when neither was read, or when there are several.
    """
    found = {g.driver_major for g in readable(facts).gpus if g.driver_major is not None}
    if not found:
        found = {driver.branch for vib in facts.get("software") or () if (driver := host_driver(vib))}
    return found.pop() if len(found) == 1 else None


def _reasons(case: RuleCase, driver: HostDriver) -> Iterator[str]:
    compute = [b.title for b in _boards(case) if b.mig_capable and not any("+gfx" in p for p in b.profile_names)]
    if driver.line == "VMware" and driver.branch >= COMPUTE_ONLY_SINCE and compute:
        yield f"{', '.join(compute)} is served by the NVIDIA AI Enterprise driver only"
    host = host_version(case.view.estate, case.ref)
    if driver.built_for and host and driver.built_for[0] != host[0][0]:
        yield f"built for ESXi {driver.built_for[0]}.{driver.built_for[1]}, the host runs {host[1]}"


def _boards(case: RuleCase) -> tuple[Board, ...]:
    """Return the distinct boards of the host; none when its devices are not shown, which gpu.model reports."""
    devices = case.facts.get("hardware.pciDevice") or ()
    return tuple(dict.fromkeys(g.board for g in found_gpus(devices) if g.board))
