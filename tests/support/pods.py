"""VMs with adapters, guests and pools, as vCenter and the inventory show them, for exports to Kubernetes."""

from __future__ import annotations

import base64
import gzip
import json

from support.estates import CLUSTER, ESX1, estate
from support.fabrics import RDMA, nic, port_group, proxy, switch
from vsphere_ai.addresses.pool import AddressPool
from vsphere_ai.kubernetes.export import export
from vsphere_ai.kubernetes.export_network_operator import NetworkOperatorOptions
from vsphere_ai.kubernetes.export_spiderpool import SpiderpoolOptions
from vsphere_ai.kubernetes.pod_networks import pods_on
from vsphere_ai.kubernetes.vm_nodes import nodes_of
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target

PASSES = {"forgedTransmits": True, "allowPromiscuous": False, "macLearningPolicy": {"enabled": True}}
DROPS = {"forgedTransmits": False, "allowPromiscuous": False, "macLearningPolicy": {"enabled": True}}
API = {"vmxnet3": "VirtualVmxnet3", "pvrdma": "VirtualVmxnet3Vrdma", "sriov": "VirtualSriovEthernetCard"}
SPIDERPOOL, OPERATOR = SpiderpoolOptions(), NetworkOperatorOptions()


def vm(number):
    return Target("vm", f"trn-{number:02d}", f"VirtualMachine:vm-{number}")


def mac(number, at):
    return f"00:50:56:{at:02x}:{number >> 8:02x}:{number & 255:02x}"


def card(number, at, group, kind="pvrdma"):
    port = {"portgroupKey": group, "switchUuid": "uuid of dvs-rdma"}
    return {"_typeName": API[kind], "key": 4000 + at, "macAddress": mac(number, at).upper(),
            "deviceInfo": {"label": f"Network adapter {at + 1}"}, "backing": {"port": port}}  # fmt: skip


def passed(vendor, device):
    short = vendor - 0x10000 if vendor > 0x7FFF else vendor
    backing = {"_typeName": "VirtualPCIPassthroughDeviceBackingInfo", "id": "0000:5e:00.0", "vendorId": short,
               "deviceId": f"{device:x}"}  # fmt: skip
    return {"_typeName": "VirtualPCIPassthrough", "key": 13000, "backing": backing}


def dynamic(*models):
    """A device of any of some models, as a label or a list of ids asks for it."""
    allowed = tuple({"vendorId": vendor, "deviceId": device} for vendor, device in models)
    backing = {"_typeName": "VirtualPCIPassthroughDynamicBackingInfo", "allowedDevice": allowed}
    return {"_typeName": "VirtualPCIPassthrough", "key": 13001, "backing": backing}


def ethernet(number, at, name, *addresses, **more):
    found = {"match": {"macaddress": mac(number, at)}, "set-name": name, "addresses": list(addresses), **more}
    return {name: found}


def options(metadata):
    """The advanced settings by which a guest gets its metadata, as this tool writes them."""
    text = base64.b64encode(gzip.compress(json.dumps(metadata).encode(), mtime=0)).decode()
    values = {"guestinfo.metadata": text, "guestinfo.metadata.encoding": "gzip+base64"}
    return tuple({"_typeName": "OptionValue", "key": key, "value": value} for key, value in values.items())


def machine(number, cards, ethernets=None, *, hostname="", name="", net=(), **more):
    """Return a VM; `ethernets` is what its network file has, `net` what its guest reports."""
    metadata = {"local-hostname": hostname, "network": {"version": 2, "ethernets": ethernets or {}}}
    target = vm(number)
    properties = {
        "name": name or target.name,
        "parent": "Folder:group-v1",
        "runtime.host": ESX1.ref,
        "config.hardware.device": tuple(cards),
        "config.extraConfig": options(metadata) if ethernets is not None else (),
        "guest.net": tuple(net),
        **{key.replace("__", "."): value for key, value in more.items()},
    }
    return Facts(target.ref, properties)


def reports(number, at, *addresses):
    """What VMware Tools reports of a NIC."""
    shown = tuple(
        {"ipAddress": ip, "prefixLength": int(length), "state": state}
        for ip, length, state in ((*each.split("/"), "preferred")[:3] for each in addresses)
    )
    return {"macAddress": mac(number, at), "ipConfig": {"ipAddress": shown}}


def seen(*vms, policy=PASSES, groups=("rail1", "rail2", "rail3"), mtu=9000):
    """An estate with these VMs on a host whose RDMA NIC carries a port group per rail."""
    device = {"device": "vmrdma0", "backing": {"pairedUplink": "key-vmnic4"}}
    host = Facts(
        ESX1.ref,
        {
            "name": ESX1.name,
            "parent": CLUSTER,
            "config.network.rdmaDevice": (device,),
            "config.network.pnic": (nic("vmnic4"),),
            "config.network.proxySwitch": (proxy("dvs-rdma", {"Uplink 1": "vmnic4"}),),
        },
    )
    made = [port_group(f"pg-{g}", f"dvpg-{g}", macManagementPolicy=policy) for g in groups]
    return estate(host, switch(RDMA, "dvs-rdma", config__maxMtu=mtu), *made, *vms)


def rails(*vms, version=4):
    """VMs with an adapter on rail 1 and an address of their own block each: the usual case."""
    subnet = "172.16.2.{}/23" if version == 4 else "fd00::{:x}/64"
    return [
        machine(n, [card(n, 1, "pg-rail1")], ethernet(n, 1, "rail1", subnet.format(32 * (n - 1) + 1), mtu=9000))
        for n in vms
    ]


POOLS = {"rail1": AddressPool(subnet="172.16.2.0/23", per_node=27)}


def exported(estate_, how=SPIDERPOOL, pools=None, *, interfaces=None, reserved=()):
    nodes = nodes_of(estate_, estate_.vms, interfaces or {})
    return export(pods_on(nodes, POOLS if pools is None else pools, reserved), how, "a test")


def rules(found, verdict="fail"):
    return [finding.rule for finding in found.findings if finding.verdict == verdict]
