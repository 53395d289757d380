package main

import (
	"time"

	"github.com/vmware/govmomi/event"
	"github.com/vmware/govmomi/license"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/performance"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// lifecycle makes a VM as `govc vm.create` does, clones, moves, snapshots and destroys it.
func (j *judge) lifecycle() {
	center, err := j.finder.DefaultDatacenter(j.ctx)
	must("datacenter", err)
	folders, err := center.Folders(j.ctx)
	must("folders", err)
	pool, err := j.finder.ResourcePool(j.ctx, "/DC0/host/gpu-a/Resources")
	must("pool", err)
	host, err := j.finder.HostSystem(j.ctx, "/DC0/host/gpu-a/esx02.lab.local")
	must("host", err)
	network, err := j.finder.Network(j.ctx, "dvpg-lan")
	must("network", err)
	backing, err := network.EthernetCardBackingInfo(j.ctx)
	must("backing", err)

	var devices object.VirtualDeviceList
	scsi, err := devices.CreateSCSIController("pvscsi")
	must("scsi", err)
	devices = append(devices, scsi)
	store, err := j.finder.Datastore(j.ctx, "vsan-gpu")
	must("datastore", err)
	disk := devices.CreateDisk(scsi.(types.BaseVirtualController), store.Reference(), "")
	disk.CapacityInKB = 1 << 20
	devices = append(devices, disk)
	card, err := object.EthernetCardTypes().CreateEthernetCard("vmxnet3", backing)
	must("card", err)
	devices = append(devices, card)
	changes, err := devices.ConfigSpec(types.VirtualDeviceConfigSpecOperationAdd)
	must("spec", err)
	spec := types.VirtualMachineConfigSpec{
		Name: "go-made", GuestId: "ubuntu64Guest", NumCPUs: 2, MemoryMB: 2048, DeviceChange: changes,
		Files: &types.VirtualMachineFileInfo{VmPathName: "[vsan-gpu]"},
	}
	made, err := folders.VmFolder.CreateVM(j.ctx, spec, pool, host)
	must("CreateVM", err)
	info, err := made.WaitForResult(j.ctx, nil)
	must("CreateVM", err)
	vm := object.NewVirtualMachine(j.client.Client, info.Result.(types.ManagedObjectReference))
	own, err := vm.Device(j.ctx)
	must("Device", err)

	other, err := j.finder.HostSystem(j.ctx, "/DC0/host/gpu-a/esx03.lab.local")
	must("host", err)
	poolRef, hostRef := pool.Reference(), other.Reference()
	copied, err := vm.Clone(j.ctx, folders.VmFolder, "go-cloned", types.VirtualMachineCloneSpec{
		Location: types.VirtualMachineRelocateSpec{Pool: &poolRef, Host: &hostRef}, PowerOn: true})
	must("Clone", err)
	info, err = copied.WaitForResult(j.ctx, nil)
	must("Clone", err)
	clone := object.NewVirtualMachine(j.client.Client, info.Result.(types.ManagedObjectReference))
	// vCenter powers a clone on in a task of its own, after that of the clone
	must("PowerOn", clone.WaitForPowerState(j.ctx, types.VirtualMachinePowerStatePoweredOn))
	state, err := clone.PowerState(j.ctx)
	must("PowerState", err)

	snap, err := clone.CreateSnapshot(j.ctx, "before", "", true, false)
	must("CreateSnapshot", err)
	must("CreateSnapshot", snap.Wait(j.ctx))
	move, err := clone.Migrate(j.ctx, nil, host, types.VirtualMachineMovePriorityHighPriority, "")
	must("Migrate", err)
	must("Migrate", move.Wait(j.ctx))
	at, err := clone.HostSystem(j.ctx)
	must("HostSystem", err)
	back, err := clone.RevertToSnapshot(j.ctx, "before", true)
	must("RevertToSnapshot", err)
	must("RevertToSnapshot", back.Wait(j.ctx))
	after, err := clone.PowerState(j.ctx)
	must("PowerState", err)
	gone, err := clone.RemoveSnapshot(j.ctx, "before", false, nil)
	must("RemoveSnapshot", err)
	must("RemoveSnapshot", gone.Wait(j.ctx))
	for _, each := range []*object.VirtualMachine{clone, vm} {
		end, err := each.Destroy(j.ctx)
		must("Destroy", err)
		must("Destroy", end.Wait(j.ctx))
	}
	_, err = j.finder.VirtualMachine(j.ctx, "go-*")
	say("lifecycle", map[string]interface{}{
		"disks": len(own.SelectByType((*types.VirtualDisk)(nil))), "cards": len(own.SelectByType((*types.VirtualVmxnet3)(nil))),
		"running": state, "moved": at.Reference() == host.Reference(), "reverted": after, "left": fault(err),
	})
}

// managers asks the managers of vCenter and of a host through govmomi's own packages.
func (j *judge) managers() {
	events, err := event.NewManager(j.client.Client).QueryEvents(j.ctx, types.EventFilterSpec{})
	must("QueryEvents", err)
	fields, err := object.GetCustomFieldsManager(j.client.Client)
	must("CustomFieldsManager", err)
	def, err := fields.Add(j.ctx, "go-owner", "VirtualMachine", nil, nil)
	must("AddCustomFieldDef", err)
	vm, err := j.finder.VirtualMachine(j.ctx, "/DC0/vm/infra-01")
	must("infra-01", err)
	must("SetField", fields.Set(j.ctx, vm.Reference(), def.Key, "go"))
	var read mo.VirtualMachine
	must("customValue", property.DefaultCollector(j.client.Client).RetrieveOne(j.ctx, vm.Reference(), []string{"customValue"}, &read))
	licenses, err := license.NewManager(j.client.Client).List(j.ctx)
	must("licenses", err)
	assigned, err := license.NewManager(j.client.Client).AssignmentManager(j.ctx)
	must("AssignmentManager", err)
	counters, err := performance.NewManager(j.client.Client).CounterInfoByName(j.ctx)
	must("counters", err)
	extensions, err := object.GetExtensionManager(j.client.Client)
	must("ExtensionManager", err)
	none, err := extensions.Find(j.ctx, "com.example")
	must("FindExtension", err)
	host, err := j.finder.HostSystem(j.ctx, "/DC0/host/gpu-a/esx01.lab.local")
	must("host", err)
	storage, err := host.ConfigManager().StorageSystem(j.ctx)
	must("StorageSystem", err)
	must("Refresh", storage.Refresh(j.ctx))
	dates, err := host.ConfigManager().DateTimeSystem(j.ctx)
	must("DateTimeSystem", err)
	clock, err := dates.Query(j.ctx)
	must("QueryDateTime", err)
	info, err := host.ConfigManager().CertificateManager(j.ctx)
	must("CertificateManager", err)
	certificate, err := info.CertificateInfo(j.ctx)
	must("CertificateInfo", err)
	say("managers", map[string]interface{}{
		"events": len(events) > 5, "value": read.CustomValue[0].(*types.CustomFieldStringValue).Value,
		"licenses": len(licenses), "assignments": assigned != nil, "counter": counters["cpu.usage.average"] != nil,
		"extension": none == nil, "clock": time.Since(*clock) < time.Minute, "certificate": string(certificate.Status),
	})
}
