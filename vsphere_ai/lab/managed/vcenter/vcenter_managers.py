"""Managers of vCenter: all there are, and what those answer that have nothing to show.

What they do not implement stays MethodNotFound. The references' values are those of a real vCenter.
"""

from __future__ import annotations

from typing import Any

from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vim, vmodl

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, reads
from vsphere_ai.lab.managed.networks.dvs import VERSIONS
from vsphere_ai.lab.managed.networks.dvs_defaults import release
from vsphere_ai.lab.managed.refusals import invalid_argument, not_found

MANAGERS: dict[str, tuple[str, str]] = {
    "propertyCollector": ("PropertyCollector", "propertyCollector"),
    "viewManager": ("ViewManager", "ViewManager"),
    "sessionManager": ("SessionManager", "SessionManager"),
    "searchIndex": ("SearchIndex", "SearchIndex"),
    "taskManager": ("TaskManager", "TaskManager"),
    "setting": ("OptionManager", "VpxSettings"),
    "alarmManager": ("AlarmManager", "AlarmManager"),
    "authorizationManager": ("AuthorizationManager", "AuthorizationManager"),
    "vmCompatibilityChecker": ("VirtualMachineCompatibilityChecker", "CompatibilityChecker"),
    "userDirectory": ("UserDirectory", "UserDirectory"),
    "serviceManager": ("ServiceManager", "ServiceMgr"),
    "perfManager": ("PerformanceManager", "PerfMgr"),
    "scheduledTaskManager": ("ScheduledTaskManager", "ScheduledTaskManager"),
    "eventManager": ("EventManager", "EventManager"),
    "extensionManager": ("ExtensionManager", "ExtensionManager"),
    "customizationSpecManager": ("CustomizationSpecManager", "CustomizationSpecManager"),
    "guestCustomizationManager": ("VirtualMachineGuestCustomizationManager", "GuestCustomizationManager"),
    "customFieldsManager": ("CustomFieldsManager", "CustomFieldsManager"),
    "diagnosticManager": ("DiagnosticManager", "DiagMgr"),
    "licenseManager": ("LicenseManager", "LicenseManager"),
    "fileManager": ("FileManager", "FileManager"),
    "datastoreNamespaceManager": ("DatastoreNamespaceManager", "DatastoreNamespaceManager"),
    "virtualDiskManager": ("VirtualDiskManager", "virtualDiskManager"),
    "vmProvisioningChecker": ("VirtualMachineProvisioningChecker", "ProvChecker"),
    "ovfManager": ("OvfManager", "OvfManager"),
    "ipPoolManager": ("IpPoolManager", "IpPoolManager"),
    "dvSwitchManager": ("DistributedVirtualSwitchManager", "DVSManager"),
    "hostProfileManager": ("HostProfileManager", "HostProfileManager"),
    "clusterProfileManager": ("ClusterProfileManager", "ClusterProfileManager"),
    "complianceManager": ("ProfileComplianceManager", "MoComplianceManager"),
    "localizationManager": ("LocalizationManager", "LocalizationManager"),
    "storageResourceManager": ("StorageResourceManager", "StorageResourceManager"),
    "guestOperationsManager": ("GuestOperationsManager", "guestOperationsManager"),
    "overheadMemoryManager": ("OverheadMemoryManager", "OverheadMemoryManager"),
    "certificateManager": ("CertificateManager", "certificateManager"),
    "ioFilterManager": ("IoFilterManager", "IoFilterManager"),
    "vStorageObjectManager": ("VcenterVStorageObjectManager", "VStorageObjectManager"),
    "hostSpecManager": ("HostSpecificationManager", "HostSpecificationManager"),
    "cryptoManager": ("CryptoManagerKmip", "CryptoManager"),
    "healthUpdateManager": ("HealthUpdateManager", "HealthUpdateManager"),
    "failoverClusterConfigurator": ("FailoverClusterConfigurator", "FailoverClusterConfigurator"),
    "failoverClusterManager": ("FailoverClusterManager", "FailoverClusterManager"),
    "tenantManager": ("TenantTenantManager", "TenantManager"),
    "siteInfoManager": ("SiteInfoManager", "SiteInfoManager"),
    "snmpSystem": ("HostSnmpSystem", "SnmpSystem"),
    "storageQueryManager": ("StorageQueryManager", "StorageQueryManager"),
}
INTERVALS = ((1, 300, "Past day", 86400), (2, 1800, "Past week", 604800), (3, 7200, "Past month", 2592000),
             (4, 86400, "Past year", 31536000))  # fmt: skip
COUNTERS = (
    (2, "cpu", "usage", "percent", "average", "rate"), (6, "cpu", "usagemhz", "megaHertz", "average", "rate"),
    (24, "mem", "usage", "percent", "average", "absolute"),
    (125, "disk", "usage", "kiloBytesPerSecond", "average", "rate"),
    (143, "net", "usage", "kiloBytesPerSecond", "average", "rate"),
    (155, "sys", "uptime", "second", "latest", "absolute"),
)  # fmt: skip
"""Performance counters: key, group, name, unit, rollup and kind, numbered as vCenter numbers them."""
EVALUATION = "00000-00000-00000-00000-00000"


def add_managers(farm: Farm) -> dict[str, Any]:
    """Add the managers; return their references by their names in ServiceContent."""
    store, found = farm.store, {}
    for name, (wsdl, moid) in MANAGERS.items():
        found[name] = store.new(Vmomi.GetWsdlType("urn:vim25", wsdl), moid).ref
    assignments = store.new(vim.LicenseAssignmentManager, "LicenseAssignmentManager")
    store.set(
        store.objects["LicenseManager"],
        source=vim.LicenseManager.LocalLicense(licenseKeys=""),
        sourceAvailable=True,
        licensedEdition="",
        licenses=[_evaluation()],
        licenseAssignmentManager=assignments.ref,
        evaluation=vim.LicenseManager.EvaluationInfo(
            properties=[vmodl.KeyAnyValue(key="expirationHours", value=Vmomi.vmodlTypes["long"](1440))]
        ),
    )
    store.set(
        store.objects["PerfMgr"],
        description=vim.PerformanceDescription(
            counterType=[_words(t) for t in ("average", "latest", "maximum", "minimum", "none", "summation")],
            statsType=[_words(t) for t in ("absolute", "delta", "rate")],
        ),
        historicalInterval=[
            vim.HistoricalInterval(key=key, samplingPeriod=period, name=label, length=length, level=1, enabled=True)
            for key, period, label, length in INTERVALS
        ],
        perfCounter=[_counter(row) for row in COUNTERS],
    )
    store.set(store.objects["EventManager"], maxCollector=32)
    store.set(store.objects["CustomFieldsManager"], field=[])
    store.set(store.objects["ExtensionManager"], extensionList=[])
    store.set(store.objects["ScheduledTaskManager"], scheduledTask=[])
    store.set(store.objects["CustomizationSpecManager"], info=[])
    store.set(store.objects["UserDirectory"], domainList=["vsphere.local"])
    store.set(store.objects["CryptoManager"], enabled=True, kmipServers=[])
    return found


def _evaluation() -> Any:
    """Return the evaluation licence."""
    return vim.LicenseManager.LicenseInfo(
        licenseKey=EVALUATION, editionKey="eval", name="Evaluation Mode", total=0, used=0, costUnit="", properties=[]
    )


def _words(text: str) -> Any:
    return vim.ElementDescription(key=text, label=text, summary=text)


def _counter(row: tuple[int, str, str, str, str, str]) -> Any:
    key, group, name, unit, rollup, kind = row

    return vim.PerformanceManager.CounterInfo(
        key=key,
        nameInfo=_words(name),
        groupInfo=_words(group),
        unitInfo=_words(unit),
        rollupType=rollup,
        statsType=kind,
        level=1,
        perDeviceLevel=3,
    )


@reads(vim.LicenseAssignmentManager, "QueryAssignedLicenses")
def assigned_licenses(call: Call, entityId: str | None = None) -> Any:
    """Return the evaluation licence of vCenter and of each host."""
    farm = call.farm
    about = farm.store.objects["ServiceInstance"]["content"].about
    entities = {about.instanceUuid: str(about.name)}
    entities |= {mo.moid: str(mo["name"]) for mo in farm.store.of(vim.HostSystem)}
    return [
        vim.LicenseAssignmentManager.LicenseAssignment(
            entityId=key, entityDisplayName=name, assignedLicense=_evaluation(), properties=[]
        )
        for key, name in entities.items()
        if entityId in (None, key)
    ]


@reads(vim.PerformanceManager, "QueryPerfProviderSummary")
def provider_summary(call: Call, entity: Any) -> Any:
    """Return which statistics an object provides: hosts and VMs real-time ones."""
    call.farm.store.get(entity)
    current = isinstance(entity, (vim.HostSystem, vim.VirtualMachine))
    return vim.PerformanceManager.ProviderSummary(
        entity=entity, currentSupported=current, summarySupported=True, refreshRate=20 if current else None
    )


@reads(vim.PerformanceManager, "QueryPerfCounter")
def counters(call: Call, counterId: Any) -> Any:
    """Describe counters by their keys."""
    known = {c.key: c for c in call.mo["perfCounter"]}
    if set(counterId) - set(known):
        raise invalid_argument("counterId", ", ".join(str(c) for c in counterId if c not in known))
    return [known[key] for key in counterId]


@reads(vim.PerformanceManager, "QueryPerfCounterByLevel")
def counters_by_level(call: Call, level: int) -> Any:
    """Describe the counters of a level of detail."""
    return [c for c in call.mo["perfCounter"] if c.level <= level]


@reads(vim.PerformanceManager, "QueryAvailablePerfMetric")
def available_metrics(call: Call, entity: Any, **_period: Any) -> Any:
    """Return no metric: the lab keeps no statistics."""
    call.farm.store.get(entity)
    return []


@reads(vim.PerformanceManager, "QueryPerf")
def query_performance(call: Call, querySpec: Any) -> Any:
    """Return no samples."""
    for spec in querySpec:
        call.farm.store.get(spec.entity)
    return []


@reads(vim.scheduler.ScheduledTaskManager, "RetrieveEntityScheduledTask")
def scheduled_tasks(call: Call, entity: Any = None) -> Any:
    """Return the scheduled tasks of an entity: there are none."""
    if entity is not None:
        call.farm.store.get(entity)
    return []


@reads(vim.scheduler.ScheduledTaskManager, "RetrieveObjectScheduledTask")
def scheduled_tasks_of_object(call: Call, obj: Any = None) -> Any:
    """Return the scheduled tasks of an object: there are none."""
    return scheduled_tasks(call, obj)


@reads(vim.ExtensionManager, "FindExtension")
def find_extension(call: Call, extensionKey: str) -> Any:
    """Return an extension by its key, unset when it is not registered."""
    return next((e for e in call.mo["extensionList"] if e.key == extensionKey), None)


@reads(vim.ExtensionManager, "QueryManagedBy")
def managed_by(call: Call, extensionKey: str) -> Any:
    """Return the VMs an extension manages."""
    vms = call.farm.store.of(vim.VirtualMachine)
    return [vm.ref for vm in vms if getattr(vm["config"].managedBy, "extensionKey", None) == extensionKey]


@reads(vim.CustomizationSpecManager, "DoesCustomizationSpecExist")
def has_customization(_call: Call, name: str) -> bool:
    """Return whether there is a customization specification of this name: there is none."""
    return False


@reads(vim.CustomizationSpecManager, "GetCustomizationSpec")
def get_customization(_call: Call, name: str) -> Any:
    """Refuse: there is none."""
    raise not_found(name)


@reads(vim.UserDirectory, "RetrieveUserGroups")
def user_groups(call: Call, searchStr: str, exactMatch: bool, findUsers: bool, findGroups: bool, **_more: Any) -> Any:
    """Return the lab's one user where the search finds it."""
    user = call.farm.scenario.vcenter.username.partition("@")[0]
    found = searchStr.lower() == user.lower() if exactMatch else searchStr.lower() in user.lower()
    return [vim.UserSearchResult(principal=user, fullName=user, group=False)] if found and findUsers else []


@reads(vim.dvs.DistributedVirtualSwitchManager, "QueryDvsByUuid")
def switch_by_uuid(call: Call, uuid: str) -> Any:
    """Return a distributed switch by its UUID, unset when there is none."""
    switches = call.farm.store.of(vim.DistributedVirtualSwitch)
    return next((mo.ref for mo in switches if mo["uuid"] == uuid), None)


@reads(vim.dvs.DistributedVirtualSwitchManager, "DVSManagerLookupDvPortGroup")
def look_up_port_group(call: Call, switchUuid: str, portgroupKey: str) -> Any:
    """Return a port group by its switch and its key."""
    group = call.farm.store.objects.get(portgroupKey)
    if group is None or "dvs" not in group.extra or group.extra["dvs"]["uuid"] != switchUuid:
        raise not_found(portgroupKey)
    return group.ref


@reads(vim.dvs.DistributedVirtualSwitchManager, "QueryAvailableDvsSpec")
def available_versions(call: Call, recommended: bool | None = None) -> Any:
    """Return the versions a new switch may have."""
    newest = release(call.farm.scenario.vcenter.version)
    return [
        vim.dvs.ProductSpec(name="DVS", vendor="VMware, Inc.", version=version, forwardingClass="etherswitch")
        for version in VERSIONS
        if release(version) <= newest
    ]


@reads(vim.ServiceManager, "QueryServiceList")
def services(_call: Call, **_filter: Any) -> Any:
    """Return the services that registered themselves: there are none."""
    return []
