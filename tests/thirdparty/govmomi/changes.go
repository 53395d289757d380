package main

import (
	"context"
	"sync"
	"time"

	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

func inventoryPath(j *judge, ref types.ManagedObjectReference) (string, error) {
	return find.InventoryPath(j.ctx, j.client.Client, ref)
}

// power switches a VM on and off while another collector waits for what changes.
func (j *judge) power() {
	vm, err := j.finder.VirtualMachine(j.ctx, "/DC0/vm/ai/training/train-04")
	must("train-04", err)
	ctx, cancel := context.WithTimeout(j.ctx, 20*time.Second)
	defer cancel()
	var seen []string
	var watching sync.WaitGroup
	ready := make(chan struct{})
	watching.Add(1)
	go func() {
		defer watching.Done()
		filter := new(property.WaitFilter).Add(vm.Reference(), "VirtualMachine", []string{"runtime.powerState"})
		err := property.WaitForUpdates(ctx, property.DefaultCollector(j.client.Client), filter,
			func(updates []types.ObjectUpdate) bool {
				for _, update := range updates {
					for _, change := range update.ChangeSet {
						seen = append(seen, string(change.Val.(types.VirtualMachinePowerState)))
					}
				}
				if len(seen) == 1 {
					close(ready)
				}
				return len(seen) >= 3
			})
		must("WaitForUpdates", err)
	}()
	<-ready
	on, err := vm.PowerOn(ctx)
	must("PowerOn", err)
	must("power on", on.Wait(ctx))
	must("WaitForPowerState", vm.WaitForPowerState(ctx, types.VirtualMachinePowerStatePoweredOn))
	again, err := vm.PowerOn(ctx)
	must("PowerOn", err)
	twice := fault(again.Wait(ctx))
	address, err := vm.WaitForIP(ctx)
	must("WaitForIP", err)
	off, err := vm.PowerOff(ctx)
	must("PowerOff", err)
	info, err := off.WaitForResult(ctx, nil)
	must("power off", err)
	watching.Wait()
	say("power", map[string]interface{}{"seen": seen, "twice": twice, "ip": address, "state": info.State})
}

// devices adds a vGPU and a network card in one go, reads them back, and removes them again.
func (j *judge) devices() {
	vm, err := j.finder.VirtualMachine(j.ctx, "/DC0/vm/ai/training/train-04")
	must("train-04", err)
	group, err := j.finder.Network(j.ctx, "dvpg-rdma")
	must("port group", err)
	backing, err := group.EthernetCardBackingInfo(j.ctx)
	must("EthernetCardBackingInfo", err)
	before, err := vm.Device(j.ctx)
	must("devices", err)
	card, err := before.CreateEthernetCard("vmxnet3", backing)
	must("CreateEthernetCard", err)
	card.GetVirtualDevice().Key = -1
	gpu := &types.VirtualPCIPassthrough{VirtualDevice: types.VirtualDevice{
		Key: -2, Backing: &types.VirtualPCIPassthroughVmiopBackingInfo{Vgpu: "grid_a100-20c"}}}
	must("add devices", vm.AddDevice(j.ctx, gpu, card))
	after, err := vm.Device(j.ctx)
	must("devices", err)
	cards := after.SelectByType((*types.VirtualVmxnet3)(nil))
	gpus := after.SelectByType((*types.VirtualPCIPassthrough)(nil))
	on := after.SelectByBackingInfo(backing)
	added := map[string]interface{}{
		"before": len(before), "after": len(after), "cards": len(cards), "gpus": len(gpus), "on_group": len(on),
		"name": after.Name(cards[len(cards)-1]), "mac": cards[len(cards)-1].(types.BaseVirtualEthernetCard).GetVirtualEthernetCard().MacAddress,
		"primary": after.PrimaryMacAddress(), "profile": gpus[0].GetVirtualDevice().Backing.(*types.VirtualPCIPassthroughVmiopBackingInfo).Vgpu,
		"found": after.Find(after.Name(gpus[0])) != nil,
	}
	card = cards[len(cards)-1]
	must("disconnect", after.Disconnect(card))
	must("edit device", vm.EditDevice(j.ctx, card))
	must("remove devices", vm.RemoveDevice(j.ctx, true, gpus[0], card))
	left, err := vm.Device(j.ctx)
	must("devices", err)
	added["left"] = len(left)
	say("devices", added)
}

// refusals asks for what cannot be; each must come back as the fault the product has for it.
func (j *judge) refusals() {
	vm, err := j.finder.VirtualMachine(j.ctx, "/DC0/vm/ai/training/train-04")
	must("train-04", err)
	gpu := &types.VirtualPCIPassthrough{VirtualDevice: types.VirtualDevice{
		Key: -1, Backing: &types.VirtualPCIPassthroughVmiopBackingInfo{Vgpu: "grid_h100-1"}}}
	faults := map[string]interface{}{"unknown_vgpu": fault(vm.AddDevice(j.ctx, gpu))}
	stale, err := vm.Reconfigure(j.ctx, types.VirtualMachineConfigSpec{ChangeVersion: "old", NumCPUs: 2})
	must("Reconfigure", err)
	faults["stale"] = fault(stale.Wait(j.ctx))
	gone := object.NewVirtualMachine(j.client.Client, types.ManagedObjectReference{Type: "VirtualMachine", Value: "vm-0"})
	_, err = gone.PowerOn(j.ctx)
	faults["gone"] = fault(err)
	_, err = methods.StandbyGuest(j.ctx, j.client.Client, &types.StandbyGuest{This: vm.Reference()})
	faults["standby"] = fault(err)
	_, err = vm.AcquireTicket(j.ctx, "mks")
	faults["ticket"] = fault(err)
	_, err = methods.FindByUuid(j.ctx, j.client.Client, &types.FindByUuid{This: vm.Reference(), Uuid: "x"})
	faults["wrong_object"] = fault(err)
	var machines []mo.VirtualMachine
	err = property.DefaultCollector(j.client.Client).Retrieve(j.ctx,
		[]types.ManagedObjectReference{vm.Reference()}, []string{"config.nonsense"}, &machines)
	faults["property"] = fault(err)
	say("refusals", faults)
}

func (j *judge) maintenance() {
	host, err := j.finder.HostSystem(j.ctx, "/DC0/host/esx-odd.lab.local/esx-odd.lab.local")
	must("host", err)
	var read mo.HostSystem
	state := func() bool {
		must("runtime", host.Properties(j.ctx, host.Reference(), []string{"runtime"}, &read))
		return read.Runtime.InMaintenanceMode
	}
	leave, err := host.ExitMaintenanceMode(j.ctx, 10)
	must("ExitMaintenanceMode", err)
	early := fault(leave.Wait(j.ctx))
	enter, err := host.EnterMaintenanceMode(j.ctx, 10, false, nil)
	must("EnterMaintenanceMode", err)
	must("enter", enter.Wait(j.ctx))
	inside := state()
	leave, err = host.ExitMaintenanceMode(j.ctx, 10)
	must("ExitMaintenanceMode", err)
	must("leave", leave.Wait(j.ctx))
	pool, err := host.ResourcePool(j.ctx)
	must("resource pool", err)
	clustered, err := j.finder.HostSystem(j.ctx, "/DC0/host/gpu-a/esx01.lab.local")
	must("host", err)
	addresses, err := clustered.ManagementIPs(j.ctx)
	must("ManagementIPs", err)
	none, err := host.ManagementIPs(j.ctx)
	must("ManagementIPs", err)
	say("maintenance", map[string]interface{}{
		"early": early, "inside": inside, "outside": state(), "pool": pool.Reference().Type,
		"ips": addresses, "none": len(none),
	})
}

// options changes an advanced setting of a host and back, and uses the other managers govmomi has.
func (j *judge) options() {
	host, err := j.finder.HostSystem(j.ctx, "/DC0/host/gpu-a/esx01.lab.local")
	must("host", err)
	manager, err := host.ConfigManager().OptionManager(j.ctx)
	must("OptionManager", err)
	set := func(value interface{}) string {
		return fault(manager.Update(j.ctx, []types.BaseOptionValue{
			&types.OptionValue{Key: "Net.PVRDMAVmknic", Value: value}}))
	}
	faults := map[string]interface{}{"set": set("vmk2"), "wrong_type": set(int64(1))}
	values, err := manager.Query(j.ctx, "Net.PVRDMAVmknic")
	must("Query", err)
	faults["value"] = values[0].GetOptionValue().Value
	faults["back"] = set("")
	_, err = manager.Query(j.ctx, "No.Such")
	faults["unknown"] = fault(err)
	settings := object.NewOptionManager(j.client.Client, *j.client.ServiceContent.Setting)
	all, err := settings.Query(j.ctx, "")
	must("vCenter settings", err)
	faults["vcenter"] = len(all) > 0
	services, err := host.ConfigManager().ServiceSystem(j.ctx)
	must("ServiceSystem", err)
	running, err := services.Service(j.ctx)
	must("services", err)
	faults["services"] = len(running) > 0
	firewall, err := host.ConfigManager().FirewallSystem(j.ctx)
	must("FirewallSystem", err)
	info, err := firewall.Info(j.ctx)
	must("firewall", err)
	faults["rulesets"] = len(info.Ruleset) > 0
	_, err = host.ConfigManager().StorageSystem(j.ctx)
	faults["storage"] = fault(err)
	clock, err := methods.GetCurrentTime(j.ctx, j.client.Client)
	must("GetCurrentTime", err)
	faults["clock"] = time.Since(*clock) < time.Minute
	say("options", faults)
}
