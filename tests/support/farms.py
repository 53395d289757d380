"""Plans that reboot hosts one after the other, with running VMs on the first one."""

from __future__ import annotations

from support.estates import ESX1, estate, guest, host, made, vm, wants
from vsphere_ai.language.playbooks.play import Rolling
from vsphere_ai.model.state import Target
from vsphere_ai.resources.host_graphics import HostGraphics
from vsphere_ai.resources.mig import Mig
from vsphere_ai.resources.vm_hardware import VmHardware

DIRECT, MIG, FULL = (
    HostGraphics(default_type="shared_direct"),
    Mig(mode="enabled"),
    VmHardware(memory_reservation="full"),
)


def farm(hosts=2, vms=2, *, budget=1, **more):
    """N hosts to be rebooted, with N running VMs of the playbook on the first one."""
    machines = [Target("host", f"esx{n:02d}", f"HostSystem:host-{n}") for n in range(1, hosts + 1)]
    guests = [vm(n) for n in range(1, vms + 1)]
    seen = estate(*(host(h, **more) for h in machines), *(guest(v, ESX1) for v in guests))
    rolling = Rolling(evacuate="power_off", max_unavailable=budget)
    plan = made(seen, {h: wants(DIRECT, MIG, rolling=rolling) for h in machines} | {v: wants(FULL) for v in guests})
    assert plan.problems == ()
    return plan
