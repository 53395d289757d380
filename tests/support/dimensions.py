"""Estates with one knob per dimension, and how often each line of the product runs over them as one of them grows."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import vsphere_ai
from support.estates import DRS, PCI, estate, gpu_info, guest, host, smi, vgpu_device
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.state import Target

PRODUCT = str(Path(vsphere_ai.__file__).parent)
PROFILE = "grid_a100-20c"
DISABLED = ("Disabled", "Disabled")
FOLLOWS = 3.0
"""What the second doubling of a dimension may add, against the first: 2 is proportional, 4 a product."""
FEW = 30
"""Runs of a line that the second doubling has to add before it is judged: a product adds three quarters of all."""


@dataclass(frozen=True)
class Dimensions:
    """How many there are: of clusters, and in each cluster of all the others.

    `vms`, `vmknics` are per host, `adapters` per VM; each cluster has a switch, a datastore and networks of its own.
    """

    clusters: int = 1
    hosts: int = 1
    gpu_hosts: int = 1
    vms: int = 2
    networks: int = 2
    adapters: int = 1
    vmknics: int = 1
    rules: int = 1
    pools: int = 1

    def estate(self) -> Estate:
        """Return the estate."""
        return estate(*(facts for number in range(self.clusters) for facts in _Cluster(self, number).facts()))


class _Cluster:
    """One cluster of such an estate, by its number."""

    def __init__(self, size: Dimensions, number: int) -> None:
        self.size, self.number, self.uuid = size, number, f"50 2b {number:02x}"
        self.ref, self.store = f"ClusterComputeResource:domain-c{number + 10}", f"Datastore:datastore-{number}"
        self.groups = [f"DistributedVirtualPortgroup:pg-{number}-{n}" for n in range(max(size.networks, size.adapters))]
        self.pools = [f"ResourcePool:pool-{number}-{n}" for n in range(size.pools)]
        names = [f"gpu{number:03}-{n:03}" for n in range(size.gpu_hosts)]
        names += [f"esx{number:03}-{n:03}" for n in range(size.hosts)]
        self.hosts = [Target("host", name, f"HostSystem:host-{name}") for name in names]
        self.vms = {
            h: [Target("vm", f"vm-{h.name}-{n:03}", f"VirtualMachine:vm-{h.name}-{n}") for n in range(size.vms)]
            for h in self.hosts
        }

    def facts(self) -> Iterator[Facts]:
        """Yield all objects of the cluster."""
        all_vms = [v for alike in zip(*self.vms.values(), strict=True) for v in alike]  # neighbours are on other hosts
        yield Facts(
            self.ref,
            {"name": f"c{self.number:03}", "parent": "Folder:group-h1", "configurationEx": self._config(all_vms)},
        )
        yield from self._networks()
        for n, pool in enumerate(self.pools):
            parent = self.pools[0] if n else self.ref
            yield Facts(pool, {"name": f"pool{n:03}", "parent": parent, "owner": self.ref})
        summary = {"capacity": 1 << 50, "freeSpace": 1 << 49, "accessible": True}
        mounts = tuple({"key": h.ref, "mountInfo": {"accessible": True, "mounted": True}} for h in self.hosts)
        yield Facts(self.store, {"name": f"store{self.number:03}", "summary": summary, "host": mounts})
        for at, one in enumerate(self.hosts):
            yield self._host(at, one)
            for order, target in enumerate(self.vms[one]):
                yield self._vm(order, target, one, at < self.size.gpu_hosts)

    def _config(self, vms: Sequence[Target]) -> dict[str, Any]:
        rules = tuple(
            {
                "_typeName": "ClusterAntiAffinityRuleSpec",
                "key": n,
                "name": f"rule{n:03}",
                "enabled": True,
                "mandatory": False,
                "vm": (vms[2 * n % len(vms)].ref, vms[(2 * n + 1) % len(vms)].ref),
            }
            for n in range(self.size.rules)
        )
        return {"drsConfig": DRS, "rule": rules, "group": ()}

    def _networks(self) -> Iterator[Facts]:
        switch = f"VmwareDistributedVirtualSwitch:dvs-own-{self.number}"
        parent, policy = (
            "Folder:group-n1",
            {"uplinkTeamingPolicy": {"uplinkPortOrder": {"activeUplinkPort": ("Uplink 1",)}}},
        )
        yield Facts(
            switch,
            {
                "name": f"dvs{self.number:03}",
                "uuid": self.uuid,
                "config.maxMtu": 9000,
                "parent": parent,
                "config.productInfo.version": "7.0.2",
                "config.host": tuple({"config": {"host": h.ref, "backing": {"pnicSpec": ()}}} for h in self.hosts),
            },
        )
        for n, ref in enumerate(self.groups):
            yield Facts(
                ref,
                {
                    "name": f"net{self.number:03}-{n:03}",
                    "key": ref.partition(":")[2],
                    "parent": parent,
                    "config.uplink": False,
                    "config.distributedVirtualSwitch": switch,
                    "config.defaultPortConfig": policy,
                },
            )

    def _port(self, n: int) -> dict[str, Any]:
        key = self.groups[n % len(self.groups)].partition(":")[2]
        return {
            "_typeName": "DistributedVirtualSwitchPortConnection",
            "portgroupKey": key,
            "switchUuid": self.uuid,
            "portKey": str(n),
        }

    def _host(self, at: int, one: Target) -> Facts:
        shown = [v.ref for v in self.vms[one]]
        vnics = tuple(
            {
                "_typeName": "HostVirtualNic",
                "device": f"vmk{n}",
                "spec": {
                    "distributedVirtualPort": self._port(1 + n % (len(self.groups) - 1)),  # none on the first
                    "mtu": 1500,
                    "ip": {"dhcp": False, "ipAddress": f"10.{self.number}.{at}.{n + 1}", "subnetMask": "255.0.0.0"},
                },
            }
            for n in range(self.size.vmknics)
        )
        given: dict[str, Any] = {
            "parent": self.ref,
            "network": tuple(self.groups),
            "datastore": (self.store,),
            "config__network__vnic": vnics,
            "config__network__proxySwitch": (
                {"_typeName": "HostProxySwitch", "dvsUuid": self.uuid, "dvsName": f"dvs{self.number:03}",
                 "pnic": ("key-vmnic4",), "uplinkPort": ({"key": "12", "value": "Uplink 1"},),
                 "spec": {"backing": {"pnicSpec": ({"pnicDevice": "vmnic4", "uplinkPortKey": "12"},)}}},
            ),
        }  # fmt: skip
        if at < self.size.gpu_hosts:
            given |= {
                "config__firewall__ruleset": ({"key": "pvrdma", "enabled": True},),
                "option:Net.PVRDMAVmknic": "vmk0",
            }
            graphics = (gpu_info(PCI[0], "sharedDirect", shown[:2]), gpu_info(PCI[1], "sharedDirect", shown[2:4]))
            given |= {"config__graphicsInfo": graphics, "config__sharedPassthruGpuTypes": (PROFILE,)}
            return host(one, active="sharedDirect", probes=smi(dict.fromkeys(PCI, DISABLED)), **given)
        given |= {
            "config__network__rdmaDevice": (),
            "hardware__pciDevice": (),
            "config__graphicsInfo": (),
            "config__pciPassthruInfo": (),
        }
        return host(one, probes={}, **given)

    def _vm(self, order: int, target: Target, on: Target, has_gpu: bool) -> Facts:
        rdma = {"_typeName": "VirtualVmxnet3Vrdma", "deviceProtocol": "rocev2"}
        cards = tuple(
            {
                "_typeName": "VirtualVmxnet3",
                "key": 4000 + n,
                "macAddress": f"00:50:56:{n:02x}:{order:02x}:{self.number:02x}",
                "backing": {"_typeName": "VirtualEthernetCardDistributedVirtualPortBackingInfo", "port": self._port(n)},
                "connectable": {"connected": True, "startConnected": True},
                **(rdma if has_gpu and not n else {}),
            }
            for n in range(self.size.adapters)
        )
        vgpu = (vgpu_device(13000, PROFILE),) if has_gpu and order < 4 else ()
        given = {
            "config__version": "vmx-17",
            "config__hardware__device": (*cards, *vgpu),
            "network": tuple(self.groups[: self.size.adapters]),
            "datastore": (self.store,),
            "resourcePool": self.pools[order % len(self.pools)],
        }
        return guest(target, on, **given)


def lines_run(work: Callable[[], object]) -> Counter[str]:
    """Return how often each line of the product runs, by ``module:line function``; each turn of a loop is one."""
    counts: Counter[tuple[Any, int]] = Counter()

    def line(frame: Any, event: str, _: object) -> Any:
        if event == "line":
            counts[frame.f_code, frame.f_lineno] += 1
        return line

    def call(frame: Any, *_: object) -> Any:
        return line if frame.f_code.co_filename.startswith(PRODUCT) else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        work()
    finally:
        sys.settrace(before)
    named: Counter[str] = Counter()
    for (code, number), count in counts.items():
        named[f"{code.co_filename.removeprefix(PRODUCT + '/')}:{number} {code.co_name}"] += count
    return named


def grows_faster(work: Sequence[Callable[[], object]]) -> dict[str, tuple[int, ...]]:
    """Return the lines that run more often than in proportion, with their counts; `work` doubles each time.

    The largest is done once before: what is kept for the life of a process, such as names that were parsed, does not
    grow.
    """
    work[-1]()
    small, medium, large = map(lines_run, work)
    found = {}
    for name, most in large.items():
        first, second = medium[name] - small[name], most - medium[name]
        if second >= FEW and second > FOLLOWS * max(first, 1):
            found[name] = (small[name], medium[name], most)
    return found
