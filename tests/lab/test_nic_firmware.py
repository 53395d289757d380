"""Driver and firmware of NICs in the lab: in vCenter from vSphere 8.0 on, in the host's shell always."""

from __future__ import annotations

import pytest

from vsphere_ai.lab.hardware import drivers, parts
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.ledger import Ledger
from vsphere_ai.lab.shell import esxcli

FARM = """
name: firmware
vcenter: {version: VCENTER, build: 22385739, api: API}
clusters: [{name: gpu-a}]
hosts:
  - name: esx01.lab.local
    cluster: gpu-a
    version: HOST
    nics:
      - {name: vmnic4, pci: "0000:5e:00.0", model: ConnectX-6, rdma: vmrdma0}
      - {name: vmnic6, pci: "0000:60:00.0", model: BCM57414, rdma: vmrdma1}
"""
TOLD = [("4.19.16.10", "20.28.1002"), ("216.0.50.0", "216.0.251.0/pkg 216.0.333.11")]


@pytest.mark.lab
@pytest.mark.parametrize(
    ("vcenter", "api", "host", "client", "told"),
    [
        ("8.0.2", "8.0.2.0", "8.0.2", "v8_0_2_0", TOLD),
        ("8.0.2", "8.0.2.0", "8.0.0", "v8_0_0_1", TOLD),
        ("8.0.2", "8.0.2.0", "7.0.2", "v8_0_2_0", [(None, None)] * 2),
        ("8.0.2", "8.0.2.0", "8.0.2", "v7_0_2_0", [(None, None)] * 2),  # an older client never gets newer fields
        ("7.0.2", "7.0.2.0", "7.0.2", "v7_0_2_0", [(None, None)] * 2),
    ],
)
def test_who_tells_vcenter(make_lab, new_client, vcenter, api, host, client, told):
    text = FARM.replace("VCENTER", vcenter).replace("API", api).replace("HOST", host)
    soap = new_client(make_lab(text), version=f"vim.version.{client}")
    found = soap.host("esx01").config.network.pnic
    assert [(n.driverVersion, n.firmwareVersion) for n in found] == told


def nic(name="vmnic4"):
    return parts.Pnic(name, "0000:5e:00.1", "0c:42:a1:00:00:01", "nmlx5_core", firmware="20.28.1002", speed_mb=100000)


def test_the_shell_tells_it():
    host = LabHost("esx01", Ledger(), pnics=[nic()])
    said = esxcli.main(host, ["network", "nic", "get", "-n", "vmnic4"])
    assert said.status == 0
    info = said.stdout.partition("   Driver Info: \n")[2].splitlines()[:4]
    assert info == [
        "         Bus Info: 0000:5e:00:1",
        "         Driver: nmlx5_core",
        "         Firmware Version: 20.28.1002",
        "         Version: 4.19.16.10",
    ]
    assert "   Pause RX: true\n" in said.stdout
    assert len(host.ledger) == 0


@pytest.mark.parametrize(
    ("words", "said"), [(["-n", "vmnic9"], "Invalid NIC name: vmnic9"), ([], "Missing required parameter --nic-name")]
)
def test_the_shell_refuses(words, said):
    result = esxcli.main(LabHost("esx01", Ledger(), pnics=[nic()]), ["network", "nic", "get", *words])
    assert (result.status, said in result.stdout) == (1, True)


def test_drivers_and_their_packages_are_of_one_version():
    packages = {v.name: v.version.partition("-")[0] for v in parts.default_vibs("7.0.2", "1")}
    same = {n: drivers.VERSIONS[n] for n in ("igbn", "nmlx5_core")}
    assert same == {"igbn": packages["igbn"], "nmlx5_core": packages["nmlx5-core"]}
