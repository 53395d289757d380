"""HostAssignableHardwareManager: the vendor device groups a host offers."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.managed import Call, reads
from vsphere_ai.lab.managed.host_managers import host_manager, host_of_manager
from vsphere_ai.lab.managed.vms import device_groups

host_manager("assignableHardwareManager")


@reads(vim.host.AssignableHardwareManager, "RetrieveVendorDeviceGroupInfo")
def retrieve_vendor_device_group_info(call: Call) -> Any:
    """Return the groups, with a template of each member."""
    _, host = host_of_manager(call)
    return device_groups.offered(host)
