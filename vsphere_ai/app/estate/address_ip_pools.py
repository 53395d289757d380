"""IP pools of vCenter: addresses that it gives to vApps itself, in every datacenter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from vsphere_ai.addresses.in_use import InUse, of_ip_pools
from vsphere_ai.app.events import Emit, Remark
from vsphere_ai.errors import Denied, VimFault

if TYPE_CHECKING:
    from vsphere_ai.connect.vcenter import VCenter


def read_ip_pools(vcenter: VCenter, emit: Emit) -> Iterator[InUse]:
    """Yield the ranges of the IP pools that are enabled; a remark names datacenters whose pools cannot be read."""
    manager = vcenter.service("ipPoolManager")
    for ref, center in sorted(vcenter.read({"Datacenter": ("name",)}).items()) if manager else ():
        try:
            pools = vcenter.call(str(manager), "QueryIpPools", {"dc": ref})
        except (Denied, VimFault) as error:
            emit(Remark("addresses.ip-pools", f"IP pools of {center.name} are not compared: {error.message}"))
        else:
            yield from of_ip_pools(pools, center.name)
