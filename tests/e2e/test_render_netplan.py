"""`render netplan`: what a VM carries is printed, and why one carries nothing."""

from __future__ import annotations

import json

import pytest
import yaml
from support.farm import option, reconfigure

from vsphere_ai.guests.cloud_init import Guest, extra_config
from vsphere_ai.guests.netplan import GuestNic, network_config

pytestmark = pytest.mark.lab
NICS = (
    GuestNic("mgmt", "00:50:56:00:00:01", ("10.9.0.11/24", "fd00::11/64"), gateways=("10.9.0.1",), primary=True),
    GuestNic("rail1", "00:50:56:00:00:02", ("172.16.1.11/24",), 9000, ("172.16.1.1",)),
)


def test_the_network_file_of_a_vm_is_printed_as_the_vm_carries_it(soap, cli):
    vm = soap.vm("train-01")
    guest = Guest("train-01", "id", NICS)
    reconfigure(soap, vm, extraConfig=[option(k, v) for k, v in extra_config(guest).items()])
    assert cli("render", "netplan", "train-01") == 0
    assert yaml.safe_load(cli.out) == {"network": json.loads(json.dumps(network_config(guest.nics)))}
    assert cli("render", "netplan", "train-01", "train-02", "-o", "json") == 1
    one, two = json.loads(cli.out)["vms"]
    assert (one["vm"], len(one["nics"]), one["problems"]) == ("train-01", 2, [])
    assert (two["vm"], two["network"], two["reason"]) == ("train-02", None, "it has no guestinfo.metadata")
    assert cli("render", "netplan", "no-such-vm") == 64
