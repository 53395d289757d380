"""Privileges that sets of VMs take: rows of the role in the documentation."""

from __future__ import annotations

from vsphere_ai.model.privilege import ASSIGN, ON_OBJECT, Duty

DUTIES = (
    Duty(
        "`vm_set`: making VMs",
        "templates, the folder, the resource pool, the datastore",
        also=(
            "VirtualMachine.Provisioning.DeployTemplate",
            "VirtualMachine.Provisioning.Clone",
            "VirtualMachine.Inventory.CreateFromExisting",
            "Resource.AssignVMToPool",
            "Datastore.AllocateSpace",
        ),
    ),
    Duty("`vm_set`: `customize: linux_prep`", "templates", also=("VirtualMachine.Provisioning.Customize",)),
    Duty(
        "`vm_set`: `disks`, `disk_gb`",
        "VMs and their folder",
        also=("VirtualMachine.Config.AddNewDisk", "VirtualMachine.Config.DiskExtend"),
    ),
    Duty("`vm_set`: `notes`", "VMs and their folder", fields=("annotation",)),
    Duty("`vm_set`: `cdrom`", "VMs and their folder", operations=("edit",)),
    Duty(
        "`vm_set`: `custom_attributes`",
        "VMs and their folder",
        ("setCustomValue",),
        # stated by the API reference only (ExtensibleManagedObject, setCustomValue)
        unstated={"setCustomValue": "Global.SetCustomField"},
    ),
    Duty("`vm_set`: `tags`", "VMs and their folder", also=(ON_OBJECT,)),
    Duty("`vm_set`: `tags`", "the root folder; a global permission has it there", also=(ASSIGN,)),
    Duty("`vm_set`: `placement`", "clusters", also=("Host.Inventory.EditCluster",)),
    Duty("`vm_set`: destroying VMs", "VMs", also=("VirtualMachine.Inventory.Delete",)),
)
