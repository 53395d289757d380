package main

import (
	"reflect"
	"sort"
	"strings"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// kinds are the managed types of an inventory, as values govmomi decodes into.
var kinds = map[string]reflect.Type{
	"Folder":                         reflect.TypeOf(mo.Folder{}),
	"Datacenter":                     reflect.TypeOf(mo.Datacenter{}),
	"ClusterComputeResource":         reflect.TypeOf(mo.ClusterComputeResource{}),
	"ComputeResource":                reflect.TypeOf(mo.ComputeResource{}),
	"ResourcePool":                   reflect.TypeOf(mo.ResourcePool{}),
	"HostSystem":                     reflect.TypeOf(mo.HostSystem{}),
	"VirtualMachine":                 reflect.TypeOf(mo.VirtualMachine{}),
	"Datastore":                      reflect.TypeOf(mo.Datastore{}),
	"Network":                        reflect.TypeOf(mo.Network{}),
	"DistributedVirtualPortgroup":    reflect.TypeOf(mo.DistributedVirtualPortgroup{}),
	"VmwareDistributedVirtualSwitch": reflect.TypeOf(mo.VmwareDistributedVirtualSwitch{}),
}

func (j *judge) inventory() {
	paths := map[string]interface{}{}
	add := func(kind string, found []string, err error) {
		must("list "+kind, err)
		sort.Strings(found)
		paths[kind] = found
	}
	centers, err := j.finder.DatacenterList(j.ctx, "*")
	add("datacenters", names(len(centers), func(i int) string { return centers[i].InventoryPath }), err)
	center, err := j.finder.DefaultDatacenter(j.ctx)
	must("default datacenter", err)
	j.finder.SetDatacenter(center)
	clusters, err := j.finder.ClusterComputeResourceList(j.ctx, "*")
	add("clusters", names(len(clusters), func(i int) string { return clusters[i].InventoryPath }), err)
	computes, err := j.finder.ComputeResourceList(j.ctx, "*")
	add("computes", names(len(computes), func(i int) string { return computes[i].InventoryPath }), err)
	hosts, err := j.finder.HostSystemList(j.ctx, "*/*")
	add("hosts", names(len(hosts), func(i int) string { return hosts[i].InventoryPath }), err)
	vms, err := j.finder.VirtualMachineList(j.ctx, "/DC0/vm/...")
	add("vms", names(len(vms), func(i int) string { return vms[i].InventoryPath }), err)
	networks, err := j.finder.NetworkList(j.ctx, "*")
	add("networks", names(len(networks), func(i int) string { return networks[i].GetInventoryPath() }), err)
	stores, err := j.finder.DatastoreList(j.ctx, "*")
	add("datastores", names(len(stores), func(i int) string { return stores[i].InventoryPath }), err)
	pools, err := j.finder.ResourcePoolList(j.ctx, "*")
	add("pools", names(len(pools), func(i int) string { return pools[i].InventoryPath }), err)
	folder, err := j.finder.Folder(j.ctx, "/DC0/vm/ai/training")
	must("folder by path", err)
	paths["folder"] = []string{folder.InventoryPath}
	_, err = j.finder.VirtualMachine(j.ctx, "no-such-vm")
	paths["missing"] = fault(err)
	say("inventory", paths)
}

func names(count int, name func(int) string) []string {
	found := make([]string, count)
	for i := range found {
		found[i] = name(i)
	}
	return found
}

// properties reads every property govmomi knows of every managed object, all decoded into govmomi's own types.
func (j *judge) properties() {
	manager := view.NewManager(j.client.Client)
	all, err := manager.CreateContainerView(j.ctx, j.client.ServiceContent.RootFolder, nil, true)
	must("view of everything", err)
	defer all.Destroy(j.ctx)
	refs, err := all.Find(j.ctx, nil, nil)
	must("find everything", err)
	byKind := map[string][]types.ManagedObjectReference{}
	for _, ref := range refs {
		byKind[ref.Type] = append(byKind[ref.Type], ref)
	}
	byKind["Folder"] = append(byKind["Folder"], j.client.ServiceContent.RootFolder)
	collector := property.DefaultCollector(j.client.Client)
	for kind, objects := range byKind {
		typ, known := kinds[kind]
		if !known {
			say("properties", map[string]interface{}{"kind": kind, "error": "an unexpected managed type"})
			continue
		}
		found := reflect.New(reflect.SliceOf(typ))
		err := collector.Retrieve(j.ctx, objects, nil, found.Interface())
		fields := map[string]interface{}{"kind": kind, "objects": len(objects), "fault": fault(err)}
		if err == nil {
			var content []types.ObjectContent
			must(kind, collector.Retrieve(j.ctx, objects, nil, &content))
			fields["decoded"] = found.Elem().Len()
			fields["unset"] = unset(typ, content)
		} else {
			fields["error"] = err.Error()
		}
		say("properties", fields)
	}
	j.whole(byKind)
}

// whole reads the big properties one by one, the way scripts name them.
func (j *judge) whole(byKind map[string][]types.ManagedObjectReference) {
	wanted := map[string][]string{
		"VirtualMachine":                 {"summary", "config", "runtime", "guest", "network", "environmentBrowser", "capability"},
		"HostSystem":                     {"summary", "config", "runtime", "network", "hardware", "capability", "configManager"},
		"ClusterComputeResource":         {"summary", "network", "environmentBrowser", "configurationEx"},
		"DistributedVirtualPortgroup":    {"summary", "config"},
		"VmwareDistributedVirtualSwitch": {"summary", "config", "uuid", "capability"},
		"Datacenter":                     {"network", "configuration"},
		"Datastore":                      {"summary", "info", "capability", "browser"},
	}
	collector := property.DefaultCollector(j.client.Client)
	for kind, paths := range wanted {
		for _, path := range paths {
			var content []types.ObjectContent
			must(kind+"."+path, collector.Retrieve(j.ctx, byKind[kind], []string{path}, &content))
			got := 0
			for _, one := range content {
				got += len(one.PropSet)
			}
			say("whole", map[string]interface{}{"path": kind + "." + path, "objects": len(byKind[kind]), "values": got})
		}
	}
}

// unset names the properties that must always be there and are missing from an object.
func unset(kind reflect.Type, content []types.ObjectContent) []string {
	missing := []string{}
	for _, object := range content {
		present := map[string]bool{}
		for _, property := range object.PropSet {
			present[property.Name] = true
		}
		for _, name := range required(kind) {
			if !present[name] {
				missing = append(missing, object.Obj.Value+"."+name)
			}
		}
	}
	return missing
}

// required names the properties govmomi declares without a pointer, a slice or an interface: those are never absent.
func required(kind reflect.Type) []string {
	names := []string{}
	for i := 0; i < kind.NumField(); i++ {
		field := kind.Field(i)
		if field.Anonymous && field.Type.Kind() == reflect.Struct {
			names = append(names, required(field.Type)...)
		}
		switch field.Type.Kind() {
		case reflect.Ptr, reflect.Slice, reflect.Interface:
		default:
			if tag := field.Tag.Get("mo"); tag != "" {
				names = append(names, strings.Split(tag, ",")[0])
			}
		}
	}
	return names
}

func (j *judge) views() {
	manager := view.NewManager(j.client.Client)
	machines, err := manager.CreateContainerView(j.ctx, j.client.ServiceContent.RootFolder, []string{"VirtualMachine"}, true)
	must("view of VMs", err)
	var on []mo.VirtualMachine
	must("view with filter", machines.RetrieveWithFilter(j.ctx, []string{"VirtualMachine"}, []string{"name"}, &on,
		property.Filter{"runtime.powerState": types.VirtualMachinePowerStatePoweredOn}))
	trains, err := machines.Find(j.ctx, []string{"VirtualMachine"}, property.Filter{"name": "train-*"})
	must("find with filter", err)
	var some []mo.VirtualMachine
	must("leaf paths", machines.Retrieve(j.ctx, []string{"VirtualMachine"},
		[]string{"name", "config.hardware.device", "summary.config.numCpu", "guest.ipAddress"}, &some))
	listed, err := manager.CreateListView(j.ctx, trains[:1])
	must("list view", err)
	must("list view add", listed.Add(j.ctx, trains[1:]))
	must("list view remove", listed.Remove(j.ctx, trains[:1]))
	var shown mo.ListView
	must("list view read", property.DefaultCollector(j.client.Client).RetrieveOne(j.ctx, listed.Reference(), nil, &shown))
	must("destroy", machines.Destroy(j.ctx))
	err = machines.Retrieve(j.ctx, []string{"VirtualMachine"}, []string{"name"}, &some)
	say("views", map[string]interface{}{
		"on": sorted(on), "trains": len(trains), "read": len(some), "devices": len(some[0].Config.Hardware.Device),
		"listed": len(shown.View), "destroyed": fault(err),
	})
}

func sorted(vms []mo.VirtualMachine) []string {
	found := names(len(vms), func(i int) string { return vms[i].Name })
	sort.Strings(found)
	return found
}

func (j *judge) search() {
	index := object.NewSearchIndex(j.client.Client)
	vm, err := j.finder.VirtualMachine(j.ctx, "ai/training/train-01")
	must("VM by path", err)
	var read mo.VirtualMachine
	must("VM", vm.Properties(j.ctx, vm.Reference(), []string{"config", "guest", "runtime", "environmentBrowser"}, &read))
	same := map[string]interface{}{}
	compare := func(what string, found object.Reference, err error) {
		same[what] = err == nil && found != nil && found.Reference() == vm.Reference()
		if err != nil {
			same[what] = fault(err)
		}
	}
	found, err := index.FindByInventoryPath(j.ctx, "/DC0/vm/ai/training/train-01")
	compare("path", found, err)
	yes := true
	found, err = index.FindByUuid(j.ctx, nil, read.Config.Uuid, true, nil)
	compare("uuid", found, err)
	found, err = index.FindByUuid(j.ctx, nil, strings.ToUpper(read.Config.InstanceUuid), true, &yes)
	compare("instance", found, err)
	found, err = index.FindByIp(j.ctx, nil, read.Guest.IpAddress, true)
	compare("ip", found, err)
	found, err = index.FindByDnsName(j.ctx, nil, "train-01", true)
	compare("dns", found, err)
	center, err := j.finder.DefaultDatacenter(j.ctx)
	must("datacenter", err)
	found, err = index.FindByDatastorePath(j.ctx, center, read.Config.Files.VmPathName)
	compare("datastore", found, err)
	several, err := index.FindAllByIp(j.ctx, nil, read.Guest.IpAddress, true)
	compare("all_ip", first(several), err)
	several, err = index.FindAllByDnsName(j.ctx, nil, "train-01", true)
	compare("all_dns", first(several), err)
	several, err = index.FindAllByUuid(j.ctx, nil, read.Config.Uuid, true, nil)
	compare("all_uuid", first(several), err)
	found, err = index.FindByInventoryPath(j.ctx, "/DC0/vm/nothing")
	same["nothing"] = err == nil && found == nil
	path, err := inventoryPath(j, vm.Reference())
	same["inventory"] = err == nil && path == "/DC0/vm/ai/training/train-01"
	target, err := methods.QueryConfigTarget(j.ctx, j.client.Client,
		&types.QueryConfigTarget{This: read.EnvironmentBrowser, Host: read.Runtime.Host})
	must("QueryConfigTarget", err)
	option, err := methods.QueryConfigOptionEx(j.ctx, j.client.Client, &types.QueryConfigOptionEx{This: read.EnvironmentBrowser})
	must("QueryConfigOptionEx", err)
	same["groups"] = len(target.Returnval.DistributedVirtualPortgroup) > 0
	same["option"] = option.Returnval.Version != "" && len(option.Returnval.HardwareOptions.VirtualDeviceOption) > 2
	say("search", same)
}

func first(found []object.Reference) object.Reference {
	if len(found) == 0 {
		return nil
	}
	return found[0]
}
