"""An estate in which a playbook's VMs stay as many while all others grow, and how often states are observed in it."""

from __future__ import annotations

import sys
from itertools import pairwise
from math import log

from support.estates import CLUSTER, DRS, estate, guest, host, vm, wants
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.state import Target
from vsphere_ai.resources import kinds
from vsphere_ai.resources.vm_hardware import VmHardware

PER_HOST = 20
OTHERS = "ClusterComputeResource:domain-c2"


def esx(number):
    return Target("host", f"esx{number:04d}", f"HostSystem:host-{number}")


def of_vms(vms, cluster_of=10, *, even=False, **host_facts):
    """So many VMs, twenty to a host; the first hosts are a cluster of their own, and the others are another one.

    With `even` all clusters have so many hosts.
    """
    hosts = [esx(n) for n in range(1, vms // PER_HOST + 1)]
    parents = [
        CLUSTER if n < cluster_of else OTHERS + (f"-{n // cluster_of}" if even else "") for n in range(len(hosts))
    ]
    around = (
        Facts(ref, {"name": ref, "parent": "Folder:group-h1", "configurationEx": {"drsConfig": DRS}})
        for ref in dict.fromkeys(parents)
        if ref != CLUSTER
    )
    return estate(
        *around,
        *(host(h, parent=parent, **host_facts) for h, parent in zip(hosts, parents, strict=True)),
        *(guest(vm(n), hosts[(n - 1) // PER_HOST], config__version="vmx-17") for n in range(1, vms + 1)),
    )


def upgraded(count):
    """What a playbook wants that switches so many VMs off and on again."""
    return {vm(n): wants(VmHardware(version=19)) for n in range(1, count + 1)}


class Calls:
    """Counts the functions that are called in its context, those of C included."""

    def __enter__(self):
        self.count = 0
        sys.setprofile(self._one)
        return self

    def _one(self, frame, event, arg):
        if event in ("call", "c_call"):
            self.count += 1

    def __exit__(self, *_):
        sys.setprofile(None)


class Items(dict):
    """A mapping that counts how many of its items are walked over."""

    def __init__(self, *given):
        super().__init__(*given)
        self.walked = 0

    def __iter__(self):
        for key in super().__iter__():
            self.walked += 1
            yield key

    def keys(self):
        return dict.fromkeys(self)

    def items(self):
        return ((key, self[key]) for key in self)

    def values(self):
        return (self[key] for key in self)


def operations(what, of):
    """How many functions are called, and how many objects of the estate are walked over, to work something out."""
    objects = Items(of.objects)
    with Calls() as calls:
        what(Estate(of.about, objects))
    return calls.count + objects.walked


def exponent(sizes, counts):
    """The exponent of growth: the steepest between neighbours."""
    grown = zip(pairwise(sizes), pairwise(counts), strict=True)
    return max(log(more / less) / log(large / small) for (small, large), (less, more) in grown)


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
