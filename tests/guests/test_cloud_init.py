"""What a VM carries for cloud-init: it is read back, the same in every plan, and holds no password."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import yaml

from vsphere_ai.guests.cloud_init import (
    MOST_BYTES,
    READY,
    Guest,
    User,
    decoded,
    extra_config,
    faults,
    missing_addresses,
)
from vsphere_ai.guests.netplan import GuestNic, network_config

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHR5cGljYWwga2V5IG9mIGEgdGVzdA== ops@example.com"
NICS = (
    GuestNic("mgmt", "00:50:56:00:00:01", ("10.0.0.11/24",), gateways=("10.0.0.1",), primary=True),
    GuestNic("rail1", "00:50:56:00:00:0b", ("172.16.1.11/24", "fd00::11/64"), mtu=9000),
)
GUEST = Guest("trn-01", "9b1c0b6e-0000-4000-8000-000000000001", NICS, (User("ops", (KEY,)),), generation=3)


def test_the_metadata_say_who_the_vm_is_and_what_its_network_is():
    found = json.loads(decoded(extra_config(GUEST), "metadata"))
    assert found["instance-id"] == GUEST.instance_id
    assert found["local-hostname"] == "trn-01"
    assert found["network"]["config"] == json.loads(json.dumps(network_config(NICS)))
    assert found["redact"] == ["userdata"]


def test_the_user_data_have_keys_and_no_password_and_end_with_the_word_that_all_is_done():
    text = decoded(extra_config(GUEST), "userdata")
    assert text.startswith("#cloud-config\n")
    found = yaml.safe_load(text)
    assert found["users"] == [
        {
            "name": "ops",
            "ssh_authorized_keys": [KEY],
            "lock_passwd": True,
            "shell": "/bin/bash",
            "sudo": "ALL=(ALL) NOPASSWD:ALL",
        }
    ]
    assert found["ssh_pwauth"] is False
    assert found["runcmd"] == [["vmware-rpctool", f"info-set {READY} 3"]]


def test_the_same_guest_has_the_same_settings_in_every_plan():
    assert extra_config(GUEST) == extra_config(replace(GUEST))
    assert extra_config(GUEST) != extra_config(replace(GUEST, generation=4))
    assert {name for name in extra_config(GUEST) if not name.startswith("guestinfo.")} == set()


@pytest.mark.parametrize("name", ["TRN-01", "trn_01", "-trn", "trn-", "a" * 64, "", "trn.example"])
def test_a_name_that_no_host_can_have_is_a_fault(name):
    assert any("is no host name" in each for each in faults(replace(GUEST, hostname=name)))
    assert list(faults(GUEST)) == []


@pytest.mark.parametrize("key", ["-----BEGIN OPENSSH PRIVATE KEY-----", "hunter2", "ssh-ed25519", ""])
def test_what_is_no_public_key_is_a_fault_and_is_not_repeated(key):
    (found,) = faults(replace(GUEST, users=(User("ops", (key,)),)))
    assert "no public key" in found
    assert len(key) <= 12 or key not in found


def test_more_than_a_guest_can_read_is_a_fault():
    many = tuple(User(f"u{n}", (f"ssh-rsa {(n * 2654435761) ** 40:x}".replace("x", "A"),)) for n in range(700))
    (found,) = faults(replace(GUEST, users=many))
    assert f"at most {MOST_BYTES}" in found


def test_addresses_are_missing_until_the_guest_reports_each_on_its_own_nic():
    reported = {"00:50:56:00:00:01": ["10.0.0.11", "fe80::1"], "00:50:56:00:00:0b": ["FD00::11"]}
    assert list(missing_addresses(NICS, reported)) == [("00:50:56:00:00:0b", "172.16.1.11")]
    reported["00:50:56:00:00:0B"] = ["172.16.1.11"]
    assert list(missing_addresses(NICS, reported)) == []
    swapped = {"00:50:56:00:00:0b": ["10.0.0.11"], "00:50:56:00:00:01": ["172.16.1.11", "fd00::11"]}
    assert len(list(missing_addresses(NICS, swapped))) == 3
