"""An estate in which a playbook's VMs stay as many while all others grow, and how often states are observed in it."""

from __future__ import annotations

from support.estates import CLUSTER, DRS, estate, guest, host, vm, wants
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target
from vsphere_ai.resources import kinds
from vsphere_ai.resources.vm_hardware import VmHardware

PER_HOST = 20
OTHERS = "ClusterComputeResource:domain-c2"


def esx(number):
    return Target("host", f"esx{number:04d}", f"HostSystem:host-{number}")


def of_vms(vms, cluster_of=10):
    """So many VMs, twenty to a host; the first hosts are a cluster of their own, and the others are another one."""
    hosts = [esx(n) for n in range(1, vms // PER_HOST + 1)]
    around = Facts(OTHERS, {"name": "others", "parent": "Folder:group-h1", "configurationEx": {"drsConfig": DRS}})
    parents = [CLUSTER if n < cluster_of else OTHERS for n in range(len(hosts))]
    return estate(
        around,
        *(host(h, parent=parent) for h, parent in zip(hosts, parents, strict=True)),
        *(guest(vm(n), hosts[(n - 1) // PER_HOST]) for n in range(1, vms + 1)),
    )


def upgraded(count):
    """What a playbook wants that switches so many VMs off and on again."""
    return {vm(n): wants(VmHardware(version=20)) for n in range(1, count + 1)}


class Counted:
    """Counts how often each kind is observed, while it is used as a context with pytest's monkeypatch."""

    def __init__(self, monkeypatch):
        self.times = 0
        for cls in kinds().values():
            monkeypatch.setattr(cls, "observe", self._counting(cls.observe))

    def _counting(self, observe):
        def counted(*given):
            self.times += 1
            return observe(*given)

        return counted
