"""The RDMA MTU a device uses, held against what fits into the frames of its switch."""

from __future__ import annotations

import pytest
from support.estates import ESX1
from support.fabrics import fabric, machine, port_group, switch

from vsphere_ai.fabric.host import mtu_link, rdma_mtu_over
from vsphere_ai.fabric.route import FabricRoute


@pytest.mark.parametrize(
    ("ethernet", "rdma"), [(9000, 4096), (4192, 4096), (4191, 2048), (1500, 1024), (1280, 1024), (608, 512), (100, 256)]
)
def test_what_fits(ethernet, rdma):
    assert rdma_mtu_over(ethernet) == rdma


@pytest.mark.parametrize(
    ("ethernet", "uses", "verdict", "said"),
    [
        (9000, 4096, "pass", ""),
        (9000, 1024, "info", "MTU 9000 has room for RDMA MTU 4096: look at the MTU of the NIC"),
        (1500, 512, "info", "MTU 1500 has room for RDMA MTU 1024"),
        (1500, 1024, "info", "MTU 9000 all the way gives RDMA MTU 4096"),
        (9000, None, "pass", ""),
    ],
)
def test_the_trace_prints_it_and_says_what_would_fit(ethernet, uses, verdict, said):
    estate = fabric(machine(ESX1), switch(config__maxMtu=ethernet))
    device = {"device": "vmrdma0", "connectionInfo": {"mtu": uses}}
    group = port_group("dvportgroup-1", "dvpg-rdma")
    route = FabricRoute(
        group, estate[ESX1.ref], switch=estate[group.get("config.distributedVirtualSwitch")], device=device
    )
    link = mtu_link(estate, ESX1, route)
    assert f"vmrdma0 {uses or '?'}" in link.seen
    assert (link.verdict, link.finding.rule if verdict == "info" else "host.rdma-mtu") == (verdict, "host.rdma-mtu")
    assert said in link.finding.remedy
