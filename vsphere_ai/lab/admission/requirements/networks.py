"""Networks: the host has those that the VM's adapters are connected to.

vSphere API, CannotAccessNetwork: an error where the network is one of a distributed switch, or the adapter is
connected; otherwise a warning.
"""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.admission import RUNS, CheckTests, Faults, LabCase, requirement

CARD = vim.vm.device.VirtualEthernetCard


@requirement(32, RUNS, CheckTests.NETWORK)
def networks(case: LabCase) -> Faults:
    """Yield a fault for each adapter whose network the host does not have."""
    for nic in case.config.hardware.device:
        if not isinstance(nic, CARD):
            continue
        ref, distributed = _network(case, nic)
        link = nic.connectable
        joined = bool(link and (link.connected or link.startConnected))
        if ref is None or ref in case.host["network"] or not (distributed or joined):
            continue
        name, label = case.farm.store.get(ref)["name"], nic.deviceInfo.label
        yield vim.fault.CannotAccessNetwork(
            device=label,
            backing=name,
            connected=bool(link and link.connected),
            network=ref,
            msg=f"Currently connected network interface '{label}' uses network '{name}', which is not accessible.",
        )


def _network(case: LabCase, nic: Any) -> tuple[Any, bool]:
    port = getattr(nic.backing, "port", None)
    if port is None:
        return getattr(nic.backing, "network", None), False
    group = case.farm.store.objects.get(port.portgroupKey or "")
    return (group.ref if group is not None else None), True
