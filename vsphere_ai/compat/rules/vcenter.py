"""Rules about the vCenter itself: its version, the API spoken with it, and that it is one."""

from __future__ import annotations

from vsphere_ai.compat.base import RuleCase, vcenter_rule
from vsphere_ai.model.estate.host_version import PRODUCT, host_version
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.names.versions import MINIMUM, dotted, numbers

MINIMUM_API = (7, 0, 2, 0)
UPDATE = "update vCenter Server; it is updated before its hosts"


@vcenter_rule(
    "vcenter.version",
    "vCenter Server 7.0 Update 2 or later",
    source="VMware vCenter Server 7.0 Update 2 Release Notes",
    verdicts={"pass": "7.0.2 or later", "fail": "earlier", "unknown": "the version is not a dotted number"},
    blocks_unknown=True,
)
def vcenter_version(case: RuleCase) -> Finding:
    """The vCenter Server has to be 7.0 Update 2 or later. Versions are compared as numbers, never as text."""
    about = case.view.estate.about
    seen, version = ("about.version", about.version), numbers(about.version)
    if version is None:
        return case.unknown(f"vCenter states {about.version!r} as its version", seen)
    if version >= MINIMUM:
        return case.passed(f"vCenter Server {about.version} build {about.build}", seen, ("about.build", about.build))
    return case.failed(f"vCenter Server {about.version} is older than {dotted(MINIMUM)}", seen, help=UPDATE)


@vcenter_rule(
    "vcenter.api",
    "vSphere API 7.0.2.0 or later negotiated",
    source="vSphere Web Services API reference, AboutInfo.apiVersion",
    verdicts={"pass": "7.0.2.0 or later", "fail": "earlier", "unknown": "the API version is not a dotted number"},
    blocks_unknown=True,
)
def vcenter_api(case: RuleCase) -> Finding:
    """The session has to speak API 7.0.2.0 or later. An older one silently leaves out fields it does not know."""
    api = case.view.estate.about.api
    seen, version = ("about.api", api), numbers(api)
    if version is None:
        return case.unknown(f"the session negotiated {api!r}", seen)
    if version >= MINIMUM_API:
        return case.passed(f"vSphere API {api}", seen)
    return case.failed(f"vSphere API {api} is older than {dotted(MINIMUM_API)}", seen, help=UPDATE)


@vcenter_rule(
    "vcenter.type",
    "The server is a vCenter",
    source="vSphere Web Services API reference, AboutInfo.apiType",
    verdicts={"pass": "`VirtualCenter`", "warn": "`HostAgent`: an ESXi host", "unknown": "any other type"},
)
def vcenter_type(case: RuleCase) -> Finding:
    """The server should be a vCenter.

    An ESXi host answers the same protocol, but has no clusters, no distributed switches and no DRS, and cannot watch
    its own reboot.
    """
    about = case.view.estate.about
    seen = ("about.apiType", about.api_type)
    if about.api_type == "VirtualCenter":
        return case.passed(f"{about.name} is a vCenter Server", seen)
    if about.api_type == "HostAgent":
        lacks = "no clusters, no distributed port groups (so no PVRDMA), no DRS, and no vCenter while it reboots"
        help = "give the address of the vCenter that manages the host"
        return case.warned(f"{about.name} is an ESXi host: {lacks}", seen, help=help)
    return case.unknown(f"{about.name} calls itself {about.api_type!r}", seen)


@vcenter_rule(
    "vcenter.newest",
    "vCenter Server at least as new as its hosts",
    source="VMware Product Interoperability Matrix; Broadcom KB 316595 (ESXi versions and builds)",
    verdicts={
        "pass": "no host is newer",
        "fail": "a host has a later version or update than the vCenter",
        "unknown": "there is no host, or the version of one cannot be read and no other is newer",
    },
    also_reads={"HostSystem": PRODUCT},
)
def vcenter_newest(case: RuleCase) -> Finding:
    """A vCenter manages hosts of its own version and earlier ones. Compared are version and update, not builds."""
    about = case.view.estate.about
    seen, own = ("about.version", about.version), numbers(about.version)
    if own is None:
        return case.unknown(f"vCenter states {about.version!r} as its version", seen)
    stated = [(host.name, host_version(case.view.estate, host.ref)) for host in case.view.estate.hosts]
    known = [(name, version[0][:3], version[1]) for name, version in stated if version]
    newer = {name: text for name, version, text in known if version > own[:3]}
    hidden = [name for name, version in stated if version is None]
    if newer:
        late = ((f"{name}: config.product.version", text) for name, text in newer.items())
        return case.failed(f"newer than vCenter Server {about.version}: {', '.join(newer)}", seen, *late, help=UPDATE)
    if hidden or not known:
        return case.unknown(f"host versions not known: {', '.join(hidden) or 'no host was read'}", seen)
    newest = ("newest config.product.version", dotted(max(version for _, version, _ in known)))
    return case.passed(f"no host is newer than {about.version}", seen, newest)
