"""Distributed switches: made, reconfigured, upgraded."""

from __future__ import annotations

from typing import Any

from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, changes, demand
from vsphere_ai.lab.managed.networks.dvs_bandwidth import changed_traffic, set_traffic
from vsphere_ai.lab.managed.networks.dvs_defaults import has_mac_management, port_config, release
from vsphere_ai.lab.managed.networks.dvs_members import change, rename_uplinks, set_mtu
from vsphere_ai.lab.managed.networks.network import Making, make_switch
from vsphere_ai.lab.managed.refusals import (
    duplicate_name,
    invalid_argument,
    invalid_name,
    not_supported,
    same_version,
)
from vsphere_ai.lab.store import ManagedObject, differs, given, lay_over
from vsphere_ai.lab.tasks import TaskWork

MTUS = range(1280, 9001)
MOST_UPLINKS = 32
VERSIONS = ("6.5.0", "6.6.0", "7.0.0", "7.0.2", "7.0.3", "8.0.0", "8.0.3", "9.0.0")
"""Versions of VMware's distributed switches."""
STORED = (
    "description", "contact", "policy", "switchIpAddress", "linkDiscoveryProtocolConfig", "ipfixConfig",
    "multicastFilteringMode", "lacpApiVersion", "extensionKey", "defaultProxySwitchMaxNumPorts", "maxPorts",
)  # fmt: skip
"""What a switch keeps and shows, without any effect in the lab."""
CREATED = {"name", "maxMtu", "uplinkPortPolicy", "configVersion", *STORED}
CHANGED = {*CREATED, "host", "infrastructureTrafficResourceConfig"} - {"name"}


@changes(vim.Folder, "CreateDVS_Task", "DVSwitch.Create")
def create(call: Call, spec: Any) -> Any:
    """Make a distributed switch in a datacenter's network folder."""
    farm, folder = call.farm, call.mo
    if folder is not farm.named["networkFolder"]:
        raise not_supported("the folder takes no distributed switches")

    def work(_task: TaskWork) -> Any:
        config = spec.configSpec
        _only(config, CREATED)
        name = free_name(farm, config.name)
        newest = max((v for v in VERSIONS if release(v) <= release(farm.scenario.vcenter.version)), key=release)
        version = (spec.productInfo and spec.productInfo.version) or newest
        if version not in VERSIONS or release(version) > release(newest):
            raise invalid_argument("spec.productInfo.version", version)
        wanted = getattr(config, "maxMtu", None)  # the base type DVSConfigSpec has none
        mtu = 1500 if wanted is None else int(wanted)
        _check_mtu(mtu)
        uplinks = _names(config) or [f"Uplink {n}" for n in range(1, 5)]
        mo = make_switch(farm, folder, Making(name, tuple(uplinks), mtu, version, False))
        _store(mo["config"], config)
        publish(farm)
        farm.store.touch(folder, "childEntity")
        farm.record(mo, "CreateDVS_Task", version=version, mtu=mtu, uplinks=list(uplinks))
        return mo.ref

    return farm.tasks.start(folder, "createDVS", work)


@changes(vim.DistributedVirtualSwitch, "ReconfigureDvs_Task")
def reconfigure(call: Call, spec: Any) -> Any:
    """Change a switch or its members; a specification for another version of its configuration is refused."""
    demand(call, "DVSwitch.HostOp" if spec.host else "DVSwitch.Modify")
    farm, mo = call.farm, call.mo

    def work(_task: TaskWork) -> None:
        same_version(spec.configVersion, mo["config"].configVersion)
        _only(spec, CHANGED, mo["config"])
        detail = _carry_out(farm, mo, spec)
        if detail:
            next_version(farm, mo)
            farm.store.touch(mo, "summary")
            farm.record(mo, "ReconfigureDvs_Task", **detail)

    return farm.tasks.start(mo, "reconfigureDvs", work)


@changes(vim.DistributedVirtualSwitch, "PerformDvsProductSpecOperation_Task", "DVSwitch.Modify")
def upgrade(call: Call, operation: str, productSpec: Any = None) -> Any:
    """Upgrade a switch; there is no way back."""
    farm, mo = call.farm, call.mo

    def work(_task: TaskWork) -> None:
        if operation != "upgrade":
            raise not_supported(f"the lab does not {operation} a switch")
        config, wanted = mo["config"], productSpec.version if productSpec else ""
        if wanted not in VERSIONS or release(wanted) > release(farm.scenario.vcenter.version):
            raise invalid_argument("productSpec.version", wanted)
        if release(wanted) < release(config.productInfo.version):
            raise not_supported("a distributed switch is not downgraded")
        old = [h["name"] for h in map(farm.store.get, mo["summary"].hostMember) if _too_old(farm, h, wanted)]
        if old:
            raise vim.fault.DvsFault(msg=f"Hosts are not compatible with version {wanted}: {', '.join(old)}")
        if wanted != config.productInfo.version:
            before = config.productInfo.version
            config.productInfo.version = mo["summary"].productInfo.version = wanted
            _give_mac_management(farm, mo)
            next_version(farm, mo)
            farm.record(mo, "PerformDvsProductSpecOperation_Task", before=before, version=wanted)

    return farm.tasks.start(mo, "performProductSpecOperation", work)


@changes(vim.DistributedVirtualSwitch, "EnableNetworkResourceManagement", "DVSwitch.ResourceManagement")
def network_io_control(call: Call, enable: bool) -> None:
    """Switch Network I/O Control on or off."""
    config = call.mo["config"]
    if config.networkResourceManagementEnabled != enable:
        config.networkResourceManagementEnabled = enable
        next_version(call.farm, call.mo)
        call.farm.record(call.mo, "EnableNetworkResourceManagement", enable=bool(enable))


def next_version(farm: Farm, mo: ManagedObject) -> None:
    """Count a change of a configuration."""
    mo["config"].configVersion = str(int(mo["config"].configVersion) + 1)
    farm.store.touch(mo, "config")


def free_name(farm: Farm, name: str | None) -> str:
    """Return a name for a new network; refuse one that is taken in the datacenter, and what is no name."""
    if not name or not name.strip() or len(name) > 80:
        raise invalid_name(name or "")
    for each in farm.store.children(farm.named["networkFolder"]):
        if each["name"] == name:
            raise duplicate_name(name, each.ref)
    return name


def publish(farm: Farm) -> None:
    """Show new networks in the datacenter."""
    networks = [r for r in farm.named["networkFolder"]["childEntity"] if isinstance(r, vim.Network)]
    farm.store.set(farm.store.of(vim.Datacenter)[0], network=networks)


def _carry_out(farm: Farm, mo: ManagedObject, spec: Any) -> dict[str, Any]:
    config = mo["config"]
    detail: dict[str, Any] = {}
    mtu = getattr(spec, "maxMtu", None)  # the base type DVSConfigSpec has none
    if mtu is not None and mtu != config.maxMtu:
        _check_mtu(mtu)
        detail["mtu"] = int(mtu)
    names = _names(spec)
    renamed = bool(names) and names != mo.extra["uplinks"]
    traffic = changed_traffic(farm, mo, spec.infrastructureTrafficResourceConfig or ())
    if spec.host and (renamed or detail or traffic):
        raise not_supported("the lab changes members or settings, not both at once")
    if renamed:
        rename_uplinks(farm, mo, names)
        config.uplinkPortPolicy.uplinkPortName = list(names)
        detail["uplinks"] = list(names)
    detail |= _store(config, spec)
    members = change(farm, mo, spec.host) if spec.host else []
    if members:
        detail["hosts"] = members
    if "mtu" in detail:
        set_mtu(farm, mo, detail["mtu"])
    if traffic:
        detail |= set_traffic(config, traffic) or {"shares": {}}
    return detail


def _give_mac_management(farm: Farm, mo: ManagedObject) -> None:
    """Let the port groups of an upgraded switch have what its new version has, saying what they said before."""
    for group in (farm.store.get(ref) for ref in mo["portgroup"]):
        settings = group["config"].defaultPortConfig
        if settings.macManagementPolicy is None and has_mac_management(mo):
            policy = port_config(mo, 0).macManagementPolicy
            for name in ("allowPromiscuous", "macChanges", "forgedTransmits"):
                setattr(policy, name, getattr(settings.securityPolicy, name).value)
            settings.macManagementPolicy = policy
            farm.store.touch(group, "config")


def _too_old(farm: Farm, host: ManagedObject, version: str) -> bool:
    return release(farm.host(host).version) < release(version)


def _check_mtu(mtu: int) -> None:
    if mtu not in MTUS:
        raise invalid_argument("spec.maxMtu", str(mtu))


def _names(spec: Any) -> list[str]:
    policy = spec.uplinkPortPolicy
    if policy is None:
        return []
    names = list(getattr(policy, "uplinkPortName", None) or ())
    if not names or len(set(names)) != len(names) or not all(names) or len(names) > MOST_UPLINKS:
        raise invalid_argument("spec.uplinkPortPolicy", ", ".join(names))
    return names


def _only(spec: Any, known: set[str], present: Any = None) -> None:
    """Refuse what the lab cannot set; what is empty or so already asks for nothing."""
    unknown = {n for n in given(spec) if n not in known and differs(getattr(spec, n), getattr(present, n, None))}
    if unknown:
        raise not_supported(f"the lab does not set {', '.join(sorted(unknown))}")


def _store(config: Any, spec: Any) -> dict[str, Any]:
    """Lay what a switch only keeps over its configuration; return what changed, for the ledger."""
    detail: dict[str, Any] = {}
    for name in STORED:
        value, now = getattr(spec, name, None), getattr(config, name)
        if value is None or not differs(value, now):
            continue
        if isinstance(value, Vmomi.DataObject) and now is not None:
            lay_over(now, value)
        else:
            setattr(config, name, value)
        detail[name] = value if isinstance(value, (str, bool, int)) else type(value)._wsdlName
    return detail
