"""Defaults of a new distributed switch and of its ports."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.store import ManagedObject

Vds = vim.dvs.VmwareDistributedVirtualSwitch
MAC_MANAGEMENT = (6, 6, 0)
TRAFFIC = ("management", "faultTolerance", "vmotion", "virtualMachine", "iSCSI", "nfs", "hbr", "vsan", "vdp")
HIGH = ("virtualMachine",)  # the others have normal shares


def port_config(dvs: ManagedObject, vlan: int, *, uplink: bool = False) -> Any:
    """Return the settings of ports on which only a VLAN is set."""
    tag: Any = Vds.VlanIdSpec(vlanId=vlan, inherited=False)
    if uplink:
        tag = Vds.TrunkVlanSpec(vlanId=[vim.NumericRange(start=0, end=4094)], inherited=False)
    no = vim.BoolPolicy(inherited=True, value=False)
    made = Vds.VmwarePortConfigPolicy(
        vlan=tag,
        uplinkTeamingPolicy=Vds.UplinkPortTeamingPolicy(
            inherited=True,
            policy=vim.StringPolicy(inherited=True, value="loadbalance_srcid"),
            reversePolicy=vim.BoolPolicy(inherited=True, value=True),
            notifySwitches=vim.BoolPolicy(inherited=True, value=True),
            rollingOrder=no,
            uplinkPortOrder=inherited_order(dvs),
        ),
        securityPolicy=Vds.SecurityPolicy(inherited=True, allowPromiscuous=no, macChanges=no, forgedTransmits=no),
        blocked=no,
    )
    if has_mac_management(dvs):
        made.macManagementPolicy = Vds.MacManagementPolicy(
            inherited=True,
            allowPromiscuous=False,
            macChanges=False,
            forgedTransmits=False,
            macLearningPolicy=Vds.MacLearningPolicy(
                inherited=True, enabled=False, allowUnicastFlooding=False, limit=4096, limitPolicy="DROP"
            ),
        )
    return made


def inherited_order(dvs: ManagedObject) -> Any:
    """Return the order of uplinks a port group takes over from its switch: all of them active."""
    return Vds.UplinkPortOrderPolicy(inherited=True, activeUplinkPort=list(dvs.extra["uplinks"]), standbyUplinkPort=[])


def release(version: str) -> tuple[int, ...]:
    """Return a version as numbers, e.g. (7, 0, 2)."""
    return tuple(int(part) for part in version.split(".")[:3])


def has_mac_management(dvs: ManagedObject) -> bool:
    """Return whether a switch is new enough for MAC learning."""
    return release(dvs["config"].productInfo.version) >= MAC_MANAGEMENT


def traffic() -> list[Any]:
    """Return the shares of system traffic of a new switch."""
    resource = vim.DistributedVirtualSwitch.HostInfrastructureTrafficResource
    found = []
    for key in TRAFFIC:
        shares = vim.SharesInfo(shares=100, level="high") if key in HIGH else vim.SharesInfo(shares=50, level="normal")
        found.append(
            resource(key=key, allocationInfo=resource.ResourceAllocation(limit=-1, shares=shares, reservation=0))
        )
    return found
