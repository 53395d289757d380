"""The hosts' RDMA devices: where each sits in the fabric, and what a host does not tell."""

from __future__ import annotations

import json

import pytest
from support.estates import ESX1, ESX2, estate, host

from vsphere_ai.fabric.devices import rdma_devices
from vsphere_ai.model.facts import CommandOutput, Facts, ProbeFailure
from vsphere_ai.report.network.devices_text import devices_document, devices_text

PNIC, RDMA, PROXY = "config.network.pnic", "config.network.rdmaDevice", "config.network.proxySwitch"


def of(*hosts):
    seen = estate(*hosts)
    return tuple(rdma_devices(seen, seen.hosts))


def shown(found):
    return json.loads(json.dumps(devices_document(estate(), found).as_json()))["hosts"]


def only(found):
    ((_, (device,)),) = found
    return device


def test_a_device_is_found_with_its_nic_and_its_seat():
    device = only(of(host(ESX1)))
    assert (device.name, device.nic, device.switch, device.uplink) == ("vmrdma0", "vmnic4", "dvs-rdma", "Uplink 1")
    assert device.protocols == ("rocev1", "rocev2")


def test_what_vsphere_8_tells_of_a_nic():
    (card, *_), (rdma,) = (host(ESX1).get(path) for path in (PNIC, RDMA))
    card = {**card, "pci": "0000:5e:00.0", "driver": "nmlx5_core", "driverVersion": "4.23.0.66",
            "firmwareVersion": "22.36.1010", "linkSpeed": {"speedMb": 100000}}  # fmt: skip
    rdma = {**rdma, "driver": "nmlx5_rdma", "connectionInfo": {"state": "active", "mtu": 4096, "speedInMbps": 100000},
            "capability": {"iWarpCapable": True}}  # fmt: skip
    found = of(host(ESX1, config__network__pnic=(card,), config__network__rdmaDevice=(rdma,)))
    text = devices_text(found)
    assert "vmrdma0  vmnic4 (0000:5e:00.0), 100 Gbit/s, active, iWARP, RDMA MTU 4096" in text
    assert "driver nmlx5_rdma on nmlx5_core 4.23.0.66, firmware 22.36.1010" in text
    assert text.endswith("\n1 RDMA device on 1 host, 1 active")
    (told,) = shown(found)[0]["devices"]
    assert (told["firmware"], told["speed"], told["protocols"]) == ("22.36.1010", 100000, ["iwarp"])


@pytest.mark.parametrize(
    ("more", "said", "devices"),
    [
        ({"config__network__rdmaDevice": ()}, "  no RDMA device", []),
        ({"config__network__rdmaDevice": None, "config__network__pnic": None}, "  its network cannot be read", None),
    ],
)
def test_none_is_not_the_same_as_not_told(more, said, devices):
    found = of(host(ESX1, **more), host(ESX2))
    assert devices_text(found).splitlines()[1] == said
    assert shown(found)[0]["devices"] == devices


def test_a_device_nobody_put_on_a_switch():
    device = only(of(host(ESX1, config__network__proxySwitch=())))
    assert (device.switch, device.uplink) == ("", "")
    assert "on no distributed switch" in devices_text(of(host(ESX1, config__network__proxySwitch=())))


@pytest.mark.parametrize(
    ("version", "answer", "why"),
    [
        ("7.0.2", ProbeFailure("ssh.stopped", "the SSH service (TSM-SSH) of esx01 is stopped"),
         "the SSH service (TSM-SSH) of esx01 is stopped"),
        ("7.0.2", CommandOutput(1, "Invalid NIC name: vmnic4\n"), "esxcli says 'Invalid NIC name: vmnic4'"),
        ("7.0.2", CommandOutput(0, "   Name: vmnic4\n"), "esxcli does not report it"),
        ("7.0.2", None, "the host was not asked over SSH, which takes an ssh: section in the inventory"),
        ("8.0.2", None, "the host does not report it to vCenter"),
    ],
)  # fmt: skip
def test_firmware_that_is_not_known_says_why(version, answer, why):
    facts = host(ESX1, config__product={"version": version})
    asked = {"nic-info:vmnic4": answer} if answer else {}
    found = of(Facts(facts.ref, facts.properties, {}, asked))
    assert (only(found).firmware, only(found).firmware_unknown) == ("", why)
    assert f"firmware not known: {why}" in devices_text(found)


def test_the_shell_s_answer_is_read():
    facts = host(ESX1, config__product={"version": "7.0.2"})
    said = "   Driver Info: \n      Driver: nmlx5_core\n      Firmware Version: 20.28.1002\n      Version: 4.19\n"
    device = only(of(Facts(facts.ref, facts.properties, {}, {"nic-info:vmnic4": CommandOutput(0, said)})))
    assert (device.driver_version, device.firmware, device.firmware_unknown) == ("4.19", "20.28.1002", "")


def test_names_are_told_tame():
    (rdma,) = host(ESX1).get(RDMA)
    found = of(host(ESX1, config__network__rdmaDevice=({**rdma, "description": "a\x1b[2Jb\nc"},)))
    assert "\x1b" not in devices_text(found)
    assert "b\nc" not in devices_text(found)
