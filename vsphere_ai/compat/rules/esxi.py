"""Rules about an ESXi host's release and its state: version, connection, maintenance, pending restart, SSH."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from vsphere_ai.compat.base import Case, Meanings, Paths, Rule
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.host_version import PRODUCT
from vsphere_ai.model.versions import MINIMUM, build_name, dotted, is_withdrawn, numbers

SSH = "TSM-SSH"


class EsxiVersion(Rule):
    """A host has to run ESXi 7.0 Update 2 or later.

    Only the version decides: build numbers do not grow with versions. The build names the patch level; a build the
    table does not list is no fault.
    """

    id = "esxi.version"
    title = "ESXi 7.0 Update 2 or later"
    target = "host"
    source = "Broadcom KB 316595, Build numbers and versions of VMware ESXi/ESX"
    verdicts: ClassVar[Meanings] = {
        "pass": "7.0.2 or later, also with an unlisted build",
        "warn": "a build VMware has withdrawn",
        "fail": "earlier than 7.0.2",
        "unknown": "the version is not a dotted number",
    }
    properties: ClassVar[Paths] = {"HostSystem": PRODUCT}
    blocks_unknown = True

    def judge(self, case: Case) -> Iterator[Finding]:
        """Compare the product version; name the build."""
        path, product = case.read(*PRODUCT)
        text, build = str(product.get("version", "")), str(product.get("build", ""))
        seen = ((f"{path}.version", text), (f"{path}.build", build))
        version = numbers(text)
        if version is None:
            yield case.unknown(f"the host states {text!r} as its version", *seen)
            return
        name = build_name(version, build)
        words = f"ESXi {name} ({text} build {build})" if name else f"ESXi {text}, unlisted build {build} of {text}"
        if version < MINIMUM:
            yield case.failed(
                f"{words} is older than {dotted(MINIMUM)}", *seen, help="upgrade the host to ESXi 7.0 U2 or later"
            )
        elif is_withdrawn(version, build):
            yield case.warned(f"{words} was withdrawn by VMware", *seen, help="update to 7.0 U3c or later")
        else:
            yield case.passed(words, *seen)


class HostConnected(Rule):
    """vCenter has to reach the host: what it shows of a disconnected host is old or missing."""

    id = "host.connected"
    title = "Host connected"
    target = "host"
    source = "vSphere Web Services API reference, HostRuntimeInfo.connectionState"
    verdicts: ClassVar[Meanings] = {"pass": "`connected`", "fail": "`disconnected` or `notResponding`"}
    properties: ClassVar[Paths] = {"HostSystem": ("runtime.connectionState",)}
    blocks_unknown = True

    def judge(self, case: Case) -> Iterator[Finding]:
        """Look at the connection state."""
        state = case.need("runtime.connectionState")
        seen = ("runtime.connectionState", state)
        if state == "connected":
            yield case.passed("connected", seen)
        else:
            yield case.failed(
                f"vCenter reports this host as {state}", seen, help="bring the host back, or leave it out with --limit"
            )


class HostMaintenance(Rule):
    """A host in maintenance mode can be configured, runs no VM, and is left in maintenance mode."""

    id = "host.maintenance"
    title = "Host not in maintenance mode"
    target = "host"
    source = "vCenter Server and Host Management, Maintenance mode"
    verdicts: ClassVar[Meanings] = {"pass": "not in maintenance mode", "warn": "in maintenance mode already"}
    properties: ClassVar[Paths] = {"HostSystem": ("runtime.inMaintenanceMode",)}

    def judge(self, case: Case) -> Iterator[Finding]:
        """Look at the maintenance flag."""
        on = case.need("runtime.inMaintenanceMode")
        seen = ("runtime.inMaintenanceMode", on)
        if on:
            yield case.warned("in maintenance mode already: it stays so, and no VM can be powered on here", seen)
        else:
            yield case.passed("not in maintenance mode", seen)


class HostRebootPending(Rule):
    """A restart that is pending takes effect together with the one of this plan."""

    id = "host.reboot-pending"
    title = "No restart pending"
    target = "host"
    source = "vSphere Web Services API reference, HostListSummary.rebootRequired"
    verdicts: ClassVar[Meanings] = {
        "pass": "none pending, or this plan restarts the host",
        "warn": "an earlier change waits for a restart",
    }
    properties: ClassVar[Paths] = {"HostSystem": ("summary.rebootRequired",)}
    needed_by = frozenset({"graphics", "mig", "vgpu"})

    def judge(self, case: Case) -> Iterator[Finding]:
        """Look at the flag, and at what this plan does."""
        pending = case.need("summary.rebootRequired")
        seen = ("summary.rebootRequired", pending)
        if not pending:
            yield case.passed("no restart pending", seen)
        elif case.ref in case.view.rebooting:
            yield case.passed("a restart is pending; this plan restarts the host", seen, ("plan.reboot", True))
        else:
            yield case.warned("an earlier change waits for a restart of this host", seen, help="restart the host")


class HostLockdown(Rule):
    """MIG is set with `nvidia-smi` over SSH, which lockdown mode refuses to all but its exception users.

    Whether the SSH user is one of them, `plan` asks (`ssh.lockdown`). The mode is never changed by this tool.
    """

    id = "host.lockdown"
    title = "Lockdown mode off"
    target = "host"
    source = "vSphere Security, Lockdown mode"
    verdicts: ClassVar[Meanings] = {"pass": "`lockdownDisabled`", "warn": "`lockdownNormal` or `lockdownStrict`"}
    properties: ClassVar[Paths] = {"HostSystem": ("config.lockdownMode",)}
    needed_by = frozenset({"mig"})

    def judge(self, case: Case) -> Iterator[Finding]:
        """Look at the lockdown mode."""
        mode = case.need("config.lockdownMode")
        seen = ("config.lockdownMode", mode)
        if mode == "lockdownDisabled":
            yield case.passed("lockdown mode is off", seen)
        else:
            yield case.warned(
                f"{mode}: only exception users can log in over SSH, and MIG can only be set over SSH", seen,
                help="make the SSH user an exception user, or turn lockdown mode off for the time of the change "
                "(Host > Configure > Security Profile)",
            )  # fmt: skip


class HostSshService(Rule):
    """The host needs the service `TSM-SSH`; when it is stopped it is started for as long as it is needed."""

    id = "host.ssh-service"
    title = "SSH service present"
    target = "host"
    source = "vSphere Security, ESXi Shell and SSH"
    verdicts: ClassVar[Meanings] = {
        "pass": "the service exists, running or stopped",
        "fail": "the host has no such service",
    }
    properties: ClassVar[Paths] = {"HostSystem": ("config.service.service",)}
    needed_by = frozenset({"mig"})

    def judge(self, case: Case) -> Iterator[Finding]:
        """Look for the service in the host's list."""
        services = case.need("config.service.service")
        ssh = next((s for s in services if s.get("key") == SSH), None)
        if ssh is None:
            keys = ", ".join(sorted(str(s.get("key")) for s in services))
            yield case.failed(
                f"this host has no service {SSH}", ("config.service.service", keys or "none"),
                help="MIG mode is set with nvidia-smi over SSH; repair the ESXi installation",
            )  # fmt: skip
            return
        running = bool(ssh.get("running"))
        words = "SSH is running" if running else "SSH is stopped; it is started when needed and stopped again"
        yield case.passed(words, (f"config.service.service[{SSH}].running", running))
