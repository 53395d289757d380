"""Rules of security: hosts, accounts, networks and logs of an environment that others train on."""

from __future__ import annotations

from collections.abc import Mapping

from vsphere_ai.compat.pillars.base import PillarCase, farm_rule, group_rule, host_rule, vm_rule
from vsphere_ai.model.estate.host_corrections import LockedDown, LogHosts, ServiceStopped, TimeServers
from vsphere_ai.model.estate.vm_corrections import SetOfVms
from vsphere_ai.model.finding import Finding
from vsphere_ai.resources.corrections import text_of

GUIDE = "VMware vSphere Security Configuration Guide 7"
SERVICES: Mapping[str, tuple[str, ...]] = {"HostSystem": ("config.service.service",)}
LOG_HOST = "Syslog.global.logHost"
MAX_AGE, MAX_AGE_ON = "event.maxAge", "event.maxAgeEnabled"
OPTIONS = (MAX_AGE, MAX_AGE_ON)
"""Settings of vCenter that rules look at."""
FEWEST_DAYS = 30
NEVER_USED = (
    "Authorization.ModifyPermissions",
    "Authorization.ModifyRoles",
    "Global.Licenses",
    "Host.Config.Storage",
    "Sessions.TerminateSession",
)
"""Privileges of administrators that no playbook takes: an account that has all that the tool needs lacks them."""


def _service(case: PillarCase, key: str) -> Mapping[str, object] | None:
    return next((s for s in case.need("config.service.service") if s.get("key") == key), None)


@host_rule(
    "security.ssh-off",
    "SSH service off",
    source=f"{GUIDE}, esxi-7.deactivate-ssh",
    verdicts={"pass": "stopped", "warn": "running, or started with the host"},
    reads=SERVICES,
)
def ssh_off(case: PillarCase) -> Finding | None:
    """The SSH service of a host is stopped. A run that needs it starts it, and stops it again."""
    service = _service(case, "TSM-SSH")
    if service is None:
        return None
    seen = ("TSM-SSH", f"{'running' if service.get('running') else 'stopped'}, policy {service.get('policy')}")
    if service.get("running"):
        return case.warned("the SSH service runs", seen, fix=ServiceStopped(case.target, "TSM-SSH"))
    if service.get("policy") == "on":
        return case.warned("the SSH service starts with the host", seen, fix=ServiceStopped(case.target, "TSM-SSH"))
    return case.passed("the SSH service is stopped", seen)


@host_rule(
    "security.shell-off",
    "ESXi Shell off",
    source=f"{GUIDE}, esxi-7.deactivate-shell",
    verdicts={"pass": "stopped", "warn": "running"},
    reads=SERVICES,
)
def shell_off(case: PillarCase) -> Finding | None:
    """The ESXi Shell of a host is stopped."""
    service = _service(case, "TSM")
    if service is None:
        return None
    seen = ("TSM", "running" if service.get("running") else "stopped")
    if service.get("running"):
        return case.warned("the ESXi Shell runs", seen, fix=ServiceStopped(case.target, "TSM"))
    return case.passed("the ESXi Shell is stopped", seen)


@host_rule(
    "security.lockdown",
    "Lockdown mode",
    source=f"{GUIDE}, esxi-7.lockdown-mode",
    verdicts={"pass": "normal or strict", "warn": "off"},
    reads={"HostSystem": ("config.lockdownMode",)},
)
def lockdown(case: PillarCase) -> Finding | None:
    """Lockdown mode keeps logins to the host itself away. The tool's SSH account has to be an exception user then."""
    mode = case.need("config.lockdownMode")
    seen = ("config.lockdownMode", mode)
    if mode == "lockdownDisabled":
        return case.warned("lockdown mode is off", seen, fix=LockedDown(case.target))
    return case.passed(f"lockdown mode is on ({mode})", seen)


@host_rule(
    "security.syslog",
    "Logs on another machine",
    source=f"{GUIDE}, esxi-7.remote-syslog",
    verdicts={"pass": "a log host is set", "fail": "none is set"},
    reads={"HostSystem": (f"option:{LOG_HOST}",)},
)
def syslog(case: PillarCase) -> Finding | None:
    """The host sends its logs to another machine: they are what remains of a host that is lost."""
    planned = case.planned(f"option:{LOG_HOST}")
    if planned and planned.value:
        return case.passed("this plan sets log hosts", planned.evidence)
    if target := str(case.need(f"option:{LOG_HOST}")):
        return case.passed(f"logs go to {target}", (LOG_HOST, target))
    return case.failed("logs stay on the host", (LOG_HOST, "not set"), fix=LogHosts(case.target))


@host_rule(
    "security.time",
    "Clock from time servers",
    source=f"{GUIDE}, esxi-7.timekeeping-sources",
    verdicts={"pass": "servers are set, and ntpd runs", "fail": "no server, or ntpd is stopped"},
    reads={"HostSystem": ("config.dateTimeInfo.ntpConfig", "config.service.service")},
)
def time(case: PillarCase) -> Finding | None:
    """The clock of a host follows time servers: certificates, logs and training logs are compared by it."""
    planned = case.planned("config.dateTimeInfo.ntpConfig")
    if planned and planned.value:
        return case.passed("this plan sets time servers", planned.evidence)
    servers = case.need("config.dateTimeInfo.ntpConfig").get("server") or ()
    running = bool((_service(case, "ntpd") or {}).get("running"))
    seen = ("config.dateTimeInfo.ntpConfig.server", ", ".join(servers) or "none"), ("ntpd", running)
    if servers and running:
        return case.passed(f"{len(servers)} time servers, and ntpd runs", *seen)
    message = "ntpd is stopped" if servers else "no time server is set"
    return case.failed(message, *seen, fix=TimeServers(case.target, has_servers=bool(servers)))


@farm_rule(
    "security.ssh-login",
    "Keys instead of passwords",
    source="OpenSSH manual, ssh-keygen(1) and sshd_config(5), PubkeyAuthentication",
    verdicts={"pass": "a key, or no SSH login", "warn": "a password"},
    by_hand="it is a setting of the inventory",
)
def ssh_login(case: PillarCase) -> Finding | None:
    """The inventory logs in to hosts with a key. Host keys are always compared with those that were trusted."""
    way = case.records.ssh_login
    if way is None:
        return case.unknown("no inventory was read")
    if way == "password":
        return case.warned("hosts are logged in to with a password", ("ssh", way), remedy="ssh: {key_file: KEY}")
    return case.passed("no password is used for SSH", ("ssh", way))


@farm_rule(
    "security.account",
    "Account without administrator's privileges",
    source="vSphere Security 7.0, Best Practices for Roles and Permissions",
    verdicts={
        "pass": "none of the privileges that no run takes",
        "fail": "some of them",
        "unknown": "vCenter does not answer the question",
    },
    by_hand="roles and permissions are not changed by this tool",
)
def account(case: PillarCase) -> Finding | None:
    """The account of the inventory has no privileges of administrators that no playbook takes."""
    surplus = case.records.surplus
    if surplus is None:
        return case.unknown("vCenter did not say which privileges the account has")
    if surplus:
        remedy = "give it the role of docs/security.md instead: vsphere-ai doctor --permissions PLAYBOOK"
        return case.failed(f"the account also has {', '.join(surplus)}", ("privileges", len(surplus)), remedy=remedy)
    return case.passed("the account has no privileges of administrators", ("privileges", 0))


@farm_rule(
    "security.events-kept",
    "Events kept",
    source="vCenter Server and Host Management 7.0, Configure Database Settings",
    verdicts={
        "pass": f"for {FEWEST_DAYS} days or more",
        "warn": "for fewer days",
        "unknown": "the setting cannot be read",
    },
    by_hand="settings of vCenter are not changed by this tool",
)
def events_kept(case: PillarCase) -> Finding | None:
    """Events of vCenter are kept for at least 30 days: who changed what is asked weeks later."""
    days, on = case.records.options.get(MAX_AGE), case.records.options.get(MAX_AGE_ON, "true")
    if on.lower() == "false":
        return case.passed("events are kept without a limit", (MAX_AGE_ON, on))
    if days is None or not days.isdecimal():
        return case.unknown(f"{MAX_AGE} cannot be read")
    if int(days) < FEWEST_DAYS:
        return case.warned(
            f"events are kept for {days} days", (MAX_AGE, days), remedy=f"set {MAX_AGE} to {FEWEST_DAYS}"
        )
    return case.passed(f"events are kept for {days} days", (MAX_AGE, days))


@group_rule(
    "security.port-group-policy",
    "Security policy of port groups",
    source=f"{GUIDE}, vcenter-7.network-reject-forged-transmit-dvportgroup, -mac-changes-, -promiscuous-mode-",
    verdicts={
        "pass": "promiscuous mode, MAC address changes and forged transmits are rejected",
        "warn": "MAC address changes or forged transmits are accepted",
        "fail": "promiscuous mode is accepted",
    },
    reads={"DistributedVirtualPortgroup": ("config.defaultPortConfig",)},
    by_hand="whether macvlan pods run on its VMs is not known here",
)
def port_group_policy(case: PillarCase) -> Finding | None:
    """Port groups of training VMs reject what a VM has no need of. Pods with MAC addresses of their own need two."""
    policy = (case.need("config.defaultPortConfig").get("securityPolicy")) or {}
    names = {"allowPromiscuous": "promiscuous mode", "macChanges": "MAC changes", "forgedTransmits": "forged transmits"}
    on = [name for name in names if (policy.get(name) or {}).get("value")]
    seen = ("defaultPortConfig.securityPolicy", ", ".join(on) or "all rejected")
    if not on:
        return case.passed("promiscuous mode, MAC changes and forged transmits are rejected", seen)
    message = f"{' and '.join(names[n] for n in on)} accepted"
    remedy = "reject them in the port group's security policy, where no macvlan pods run on its VMs"
    worst = case.failed if "allowPromiscuous" in on else case.warned
    return worst(message, seen, remedy=remedy)


@vm_rule(
    "security.pool-limits",
    "Share of a tenant",
    source="vSphere Resource Management 7.0, Managing Resource Pools; Azure Well-Architected Framework, quotas",
    verdicts={
        "pass": "the VM is in a resource pool with a limit or a reservation, or its cluster has VMs of one set only",
        "warn": "several sets share a cluster, and nothing limits what one takes",
        "fail": "the limit of the pool is smaller than the memory of the VM",
    },
    reads={
        "VirtualMachine": ("resourcePool", "config.hardware.memoryMB"),
        "ResourcePool": ("name", "parent", "owner", "config"),
    },
    by_hand="the pool is chosen by the play that makes the set, and its limits by its owner",
)
def pool_limits(case: PillarCase) -> Finding | None:
    """Where several sets of VMs share a cluster, each is in a resource pool with a limit or a reservation."""
    ref = case.need("resourcePool")
    config, name = case.need("config", ref), str(case.need("name", ref))
    memory = config.get("memoryAllocation") or {}
    limit, held = int(memory.get("limit") or -1), int(memory.get("reservation") or 0)
    root = str(case.need("parent", ref)).startswith(("ClusterComputeResource:", "ComputeResource:"))
    seen = (
        ("resourcePool", name),
        ("config.memoryAllocation.limit", limit),
        ("config.memoryAllocation.reservation", held),
    )
    if 0 <= limit < int(case.need("config.hardware.memoryMB")):
        return case.failed(f"the pool {name} has a limit of {limit} MB of memory", *seen, remedy="raise the limit")
    if not root and (limit >= 0 or held):
        return case.passed(f"in the pool {name}, with a share of its own", *seen)
    owner = case.facts_of(ref).get("owner")
    sets = {s for s, vms in case.farm.sets.items() if any(case.pool_owner(vm.ref) == owner for vm in vms)}
    if len(sets) < 2:
        return case.passed("no other set is in the cluster", *seen)
    remedy = text_of(SetOfVms(case.target, pool="POOL_WITH_A_LIMIT"))
    return case.warned(f"{len(sets)} sets share the pool {name}, and none has a limit", *seen, remedy=remedy)


@vm_rule(
    "security.tools",
    "VMware Tools current",
    source="vSphere Web Services API reference, GuestInfo.toolsVersionStatus2",
    verdicts={"pass": "current", "warn": "not running or too old", "unknown": "the VM is off"},
    uses=("vm.tools",),
    by_hand="VMware Tools are installed in the guest",
)
def tools(case: PillarCase) -> Finding | None:
    """VMware Tools run in a training VM, and are not too old."""
    return case.reported()


@host_rule(
    "security.esxi-version",
    "Supported ESXi",
    source="VMware ESXi 7.0 Update 2 Release Notes; Broadcom product lifecycle",
    verdicts={"pass": "7.0 U2 or later", "fail": "earlier"},
    uses=("esxi.version",),
    by_hand="installing ESXi is the task of vSphere Lifecycle Manager",
)
def esxi_version(case: PillarCase) -> Finding | None:
    """The host runs a release that this tool, and the NVIDIA host driver, are made for."""
    return case.reported()
