"""IP pools of the lab's datacenter, by pyVmomi."""

from __future__ import annotations

from pyVmomi import vim


def test_an_ip_pool_is_made_shown_and_removed(soap):
    manager, center = soap.content.ipPoolManager, soap.find(vim.Datacenter, "DC0")
    config = vim.vApp.IpPool.IpPoolConfigInfo(subnetAddress="10.0.0.0", ipPoolEnabled=True, range="10.0.0.10#5")
    number = manager.CreateIpPool(dc=center, pool=vim.vApp.IpPool(name="vapps", ipv4Config=config))
    (found,) = manager.QueryIpPools(dc=center)
    assert (found.id, found.name, found.ipv4Config.range) == (number, "vapps", "10.0.0.10#5")
    manager.DestroyIpPool(dc=center, id=number, force=False)
    assert not manager.QueryIpPools(dc=center)
