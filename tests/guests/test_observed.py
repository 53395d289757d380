"""The network file of an existing VM: decoded, checked, and why there is none."""

from __future__ import annotations

import json

import pytest
import yaml
from support.estates import estate

from vsphere_ai.app.vms.guest_network import GuestNetworkResult
from vsphere_ai.guests.cloud_init import Guest, extra_config
from vsphere_ai.guests.netplan import GuestNic, network_config, network_text
from vsphere_ai.guests.observed import observed_network
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target
from vsphere_ai.report.network.guest_text import networks_document, networks_text, remarks_text

VM = Target("vm", "trn-01", "VirtualMachine:vm-1")
NICS = (
    GuestNic("mgmt", "00:50:56:00:00:01", ("10.0.0.11/24",), gateways=("10.0.0.1",), primary=True),
    GuestNic("rail1", "00:50:56:00:00:02", ("172.16.1.11/24",), mtu=9000),
)
FOREIGN = {"version": 2, "ethernets": {"id0": {"match": {"macaddress": "00:50:56:00:00:01"}, "dhcp4": True}}}


def found(settings, unreadable=None):
    options = tuple({"_typeName": "OptionValue", "key": k, "value": v} for k, v in settings.items())
    return observed_network(VM, Facts(VM.ref, {"config.extraConfig": options}, unreadable or {}))


def given(network):
    return found({"guestinfo.metadata": json.dumps({"network": network})})


def test_what_this_tool_gave_is_shown_with_a_line_per_nic():
    one = found(extra_config(Guest("trn-01", "id", NICS)))
    assert one.text == network_text(NICS)
    assert len(one.lines) == 2
    assert one.is_valid
    text = networks_text([one, one])
    assert list(yaml.safe_load_all(text)) == [yaml.safe_load(one.text)] * 2
    assert text.startswith("# trn-01\n#   mgmt  00:50:56:00:00:01  10.0.0.11/24")
    assert remarks_text([one]) == ""
    assert networks_document(estate(), [one]).vms[0].network == one.text


def test_a_file_of_another_form_is_shown_and_said_to_be_one():
    one = given(FOREIGN)
    assert yaml.safe_load(one.text) == {"network": FOREIGN}
    assert one.is_valid
    assert "not a network file as this tool writes it" in remarks_text([one])


def test_a_wrong_file_is_shown_with_its_problems():
    config = network_config(NICS)
    config["ethernets"]["mgmt"]["routes"][0]["via"] = "10.9.9.9"
    one = given(config)
    assert one.text
    assert [problem.rule for problem in one.problems] == ["guest.gateway"]
    assert not one.is_valid
    assert remarks_text([one]).startswith("trn-01: guest.gateway: NIC mgmt: ")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "has no guestinfo.metadata"),
        ({"guestinfo.metadata": "---", "guestinfo.metadata.encoding": " "}, "redacted"),
        ({"guestinfo.metadata": "local-hostname: a"}, "describes no network"),
        ({"guestinfo.metadata": "x", "guestinfo.metadata.encoding": "gzip+base64"}, "not encoded"),
    ],
)
def test_why_a_vm_has_none(settings, words):
    one = found(settings)
    assert words in one.reason
    assert (networks_text([one]), one.is_valid) == ("", False)
    assert remarks_text([one]) == f"trn-01: {one.reason}\n"
    assert networks_document(estate(), [one]).vms[0].network is None


def test_settings_that_cannot_be_read_are_no_missing_ones():
    one = found({}, {"config.extraConfig": "no privilege"})
    assert one.reason.endswith("no privilege")


def test_the_exit_code_is_1_where_a_vm_has_none_or_a_wrong_one():
    good, none = given(network_config(NICS)), found({})
    assert [GuestNetworkResult(None, each).exit_code for each in ((good,), (good, none), (none,))] == [0, 1, 1]
