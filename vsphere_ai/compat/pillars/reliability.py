"""Rules of reliability: loss of a host, of a path or of a disk does not end training for long."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from vsphere_ai.compat.base import Unreadable
from vsphere_ai.compat.pillars.base import PillarCase, cluster_rule, host_rule, set_rule, vm_rule
from vsphere_ai.compat.rules.driver import host_driver
from vsphere_ai.fabric import dvs
from vsphere_ai.model.estate.vm_corrections import SetOfVms
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.text import counted
from vsphere_ai.model.vm_sets import member_of
from vsphere_ai.resources.corrections import text_of

CONFIG = "configurationEx"
CLUSTERS: Mapping[str, tuple[str, ...]] = {"ClusterComputeResource": (CONFIG,)}
OLDEST_SNAPSHOT = 7
"""Days after which a snapshot of a training VM is a failure; VMware KB 1025279 advises 72 hours at most."""


@cluster_rule(
    "reliability.spread",
    "Training VMs on several hosts",
    source="vSphere Resource Management 7.0, Using DRS Affinity Rules; Azure Well-Architected Framework, Reliability",
    verdicts={"pass": "on two hosts or more", "warn": "the cluster has one host", "fail": "all are on one host"},
    by_hand="the play that makes the set decides where its VMs run: `placement` of `vm_set`",
)
def spread(case: PillarCase) -> Finding | None:
    """The training VMs of a cluster run on two hosts or more, so that the loss of one host leaves some of them."""
    vms = case.farm.vms_in(case.ref)
    if len(vms) < 2:
        return None
    hosts = {h.name for v in vms if (h := case.farm.view.estate.host_of(v.ref))}
    seen = ("runtime.host", ", ".join(sorted(hosts)))
    if len(hosts) > 1:
        return case.passed(f"{len(vms)} training VMs are on {len(hosts)} hosts", seen)
    if len(case.farm.view.estate.hosts_in(case.ref)) == 1:
        return case.warned(f"{case.name} has one host", seen, remedy="add a host to the cluster")
    remedy = text_of(SetOfVms(vms[0], apart=True))
    return case.failed(f"all {len(vms)} training VMs are on {min(hosts)}", seen, remedy=remedy)


@set_rule(
    "reliability.anti-affinity",
    "DRS keeps the VMs of a set apart",
    source="vSphere Resource Management 7.0, VM-VM Affinity Rules",
    verdicts={"pass": "an enabled rule keeps them apart, or a playbook makes one", "warn": "no rule does"},
    reads=CLUSTERS,
    by_hand="the rule belongs to the play that makes the set: `placement` of `vm_set`",
)
def anti_affinity(case: PillarCase) -> Finding | None:
    """A rule of DRS keeps the VMs of a set on different hosts. Without one, DRS or a restart may put them together."""
    vms = case.farm.sets[case.name]
    if len(vms) < 2:
        return None
    if case.name in case.records.anti_affinity:
        return case.passed("the playbook keeps them apart", ("vm_set.placement", "anti_affinity"))
    refs = {v.ref for v in vms} | {f"VirtualMachine:{case.farm.view.estate[v.ref].get('moid')}" for v in vms}
    for cluster in case.farm.clusters:
        for rule in (case.need(CONFIG, cluster.ref).get("rule")) or ():
            apart = rule.get("_typeName") == "ClusterAntiAffinityRuleSpec" and rule.get("enabled")
            if apart and len(refs & set(rule.get("vm") or ())) >= len(vms):
                return case.passed(f"the rule {rule['name']} keeps them apart", ("configurationEx.rule", rule["name"]))
    remedy = text_of(SetOfVms(vms[0], apart=True))
    return case.warned(f"no rule keeps the {len(vms)} VMs apart", ("configurationEx.rule", "none"), remedy=remedy)


@cluster_rule(
    "reliability.spare-host",
    "GPUs for a restart elsewhere",
    source="vSphere Availability 7.0, Admission Control; NVIDIA Virtual GPU Software Documentation, vSphere HA",
    verdicts={
        "pass": "after the loss of any one host, all VMs with vGPUs find GPUs on hosts that take them",
        "warn": "after the loss of a host some do not",
        "unknown": "the GPUs or the VMs of the cluster were not read",
    },
    by_hand="it takes another host, or fewer VMs",
)
def spare_host(case: PillarCase) -> Finding | None:
    """VMs with vGPUs start elsewhere only where hosts that take them have GPUs with room: one host more than needed."""
    if not any(case.farm.view.estate[v.ref].get("config.hardware.device") for v in case.farm.vms_in(case.ref)):
        return None
    why = case.records.spare.get(case.ref)
    if why is None:
        return case.unknown("whether the VMs fit without one of the hosts was not worked out")
    if not why:
        return case.passed("all VMs with vGPUs fit without any one of the hosts", ("capacity.spare_hosts", "1"))
    remedy = "spare_hosts: 1 in the play refuses what takes the spare GPUs; add a host, or power off VMs"
    return case.warned(why, ("capacity.spare_hosts", "0"), remedy=remedy)


@cluster_rule(
    "reliability.ha",
    "vSphere HA on",
    source="vSphere Availability 7.0, Creating a vSphere HA Cluster",
    verdicts={"pass": "on", "warn": "off"},
    reads=CLUSTERS,
    by_hand="no resource type sets vSphere HA",
)
def high_availability(case: PillarCase) -> Finding | None:
    """The cluster has vSphere HA, which starts the VMs of a host that fails on other hosts."""
    if not case.farm.vms_in(case.ref):
        return None
    das = case.need(CONFIG).get("dasConfig") or {}
    seen = ("configurationEx.dasConfig.enabled", bool(das.get("enabled")))
    if das.get("enabled"):
        return case.passed("vSphere HA is on", seen)
    return case.warned("vSphere HA is off: a VM of a failed host stays off", seen, remedy="turn vSphere HA on")


@vm_rule(
    "reliability.restart-priority",
    "Restart by vSphere HA",
    source="vSphere Availability 7.0, VM Restart Priority",
    verdicts={"pass": "vSphere HA restarts the VM", "fail": "the VM's restart priority is `disabled`"},
    reads=CLUSTERS,
    by_hand="no resource type sets overrides of vSphere HA",
)
def restart_priority(case: PillarCase) -> Finding | None:
    """Where vSphere HA is on, it restarts a training VM: neither its own nor the cluster's priority is `disabled`."""
    host = case.farm.view.estate.host_of(case.ref)
    cluster = case.farm.view.estate.cluster_of(host.ref) if host else None
    config = (cluster.get(CONFIG) if cluster else None) or {}
    das = config.get("dasConfig") or {}
    if not das.get("enabled"):
        return None
    usual = (das.get("defaultVmSettings") or {}).get("restartPriority") or "medium"
    own = {o.get("key"): o.get("dasSettings") or {} for o in config.get("dasVmConfig") or ()}
    level = (own.get(case.ref) or {}).get("restartPriority") or "clusterRestartPriority"
    level = usual if level == "clusterRestartPriority" else level
    seen = ("configurationEx.dasVmConfig.restartPriority", level)
    if level == "disabled":
        return case.failed("not restarted by vSphere HA", seen, remedy="set the restart priority in vSphere HA")
    return case.passed(f"restarted by vSphere HA ({level})", seen)


@host_rule(
    "reliability.alarms",
    "No red alarm on the host",
    source="vSphere Monitoring and Performance 7.0, Monitoring Events, Alarms",
    verdicts={"pass": "no alarm", "warn": "a yellow alarm, or a red one that is acknowledged", "fail": "a red alarm"},
    reads={"HostSystem": ("triggeredAlarmState",)},
    by_hand="an alarm is the sign of something else",
)
def alarms(case: PillarCase) -> Finding | None:
    """No alarm of the host is red, unless someone has acknowledged it."""
    found = case.need("triggeredAlarmState") or ()
    red = [a for a in found if a.get("overallStatus") == "red" and not a.get("acknowledged")]
    seen = ("triggeredAlarmState", ", ".join(sorted(str(a.get("overallStatus")) for a in found)) or "none")
    if red:
        return case.failed(counted(len(red), "red alarm"), seen, remedy="look at them in the vSphere Client")
    if found:
        return case.warned(f"{counted(len(found), 'alarm')}, yellow or acknowledged", seen)
    return case.passed("no alarm is triggered", seen)


@cluster_rule(
    "reliability.same-build",
    "One ESXi build in the cluster",
    source="Managing Host and Cluster Lifecycle 7.0",
    verdicts={"pass": "the same build on all hosts", "warn": "different builds"},
    reads={"HostSystem": ("config.product",)},
    by_hand="installing ESXi is the task of vSphere Lifecycle Manager",
)
def same_build(case: PillarCase) -> Finding | None:
    """The hosts of a cluster run one ESXi build, so that a VM behaves the same on each of them."""
    builds = {h.name: _build(case.need("config.product", h.ref)) for h in case.farm.hosts_in(case.ref)}
    return _alike(case, builds, "config.product", "ESXi", "update the hosts to one build, host by host")


@cluster_rule(
    "reliability.same-driver",
    "One NVIDIA host driver in the cluster",
    source="NVIDIA Virtual GPU Software Documentation, vMotion with vGPU",
    verdicts={"pass": "the same version on all hosts with GPUs", "warn": "different versions"},
    reads={"HostSystem": ("software",)},
    by_hand="installing packages is the task of vSphere Lifecycle Manager",
)
def same_driver(case: PillarCase) -> Finding | None:
    """The hosts of a cluster have one version of NVIDIA's host driver: vMotion and restarts need it."""
    drivers = {h.name: found for h in case.farm.hosts_in(case.ref) if (found := _driver(case, h.ref))}
    return _alike(case, drivers, "software", "NVIDIA driver", "install one version of the driver VIB on all hosts")


@vm_rule(
    "reliability.snapshots",
    "No old snapshots",
    source="Broadcom KB 318825 (1025279), Best practices for using VMware snapshots",
    verdicts={
        "pass": "none",
        "warn": f"a snapshot, at most {OLDEST_SNAPSHOT} days old",
        "fail": f"a snapshot is older than {OLDEST_SNAPSHOT} days",
    },
    reads={"VirtualMachine": ("snapshot",)},
    by_hand="deleting a snapshot loses data",
)
def snapshots(case: PillarCase) -> Finding | None:
    """A training VM has no snapshots: they grow, slow its disks down, and stand in the way of changes."""
    tree = (case.facts.get("snapshot") or {}).get("rootSnapshotList") or ()
    days = [(case.records.today - _day(node.get("createTime"), case)).days for node in tree]
    if not days:
        return case.passed("no snapshot", ("snapshot", "none"))
    seen, message = ("snapshot.rootSnapshotList", f"{len(days)}"), f"a snapshot is {max(days)} days old"
    if max(days) > OLDEST_SNAPSHOT:
        return case.failed(message, seen, remedy="delete the snapshots")
    return case.warned(message, seen, remedy="delete it when it is not needed any more")


@host_rule(
    "reliability.management-network",
    "Two NICs for the management network",
    source="vSphere Availability 7.0, Best Practices for Networking",
    verdicts={"pass": "two NICs or more", "warn": "one NIC"},
    reads={"HostSystem": ("config.network.portgroup", "config.network.vswitch", *dvs.MANAGEMENT_PATHS)},
    by_hand="a wrong uplink cuts the host off from vCenter",
)
def management_network(case: PillarCase) -> Finding | None:
    """The management network of a host has two NICs. RDMA uplinks are single on purpose: that is another rule."""
    nics = _management_nics(case)
    seen = ("config.network.vnic", ", ".join(sorted(nics)) or "none")
    if len(nics) > 1:
        return case.passed(f"the management network has {len(nics)} NICs", seen)
    return case.warned("the management network has one NIC", seen, remedy="add a second uplink to its switch")


@vm_rule(
    "reliability.shared-storage",
    "Disks on shared storage",
    source="vSphere Availability 7.0, vSphere HA Requirements",
    verdicts={"pass": "every datastore is shared by hosts", "warn": "a datastore belongs to one host"},
    reads={"VirtualMachine": ("datastore",), "Datastore": ("name", "summary")},
    by_hand="moving disks to another datastore is left to Storage vMotion",
)
def shared_storage(case: PillarCase) -> Finding | None:
    """The disks of a training VM are on datastores that other hosts reach, so that it can start there."""
    single, made = [], member_of(case.farm.view.estate, case.ref)
    stores = [made.place.datastore] if made and not made.exists else case.need("datastore")
    for ref in filter(None, stores):
        summary = case.need("summary", ref)
        if not summary.get("multipleHostAccess"):
            single.append(str(summary.get("name")))
    seen = ("datastore.summary.multipleHostAccess", not single)
    if single:
        remedy = text_of(SetOfVms(case.target, datastore="SHARED"))
        return case.warned(f"only one host reaches {', '.join(single)}", seen, remedy=remedy)
    return case.passed("on shared datastores", seen)


def _build(product: Mapping[str, Any]) -> str:
    return f"{product.get('version')} build {product.get('build')}"


def _driver(case: PillarCase, host: str) -> str:
    found = (host_driver(vib) for vib in case.need("software", host))
    return ", ".join(sorted(driver.version for driver in found if driver))


def _alike(case: PillarCase, values: Mapping[str, str], path: str, what: str, remedy: str) -> Finding | None:
    if len(values) < 2:
        return None
    found = sorted(set(values.values()))
    if len(found) == 1:
        return case.passed(f"{what} {found[0]} on {len(values)} hosts", (path, found[0]))
    return case.warned(f"{len(found)} versions: {'; '.join(found)}", (path, "; ".join(found)), remedy=remedy)


def _day(value: object, case: PillarCase) -> date:
    if isinstance(value, datetime):
        return value.date()
    try:
        return datetime.fromisoformat(str(value)).date()
    except ValueError:
        raise Unreadable("snapshot.rootSnapshotList.createTime", f"{value!r} is no time") from None


def _management_nics(case: PillarCase) -> set[str]:
    host: Facts = case.facts
    case.need("config.network.vnic")
    found: set[str] = set()
    for _, uuid, key in dvs.management(host):
        group = next(
            (g for g in case.farm.view.estate.of_type("DistributedVirtualPortgroup") if g.get("key") == key), None
        )
        found |= (
            set(dvs.carrying(host, dvs.proxies(host)[uuid], group).values()) if uuid in dvs.proxies(host) else set()
        )
    switch_of = {g["spec"]["name"]: g["spec"].get("vswitchName") for g in host.get("config.network.portgroup") or ()}
    switches = {s.get("name"): s.get("pnic") or () for s in host.get("config.network.vswitch") or ()}
    for vnic in host.get("config.network.vnic") or ():
        if vnic.get("device") == "vmk0" and vnic.get("portgroup"):
            found |= set(switches.get(switch_of.get(vnic["portgroup"])) or ())
    return found
