"""Network files in advanced settings: those of this tool, those of others, and what a guest may write there."""

from __future__ import annotations

import base64
import gzip
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.pods import options

from vsphere_ai.guests.cloud_init import Guest, extra_config
from vsphere_ai.guests.netplan import GuestNic
from vsphere_ai.guests.reported import reported
from vsphere_ai.kubernetes.guest_network import guest_file

MAC = "00:50:56:01:00:01"
NETWORK = {
    "version": 2,
    "ethernets": {
        "a": {
            "match": {"macaddress": MAC.upper()},
            "set-name": "rail1",
            "mtu": 9000,
            "addresses": ["172.16.2.1/23", "fd00::1/64"],
            "routes": [{"to": "0.0.0.0/0", "via": "172.16.2.30"}, {"to": "10.0.0.0/8", "scope": "link"}],
        }
    },
}


def settings_of(value, encoding=""):
    found = [{"key": "guestinfo.metadata", "value": value}]
    return (*found, {"key": "guestinfo.metadata.encoding", "value": encoding}) if encoding else tuple(found)


def encoded(text, encoding):
    raw = text.encode()
    if encoding.startswith("gz"):
        raw = gzip.compress(raw)
    return base64.b64encode(raw).decode() if encoding else text


@pytest.mark.parametrize("encoding", ["", "base64", "b64", "gzip+base64", "gz+b64"])
@pytest.mark.parametrize("shape", ["mapping", "text"])
def test_every_way_that_cloud_init_reads_is_read(encoding, shape):
    network = NETWORK if shape == "mapping" else encoded(json.dumps(NETWORK), encoding)
    metadata = {"local-hostname": "trn-01", "network": network}
    metadata |= {"network.encoding": encoding} if shape == "text" and encoding else {}
    found = guest_file(settings_of(encoded(json.dumps(metadata), encoding), encoding))
    assert found.hostname == "trn-01"
    rail = found.ethernets[MAC]
    assert (rail.name, rail.mtu, [str(a) for a in rail.addresses]) == ("rail1", 9000, ["172.16.2.1/23", "fd00::1/64"])
    assert [str(g) for g in rail.gateways] == ["172.16.2.30"]


@pytest.mark.parametrize("network", [{"config": NETWORK}, json.dumps({"config": NETWORK}), [NETWORK], None])
def test_what_cloud_init_does_not_understand_names_no_interface(network):
    assert guest_file(options({"network": network})).ethernets == {}


def test_what_this_tool_gives_to_a_guest_is_read_back():
    nic = GuestNic("rail1", MAC, ("172.16.2.1/27",), 9000, ("172.16.2.30",))
    given_ = extra_config(Guest("trn-01", "id-1", (GuestNic("mgmt", "00:50:56:01:00:02", primary=True), nic)))
    found = guest_file([{"key": key, "value": value} for key, value in given_.items()])
    assert (found.hostname, set(found.ethernets)) == ("trn-01", {MAC, "00:50:56:01:00:02"})
    rail = found.ethernets[MAC]
    assert (rail.name, str(rail.addresses[0]), rail.mtu, str(rail.gateways[0])) == (
        "rail1", "172.16.2.1/27", 9000, "172.16.2.30"
    )  # fmt: skip


def test_a_guest_cannot_make_the_tool_read_without_end():
    bomb = base64.b64encode(gzip.compress(b"{a: 1, " + b" " * 50_000_000)).decode()
    lists = "a: &a [1,1,1,1,1,1,1,1,1]\n" + "\n".join(
        f"{n}: &{n} [{','.join([f'*{p}'] * 9)}]" for p, n in zip("abcdefgh", "bcdefghi", strict=True)
    )
    start = time.process_time()
    assert guest_file(settings_of(bomb, "gzip+base64")).ethernets == {}
    assert guest_file(settings_of(lists)).ethernets == {}
    assert time.process_time() - start < 3


@pytest.mark.parametrize("name", ["", "a b", "eth0\n", "a" * 16, "../x", "-a", 7, None])
def test_a_name_that_is_none_of_an_interface_is_not_taken(name):
    network = {"ethernets": {"a": {"match": {"macaddress": MAC}, "set-name": name}}}
    assert guest_file(options({"network": network})).ethernets[MAC].name == ""


KEYS = ("network", "config", "ethernets", "a", "match", "macaddress", "addresses", "routes", "via")
VALUE = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.sampled_from(["1.2.3.4/5", MAC])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["network", "config", "ethernets", "a", "match", "macaddress", "addresses", "routes", "via"]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=15,
)


@given(VALUE)
@settings(max_examples=150, deadline=None)
def test_any_metadata_is_read_without_an_exception(value):
    guest_file(options(value))
    guest_file(settings_of(json.dumps({"network": {"ethernets": value}})))


@given(VALUE)
@settings(max_examples=60, deadline=None)
def test_any_report_of_a_guest_is_read_without_an_exception(value):
    reported([{"macAddress": MAC, "ipConfig": value}], MAC)
    reported([{"macAddress": MAC, "ipConfig": {"ipAddress": (value,)}}], MAC)
