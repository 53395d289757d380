"""What can be wrong with a set of VMs: its source, its places, its addresses, its rules, and the rights to make it.

Sources: vSphere Web Services API reference (CloneVM_Task, VirtualMachineCloneSpec, ClusterRuleInfo).
"""

from __future__ import annotations

from honesty import sets
from honesty.case import Case, Vm
from honesty.faults import always, fault

RIGHTS = (
    "VirtualMachine.Provisioning.DeployTemplate",
    "VirtualMachine.Inventory.CreateFromExisting",
    "Resource.AssignVMToPool",
    "Datastore.AllocateSpace",
    "Network.Assign",
    "VirtualMachine.Config.AddRemoveDevice",
    "VirtualMachine.Config.AdvancedConfig",
    "VirtualMachine.Interact.PowerOn",
    "Global.SetCustomField",
    "Global.ManageCustomFields",
)
"""Privileges that a set of VMs takes while it is made."""


def never(_case: Case, _about: str) -> bool:
    """Nothing is wrong."""
    return False


def of_sets(name: str, spoils=always):
    """Make a fault of a function that changes the one play of a case."""

    def made(change):
        def put(case, rng):
            play = sets.make(case, rng)
            return None if play is None else change(case, rng, play)

        fault(name, spoils, of_sets=True)(put)
        return change

    return made


@of_sets("a set of VMs", never)
def _set(_case, _rng, play):
    return play["vms"]


@of_sets("a name that another VM has")
def _name(case, _rng, _play):
    case.vms.append(Vm("trn-01", case.vms[-1].host, on=False, more={"folder": "ai"}))
    return "trn-01"


@of_sets("a source that is not there")
def _source(_case, _rng, play):
    play["vm_set"]["source"] = "another"
    return "another"


@of_sets("a source that runs")
def _runs(case, _rng, _play):
    image = case.vm(sets.IMAGE)
    image.on, image.more = True, {}
    return image.name


@of_sets("a snapshot that is not there")
def _snapshot(_case, _rng, play):
    play["vm_set"]["snapshot"] = "before"
    return "before"


@of_sets("a linked clone with a larger disk")
def _linked(_case, _rng, play):
    play["vm_set"] |= {"linked": True, "disk_gb": 400}
    return sets.IMAGE


@of_sets("a custom attribute that is not there")
def _attribute(_case, _rng, play):
    play["vm_set"]["custom_attributes"] = {"Owner of the VMs": "ml"}
    return "Owner of the VMs"


@of_sets("tags", never)
def _tags(case, _rng, play):
    case.tags = ["Team/ml", "Project/llm", "Project/vision"]
    play["vm_set"]["tags"] = {"Team": "ml", "Project": ["llm", "vision"]}
    return "Team"


@of_sets("a tag that is not there")
def _no_tag(case, rng, play):
    case.tags = ["Team/ml"]
    play["vm_set"]["tags"] = rng.choice(({"Team": "web"}, {"Owner": "ml"}))
    return "tag"


@of_sets("the right to assign tags is missing")
def _tag_right(case, rng, play):
    case.tags = ["Team/ml"]
    play["vm_set"]["tags"] = {"Team": "ml"}
    case.denied.append(rng.choice(("InventoryService.Tagging.AttachTag", "InventoryService.Tagging.ObjectAttachable")))
    return case.denied[-1]


@of_sets("a port group that is not there")
def _group(_case, _rng, play):
    play["vm_set"]["nics"][-1]["port_group"] = "dvpg-gone"
    return "dvpg-gone"


@of_sets("an MTU above that of the switch")
def _mtu(_case, _rng, play):
    play["vm_set"]["nics"][-1]["mtu"] = 9000
    return "mtu"


@of_sets("a pool without room")
def _pool(case, _rng, play):
    for pool in case.pools.values():
        pool["ranges"] = [pool["ranges"][0].partition("-")[0]]
    play["vms"] = sets.names(2)
    return play["vms"]


@of_sets("a datastore without room for one")
def _space(case, _rng, play):
    return _store(case, play, free=10)


@of_sets("a datastore with room for one of three")
def _less_space(case, _rng, play):
    play["vms"] = sets.names(sets.MANY)
    for number, pool in enumerate(case.pools.values(), 60):
        pool["ranges"] = [f"10.{number}.0.11-10.{number}.0.20"]
    return _store(case, play, free=30)


def _store(case, play, *, free):
    case.datastores = [{"name": sets.STORE, "capacity_gb": 500, "free_gb": free}]
    case.vm(sets.IMAGE).more |= {"datastore": sets.STORE, "disk_gb": 40, "disk_used_gb": 20}
    play["vm_set"]["datastore"] = sets.STORE
    return sets.STORE


@of_sets("disks that are added", never)
def _disks(_case, _rng, play):
    play["vm_set"]["disks"] = [{"name": "scratch", "gb": 20}, {"name": "local", "gb": 10, "controller": "nvme"}]
    return "scratch"


@of_sets("a size of a disk that the source does not have")
def _no_disk(_case, _rng, play):
    play["vm_set"]["disks"] = [{"number": 5, "gb": 400}]
    return "disk 5"


@of_sets("a thick disk without room for it")
def _thick(case, _rng, play):
    case.datastores = [{"name": sets.STORE, "capacity_gb": 500, "free_gb": 30}]
    disk = {"name": "scratch", "gb": 40, "provisioning": "thick", "datastore": sets.STORE}
    play["vm_set"]["disks"] = [disk]
    return sets.STORE


@of_sets("more VMs than hosts, always apart")
def _apart(case, _rng, play):
    body = play["vm_set"]
    many = 1 + sum(h.cluster == body["cluster"] for h in case.hosts)
    play["vms"] = sets.names(many)
    case.drs[body["cluster"]] = "fullyAutomated"
    for number, pool in enumerate(case.pools.values(), 60):
        pool["ranges"] = [f"10.{number}.0.11-10.{number}.0.30"]
    body["placement"] = {"anti_affinity": "must"}
    return play["vms"]


@of_sets("rules without DRS")
def _no_drs(case, _rng, play):
    body = play["vm_set"]
    case.drs[body["cluster"]] = "off"
    body["placement"] = {"anti_affinity": "should"}
    return body["cluster"]


@of_sets("hosts that are not there")
def _no_hosts(case, _rng, play):
    case.drs[play["vm_set"]["cluster"]] = "fullyAutomated"
    play["vm_set"]["placement"] = {"hosts": ["gone*"]}
    return "gone*"


@of_sets("a right of sets that is missing")
def _right(case, rng, _play):
    case.denied.append(rng.choice(RIGHTS))
    return case.denied[-1]


@of_sets("the right to add disks is missing")
def _disk_right(case, _rng, play):
    play["vm_set"]["disks"] = [{"name": "scratch", "gb": 20}]
    case.denied.append("VirtualMachine.Config.AddNewDisk")
    return case.denied[-1]


@of_sets("the right to extend disks is missing")
def _growth_right(case, _rng, play):
    play["vm_set"]["disk_gb"] = 400
    case.denied.append("VirtualMachine.Config.DiskExtend")
    return case.denied[-1]


@fault("the right to change a cluster is missing", always, of_sets=True)
def _cluster(case, rng):
    if sets.make(case, rng, rules=True) is None:
        return None
    case.denied.append("Host.Inventory.EditCluster")
    return case.denied[-1]


@fault("a set that shrinks", never, of_sets=True)
def _shrinks(case, rng):
    play = sets.shrinking(case, rng)
    return play and play["vms"]


@fault("a VM of a set that the account may not delete", always, of_sets=True)
def _undeletable(case, rng):
    play = sets.shrinking(case, rng)
    if play is None:
        return None
    case.denied.append("VirtualMachine.Inventory.Delete")
    return play["vms"]


def customized(case, rng, **image):
    """Let vCenter customize the guests of a set, with no more than it can give; return the play, or None."""
    play = sets.make(case, rng)
    if play is not None:
        play["vm_set"]["customize"] = "linux_prep"
        del play["vm_set"]["users"]
        source = case.vm(sets.IMAGE)
        source.more = {**source.more, "image": {"cloud_init": "none", **image}}
    return play


@fault("a set that vCenter customizes", never, of_sets=True)
def _customized(case, rng):
    play = customized(case, rng)
    return play and play["vms"]


@fault("a guest that vCenter cannot customize", always, of_sets=True)
def _not_customizable(case, rng):
    return customized(case, rng, **rng.choice(({"customization": False}, {"tools": "9.4.0"}))) and sets.IMAGE


@fault("the right to customize is missing", always, of_sets=True)
def _no_customize(case, rng):
    if customized(case, rng) is None:
        return None
    case.denied.append("VirtualMachine.Provisioning.Customize")
    return case.denied[-1]


@fault("users that LinuxPrep cannot give", always, of_sets=True)
def _prepared_users(case, rng):
    play = customized(case, rng)
    if play is None:
        return None
    play["vm_set"]["users"] = [{"name": "ops", "ssh_authorized_keys": [sets.KEY]}]
    return play["vms"]


@of_sets("hosts whose licences let no other VM run")
def _licences(case, _rng, play):
    """The image is a template, which does not run."""
    for host in (h for h in case.hosts if h.cluster == play["vm_set"]["cluster"]):
        if not any(v.on for v in case.on(host)):
            case.vms.append(Vm(f"busy-{host.name.partition('.')[0]}", host.name, memory_gb=1, more={"folder": "ai"}))
        host.more["licensed_vms"] = sum(v.on for v in case.on(host))
    return play["vms"]


@fault("a source whose GPU has no room in its addresses", always, of_sets=True)
def _mmio(case, rng):
    """A vGPU with all memory of a board of more than 16 GB: the VM powers on with a large window and EFI only."""
    play = with_gpu(case, rng)
    if play is None:
        return None
    image = case.vm(sets.IMAGE)
    if rng.random() < 0.3:
        image.more["firmware"] = "bios"
    else:
        image.more["extra_config"] = {"pciPassthru.use64bitMMIO": "TRUE", "pciPassthru.64bitMMIOSizeGB": "32"}
    return image.name


@fault("a source with a GPU", never, of_sets=True)
def _gpu(case, rng):
    return with_gpu(case, rng) and sets.IMAGE


def with_gpu(case, rng):
    """Let a set have one VM, whose source has a vGPU with all memory of a board; return its play, or None."""
    for host in case.hosts:
        whole = max(host.board.sliced) if host.board else 0
        free = host.shared_direct and not host.mig and not any(v.vgpu for v in case.on(host))
        if whole > 16 and free and host.cluster and (play := sets.make(case, rng, count=1, rules=False)):
            if play["vm_set"]["cluster"] != host.cluster:
                return None
            image = case.vm(sets.IMAGE)
            image.host, image.vgpu = host.name, (f"{host.board.stem}-{whole}c",)
            return play
    return None
