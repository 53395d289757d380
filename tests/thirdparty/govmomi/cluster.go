package main

import (
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// cluster uses govmomi's objects for clusters, switches and the datacenter's way to power VMs on.
func (j *judge) cluster() {
	cluster, err := j.finder.ClusterComputeResource(j.ctx, "gpu-a")
	must("cluster", err)
	config, err := cluster.Configuration(j.ctx)
	must("Configuration", err)
	hosts, err := cluster.Hosts(j.ctx)
	must("Hosts", err)
	stores, err := cluster.Datastores(j.ctx)
	must("Datastores", err)
	pool, err := cluster.ResourcePool(j.ctx)
	must("ResourcePool", err)
	mounted, err := stores[0].AttachedHosts(j.ctx)
	must("AttachedHosts", err)
	say("cluster", map[string]interface{}{
		"drs": config.DrsConfig.DefaultVmBehavior, "hosts": len(hosts), "stores": len(stores),
		"pool": pool.Reference().Type, "mounted": len(mounted),
	})
	j.ports()
	j.placed()
}

// ports lists the ports of a switch, and shows that no card of a VM fits on its uplinks.
func (j *judge) ports() {
	network, err := j.finder.Network(j.ctx, "dvs-lan")
	must("dvs-lan", err)
	lan, ok := network.(*object.DistributedVirtualSwitch)
	if !ok {
		say("ports", map[string]interface{}{"error": "not a switch"})
		return
	}
	all, err := lan.FetchDVPorts(j.ctx, nil)
	must("FetchDVPorts", err)
	connected := 0
	for _, port := range all {
		if port.Connectee != nil && port.Connectee.Type == "vmVnic" {
			connected++
		}
	}
	one, err := lan.FetchDVPorts(j.ctx, &types.DistributedVirtualSwitchPortCriteria{PortKey: []string{all[0].Key}})
	must("FetchDVPorts", err)
	uplinks, err := j.finder.Network(j.ctx, "dvs-lan-DVUplinks")
	must("dvs-lan-DVUplinks", err)
	backing, err := uplinks.EthernetCardBackingInfo(j.ctx)
	must("uplink backing", err)
	card, err := object.EthernetCardTypes().CreateEthernetCard("vmxnet3", backing)
	must("CreateEthernetCard", err)
	card.GetVirtualDevice().Key = -1
	vm, err := j.finder.VirtualMachine(j.ctx, "/DC0/vm/ai/training/train-04")
	must("train-04", err)
	refused := vm.AddDevice(j.ctx, card)
	plain, err := j.finder.Network(j.ctx, "VM Network")
	must("VM Network", err)
	backing, err = plain.EthernetCardBackingInfo(j.ctx)
	must("backing", err)
	named := backing.(*types.VirtualEthernetCardNetworkBackingInfo)
	say("ports", map[string]interface{}{
		"vms": connected, "one": len(one), "uplink": fault(refused), "plain": named.DeviceName,
	})
}

// placed powers a VM on through the datacenter, shuts its guest down, and reads the tasks in between.
func (j *judge) placed() {
	center, err := j.finder.DefaultDatacenter(j.ctx)
	must("datacenter", err)
	vm, err := j.finder.VirtualMachine(j.ctx, "/DC0/vm/ai/training/train-04")
	must("train-04", err)
	start, err := center.PowerOnVM(j.ctx, []types.ManagedObjectReference{vm.Reference()})
	must("PowerOnMultiVM", err)
	info, err := start.WaitForResult(j.ctx, nil)
	must("PowerOnMultiVM", err)
	result := info.Result.(types.ClusterPowerOnVmResult)
	must("attempt", object.NewTask(j.client.Client, *result.Attempted[0].Task).Wait(j.ctx))
	must("ShutdownGuest", vm.ShutdownGuest(j.ctx))
	must("off", vm.WaitForPowerState(j.ctx, types.VirtualMachinePowerStatePoweredOff))
	host, err := vm.HostSystem(j.ctx)
	must("HostSystem", err)
	var tasks mo.TaskManager
	must("tasks", property.DefaultCollector(j.client.Client).RetrieveOne(j.ctx, *j.client.ServiceContent.TaskManager, nil, &tasks))
	say("placed", map[string]interface{}{
		"attempted": len(result.Attempted), "refused": len(result.NotAttempted), "host": host.Reference().Type,
		"tasks": len(tasks.RecentTask) > 5,
	})
}
