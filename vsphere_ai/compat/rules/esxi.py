"""Rules about an ESXi host's release and its state: version, connection, maintenance, pending restart, SSH."""

from __future__ import annotations

from vsphere_ai.compat.base import RuleCase, host_rule
from vsphere_ai.model.estate.host_version import PRODUCT
from vsphere_ai.model.estate.maintenance import PARTIAL, QUICK_PATCH, partial_modes
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.names.versions import MINIMUM, build_name, dotted, is_withdrawn, numbers
from vsphere_ai.resources.topics import Topic

SSH = "TSM-SSH"


@host_rule(
    "esxi.version",
    "ESXi 7.0 Update 2 or later",
    source="Broadcom KB 316595, Build numbers and versions of VMware ESXi/ESX",
    verdicts={
        "pass": "7.0.2 or later, also with an unlisted build",
        "warn": "a build VMware has withdrawn",
        "fail": "earlier than 7.0.2",
        "unknown": "the version is not a dotted number",
    },
    reads=PRODUCT,
    blocks_unknown=True,
)
def esxi_version(case: RuleCase) -> Finding:
    """A host has to run ESXi 7.0 Update 2 or later.

    Only the version decides: build numbers do not grow with versions. The build names the patch level; a build the
    table does not list is no fault.
    """
    path, product = case.read(*PRODUCT)
    text, build = str(product.get("version", "")), str(product.get("build", ""))
    seen = ((f"{path}.version", text), (f"{path}.build", build))
    version = numbers(text)
    if version is None:
        return case.unknown(f"the host states {text!r} as its version", *seen)
    name = build_name(version, build)
    words = f"ESXi {name} ({text} build {build})" if name else f"ESXi {text} (unlisted build {build})"
    if version < MINIMUM:
        help = "upgrade the host to ESXi 7.0 U2 or later"
        return case.failed(f"{words} is older than {dotted(MINIMUM)}", *seen, help=help)
    if is_withdrawn(version, build):
        return case.warned(f"{words} was withdrawn by VMware", *seen, help="update to 7.0 U3c or later")
    return case.passed(words, *seen)


@host_rule(
    "host.connected",
    "Host connected",
    source="vSphere Web Services API reference, HostRuntimeInfo.connectionState",
    verdicts={"pass": "`connected`", "fail": "`disconnected` or `notResponding`"},
    reads=("runtime.connectionState",),
    blocks_unknown=True,
)
def host_connected(case: RuleCase) -> Finding:
    """The host has to be reached by vCenter: what it shows of a disconnected host is old or missing."""
    seen = case.read("runtime.connectionState")
    if seen.value == "connected":
        return case.passed("connected", seen)
    return case.failed(
        f"vCenter reports this host as {seen.value}", seen, help="bring the host back, or leave it out with --limit"
    )


@host_rule(
    "host.maintenance",
    "Host not in maintenance mode",
    source="vCenter Server and Host Management, Maintenance mode",
    verdicts={"pass": "not in maintenance mode", "warn": "in maintenance mode already"},
    reads=("runtime.inMaintenanceMode",),
)
def host_maintenance(case: RuleCase) -> Finding:
    """A host in maintenance mode can be configured, runs no VM, and is left in maintenance mode."""
    seen = case.read("runtime.inMaintenanceMode")
    if seen.value:
        return case.warned("in maintenance mode already: it stays so, and no VM can be powered on here", seen)
    return case.passed("not in maintenance mode", seen)


@host_rule(
    "host.partial-maintenance",
    "Host not in a partial maintenance mode",
    source="vSphere Web Services API reference, HostPartialMaintenanceModeId",
    verdicts={
        "pass": "in none; hosts before 8.0 U3 have none",
        "warn": "in one, such as while it is patched alive",
        "fail": "patched alive (`quickPatchPartialMM`), and this plan restarts the host",
    },
    reads=("runtime.connectionState", PARTIAL),
)
def host_partial_maintenance(case: RuleCase) -> Finding:
    """A host that is patched alive must not restart, and no VM powers on or arrives there until it is done."""
    state, modes = case.read("runtime.connectionState"), partial_modes(case.facts)
    if not modes:
        return case.passed("in no partial maintenance mode", state)
    seen = (PARTIAL, ", ".join(modes))
    help = "wait for the end of the remediation in vCenter"
    if QUICK_PATCH in modes and case.ref in case.view.rebooting:
        return case.failed("it is being patched alive, and a restart is unsafe until that is done", seen, help=help)
    return case.warned(f"in a partial maintenance mode: {seen[1]}", seen, help=help)


@host_rule(
    "host.reboot-pending",
    "No restart pending",
    source="vSphere Web Services API reference, HostListSummary.rebootRequired",
    verdicts={"pass": "none pending, or this plan restarts the host", "warn": "an earlier change waits for a restart"},
    reads=("summary.rebootRequired",),
    about=Topic.SHARED_GPUS,
)
def host_reboot_pending(case: RuleCase) -> Finding:
    """A restart that is pending takes effect together with the one of this plan."""
    seen = case.read("summary.rebootRequired")
    if not seen.value:
        return case.passed("no restart pending", seen)
    if case.ref in case.view.rebooting:
        return case.passed("a restart is pending; this plan restarts the host", seen, ("plan.reboot", True))
    return case.warned("an earlier change waits for a restart of this host", seen, help="restart the host")


@host_rule(
    "host.lockdown",
    "Lockdown mode off",
    source="vSphere Security, Lockdown mode",
    verdicts={"pass": "`lockdownDisabled`", "warn": "`lockdownNormal` or `lockdownStrict`"},
    reads=("config.lockdownMode",),
    about=Topic.MIG,
)
def host_lockdown(case: RuleCase) -> Finding:
    """MIG is set with `nvidia-smi` over SSH, which lockdown mode refuses to all but its exception users.

    Whether the SSH user is one of them, `plan` asks (`ssh.lockdown`). The kind `lockdown` sets the mode.
    """
    seen = case.read("config.lockdownMode")
    if seen.value == "lockdownDisabled":
        return case.passed("lockdown mode is off", seen)
    return case.warned(
        f"{seen.value}: only exception users can log in over SSH, and MIG can only be set over SSH",
        seen,
        help="make the SSH user an exception user, or turn lockdown mode off for the time of the change "
        "(Host > Configure > Security Profile)",
    )


@host_rule(
    "host.ssh-service",
    "SSH service present",
    source="vSphere Security, ESXi Shell and SSH",
    verdicts={"pass": "the service exists, running or stopped", "fail": "the host has no such service"},
    reads=("config.service.service",),
    about=Topic.MIG,
)
def host_ssh_service(case: RuleCase) -> Finding:
    """The host needs the service `TSM-SSH`; when it is stopped it is started for as long as it is needed."""
    services = {str(s.get("key")): s for s in case.need("config.service.service")}
    if SSH not in services:
        seen = ("config.service.service", ", ".join(sorted(services)) or "none")
        help = "MIG mode is set with nvidia-smi over SSH; repair the ESXi installation"
        return case.failed(f"this host has no service {SSH}", seen, help=help)
    running = bool(services[SSH].get("running"))
    words = "SSH is running" if running else "SSH is stopped; it is started when needed and stopped again"
    return case.passed(words, (f"config.service.service[{SSH}].running", running))
