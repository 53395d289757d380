"""Rules about the vCenter itself: its version, the API spoken with it, and that it is one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from vsphere_ai.compat.base import Case, Evidence, Meanings, Paths, Rule
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.host_version import PRODUCT, host_version
from vsphere_ai.model.versions import MINIMUM, dotted, numbers

MINIMUM_API = (7, 0, 2, 0)
UPDATE = "update vCenter Server; it is updated before its hosts"


class VcenterVersion(Rule):
    """vCenter Server has to be 7.0 Update 2 or later. Versions are compared as numbers, never as text."""

    id = "vcenter.version"
    title = "vCenter Server 7.0 Update 2 or later"
    target = "vcenter"
    source = "VMware vCenter Server 7.0 Update 2 Release Notes"
    verdicts: ClassVar[Meanings] = {
        "pass": "7.0.2 or later",
        "fail": "earlier",
        "unknown": "the version is not a dotted number",
    }
    blocks_unknown = True

    def judge(self, case: Case) -> Iterator[Finding]:
        """Compare the version the service instance states."""
        about = case.view.estate.about
        seen = ("about.version", about.version)
        version = numbers(about.version)
        if version is None:
            yield case.unknown(f"vCenter states {about.version!r} as its version", seen)
        elif version >= MINIMUM:
            yield case.passed(f"vCenter Server {about.version} build {about.build}", seen, ("about.build", about.build))
        else:
            yield case.failed(f"vCenter Server {about.version} is older than {dotted(MINIMUM)}", seen, help=UPDATE)


class VcenterApi(Rule):
    """The session has to speak API 7.0.2.0 or later. An older one silently leaves out fields it does not know."""

    id = "vcenter.api"
    title = "vSphere API 7.0.2.0 or later negotiated"
    target = "vcenter"
    source = "vSphere Web Services API reference, AboutInfo.apiVersion"
    verdicts: ClassVar[Meanings] = {
        "pass": "7.0.2.0 or later",
        "fail": "earlier",
        "unknown": "the API version is not a dotted number",
    }
    blocks_unknown = True

    def judge(self, case: Case) -> Iterator[Finding]:
        """Compare the version the session negotiated."""
        api = case.view.estate.about.api
        seen = ("about.api", api)
        version = numbers(api)
        if version is None:
            yield case.unknown(f"the session negotiated {api!r}", seen)
        elif version >= MINIMUM_API:
            yield case.passed(f"vSphere API {api}", seen)
        else:
            yield case.failed(f"vSphere API {api} is older than {dotted(MINIMUM_API)}", seen, help=UPDATE)


class VcenterType(Rule):
    """The server should be a vCenter.

    An ESXi host answers the same protocol, but has no clusters, no distributed switches and no DRS, and cannot watch
    its own reboot.
    """

    id = "vcenter.type"
    title = "The server is a vCenter"
    target = "vcenter"
    source = "vSphere Web Services API reference, AboutInfo.apiType"
    verdicts: ClassVar[Meanings] = {
        "pass": "`VirtualCenter`",
        "warn": "`HostAgent`: an ESXi host",
        "unknown": "any other type",
    }

    def judge(self, case: Case) -> Iterator[Finding]:
        """Look at the kind of server."""
        about = case.view.estate.about
        seen = ("about.apiType", about.api_type)
        if about.api_type == "VirtualCenter":
            yield case.passed(f"{about.name} is a vCenter Server", seen)
        elif about.api_type == "HostAgent":
            yield case.warned(
                f"{about.name} is an ESXi host: no clusters, no distributed port groups (so no PVRDMA), no DRS, and "
                "no vCenter while it reboots", seen, help="give the address of the vCenter that manages the host",
            )  # fmt: skip
        else:
            yield case.unknown(f"{about.name} calls itself {about.api_type!r}", seen)


class VcenterNewest(Rule):
    """A vCenter manages hosts of its own version and earlier ones. Compared are version and update, not builds."""

    id = "vcenter.newest"
    title = "vCenter Server at least as new as its hosts"
    target = "vcenter"
    source = "VMware Product Interoperability Matrix; Broadcom KB 316595 (ESXi versions and builds)"
    verdicts: ClassVar[Meanings] = {
        "pass": "no host is newer",
        "fail": "a host has a later version or update than the vCenter",
        "unknown": "there is no host, or the version of one cannot be read and no other is newer",
    }
    properties: ClassVar[Paths] = {"HostSystem": PRODUCT}

    def judge(self, case: Case) -> Iterator[Finding]:
        """Compare every host that was read."""
        about = case.view.estate.about
        own = numbers(about.version)
        if own is None:
            yield case.unknown(f"vCenter states {about.version!r} as its version", ("about.version", about.version))
            return
        seen: list[Evidence] = [("about.version", about.version)]
        newer, hidden, newest = [], [], own[:0]
        for host in case.view.estate.hosts:
            stated = host_version(case.view, host.ref)
            if stated is None:
                hidden.append(host.name)
                continue
            version, text = stated
            newest = max(newest, version[:3])
            if version[:3] > own[:3]:
                newer.append(host.name)
                seen.append((f"{host.name}: config.product.version", text))
        if newer:
            yield case.failed(f"newer than vCenter Server {about.version}: {', '.join(newer)}", *seen, help=UPDATE)
        elif hidden or not newest:
            yield case.unknown(f"host versions not known: {', '.join(hidden) or 'no host was read'}", *seen)
        else:
            seen.append(("newest config.product.version", dotted(newest)))
            yield case.passed(f"no host is newer than {about.version}", *seen)
