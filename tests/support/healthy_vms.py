"""VMs in order, as guest and host show them: what checks of health begin with."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from vsphere_ai.health.answers import GuestFacts, Interface, RdmaLink, SmiGpu
from vsphere_ai.health.checks import ObservedVm
from vsphere_ai.health.witness import HostFacts
from vsphere_ai.model.nodes import Node, NodeGpu, Rail

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
PCI = "0000:3b:00.0"


def healthy(number=1, *, rails=1, passthrough=False):
    """A VM in order, as both witnesses see it."""
    gpu = SmiGpu(0, f"GPU-{number}", "0000:02:00.0", "A100", "535.161.05", 40960, 6)
    known = replace(gpu, throttle=1, ecc_uncorrected=0, ecc_corrected=0, remap_pending=False, remap_failed=False)
    known = replace(known, pcie=(1, 4, 16, 16))
    names = [f"rdma{n}" for n in range(1, rails + 1)]
    node = Node(
        f"trn-{number:04d}",
        "10.0.0.1",
        host=f"esx{number % 250:03d}",
        gpus=(NodeGpu(0, "0000:02:00.0", PCI, gpu.uuid, "" if passthrough else "a100-40c"),),
        rails=tuple(Rail(n, f"172.16.1.{at}", at, vmnic=f"vmnic{at}", speed=100) for at, n in enumerate(names, 1)),
    )
    guest = GuestFacts(
        gpus=(known if passthrough else gpu,),
        cuda="12.2",
        packages={"torch": "2.4.0"},
        links=tuple(RdmaLink(f"roces{n}f1", 1, "ACTIVE", name) for n, name in enumerate(names)),
        interfaces={name: Interface(name, 9000, True, (node.rails[n].address,)) for n, name in enumerate(names)},
        rules=tuple((rail.address, "101") for rail in node.rails),
        kernel=("[    0.000000] Linux version 5.15",),
        uptime=90_000.0,
        gid_types={f"roces{n}f1/1": ("IB/RoCE v1", "RoCE v2") for n in range(rails)},
    )
    host = HostFacts(
        gpus={} if passthrough else {PCI: replace(known, bus=PCI, driver="535.161.03")},
        driver="535.161.03",
        uplink_speed={rail.vmnic: 100.0 for rail in node.rails},
        nominal_speed={rail.vmnic: 100.0 for rail in node.rails},
        switch_mtu={name: 9000 for name in names},
    )
    return ObservedVm(node, guest, host, passthrough=passthrough)
