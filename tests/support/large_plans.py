"""Plans of many hosts and VMs, and the names in their text."""

from __future__ import annotations

import re

from support.estates import CLUSTER, estate, guest, host, made, wants
from vsphere_ai.language.inventories.patterns import expand
from vsphere_ai.model.state import Target
from vsphere_ai.resources.host_graphics import HostGraphics
from vsphere_ai.resources.vm_hardware import VmHardware


def esx(number):
    return Target("host", f"esx{number:03}.lab.local", f"HostSystem:host-{number}")


def train(number):
    return Target("vm", f"train-{number:04}", f"VirtualMachine:vm-{number}")


def plan_of(hosts, vms, *, versions=(17,)):
    """A plan that reboots every host, and switches every VM off and on."""
    targets = [esx(n) for n in range(1, hosts + 1)]
    guests = [
        guest(train(n), targets[n % hosts], config__version=f"vmx-{versions[n % len(versions)]}")
        for n in range(1, vms + 1)
    ]
    wanted = {h: wants(HostGraphics(default_type="shared_direct")) for h in targets}
    wanted |= {train(n): wants(VmHardware(version=19)) for n in range(1, vms + 1)}
    return made(estate(*(host(h, parent=CLUSTER) for h in targets), *guests), wanted)


def names_in(text):
    """The names that the ranges and words of a text stand for."""
    return [name for term in re.findall(r"[\w.-]+(?:\[\d+:\d+\])?[\w.]*", text) for name in expand(term)]
