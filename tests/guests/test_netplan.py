"""Network files of guests: what is written is read back, one table per NIC, one default route."""

from __future__ import annotations

import shutil
import subprocess
from ipaddress import ip_address, ip_network

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from vsphere_ai.guests.netplan import GuestNic, Route, faults, network_config, network_text, read_network, summary

NICS = (
    GuestNic(
        "mgmt", "00:50:56:00:00:01", ("10.0.0.11/24", "fd00::11/64"), gateways=("10.0.0.1", "fd00::1"), primary=True
    ),
    GuestNic(
        "rail1",
        "00:50:56:00:00:02",
        ("172.16.1.11/24",),
        mtu=9000,
        gateways=("172.16.1.1",),
        routes=(Route("172.16.0.0/16", "172.16.1.254"),),
    ),
    GuestNic("rail2", "00:50:56:00:00:03", ("172.16.2.11/24",), mtu=9000),
)
TEXT = """\
network:
  version: 2
  ethernets:
    mgmt:
      match:
        macaddress: 00:50:56:00:00:01
      set-name: mgmt
      dhcp4: false
      dhcp6: false
      accept-ra: false
      addresses:
      - 10.0.0.11/24
      - fd00::11/64
      routes:
      - to: 0.0.0.0/0
        via: 10.0.0.1
      - to: ::/0
        via: fd00::1
    rail1:
      match:
        macaddress: 00:50:56:00:00:02
      set-name: rail1
      mtu: 9000
      dhcp4: false
      dhcp6: false
      accept-ra: false
      addresses:
      - 172.16.1.11/24
      routes:
      - to: 172.16.1.0/24
        scope: link
        table: 101
      - to: 0.0.0.0/0
        via: 172.16.1.1
        table: 101
      - to: 172.16.0.0/16
        via: 172.16.1.254
        table: 101
      routing-policy:
      - from: 172.16.1.11/32
        table: 101
        priority: 2101
    rail2:
      match:
        macaddress: 00:50:56:00:00:03
      set-name: rail2
      mtu: 9000
      dhcp4: false
      dhcp6: false
      accept-ra: false
      addresses:
      - 172.16.2.11/24
      routes:
      - to: 172.16.2.0/24
        scope: link
        table: 102
      routing-policy:
      - from: 172.16.2.11/32
        table: 102
        priority: 2102
"""


def test_the_file_is_as_netplan_has_it():
    assert network_text(NICS) == TEXT


def test_a_line_says_what_each_nic_has():
    assert summary(NICS) == [
        "mgmt  00:50:56:00:00:01  10.0.0.11/24, fd00::11/64  default via 10.0.0.1, fd00::1",
        "rail1  00:50:56:00:00:02  172.16.1.11/24  MTU 9000  table 101",
        "rail2  00:50:56:00:00:03  172.16.2.11/24  MTU 9000  table 102",
    ]


def test_netplan_itself_takes_the_file(tmp_path):
    netplan = shutil.which("netplan")
    if netplan is None:
        pytest.skip("netplan.io is not installed")
    folder = tmp_path / "etc" / "netplan"
    folder.mkdir(parents=True)
    (folder / "50-vsphere-ai.yaml").write_text(network_text(NICS), "utf-8")
    (folder / "50-vsphere-ai.yaml").chmod(0o600)
    done = subprocess.run([netplan, "generate", "--root-dir", tmp_path], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    rail = (tmp_path / "run" / "systemd" / "network" / "10-netplan-rail1.network").read_text("utf-8")
    assert "[RoutingPolicyRule]\nFrom=172.16.1.11/32\nTable=101\n" in rail.replace("Priority=2101\n", "")
    assert "Destination=172.16.0.0/16\nGateway=172.16.1.254\nTable=101\n" in rail


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"primary": False}, "has to be the primary one"),
        ({"name": "rail1"}, "two NICs have the name rail1"),
        ({"mac": "00:50:56:00:00:02"}, "two NICs have the MAC address"),
        ({"name": "a-name-of-16-chars"}, "is no name of an interface"),
        ({"name": "../x"}, "is no name of an interface"),
        ({"mac": "00:50:56:00:00:0A"}, "no MAC address in lower case"),
        ({"gateways": ("10.0.1.1",)}, "is in none of its networks"),
        ({"gateways": ("10.0.0.1", "10.0.0.2")}, "two gateways for IPv4"),
        ({"routes": (Route("10.9.0.0/16", "10.0.1.1"),)}, "is in none of its networks"),
    ],
)
def test_what_a_file_cannot_say_is_a_fault(changes, words):
    first = GuestNic(**{**NICS[0].__dict__, **changes})
    assert any(words in each for each in faults((first, *NICS[1:])))
    assert list(faults(NICS)) == []


@pytest.mark.parametrize("text", ["", "a: 1", "network: {version: 2, ethernets: {a: {dhcp4: true}}}", "{", "- 1"])
def test_another_file_is_refused(text):
    with pytest.raises(ValueError, match="not a network file"):
        read_network(text)


@st.composite
def nic_lists(draw):
    count = draw(st.integers(1, 6))
    primary = draw(st.integers(0, count - 1))
    return tuple(draw(nic(index, index == primary)) for index in range(count))


@st.composite
def nic(draw, index, primary):
    networks = [ip_network(f"10.{index}.0.0/24")] * draw(st.booleans()) + [ip_network(f"fd00:{index}::/64")] * draw(
        st.booleans()
    )
    gateways = tuple(str(network[1]) for network in networks if draw(st.booleans()))
    routes = tuple(
        Route(f"192.168.{n}.0/24" if network.version == 4 else f"fd01:{n}::/64", str(network[2]))
        for network in networks
        for n in range(draw(st.integers(0, 2)))
    )
    addresses = tuple(f"{network[draw(st.integers(3, 200))]}/{network.prefixlen}" for network in networks)
    mtu = draw(st.sampled_from([None, 1500, 9000]))
    return GuestNic(f"nic{index}", f"00:50:56:00:00:{index:02x}", addresses, mtu, gateways, routes, primary)


@given(nic_lists())
@settings(max_examples=200, deadline=None)
def test_what_is_written_is_read_back(nics):
    assert list(faults(nics)) == []
    back = read_network(network_text(nics))
    # a NIC without an address has no table, whichever it is
    assert [n if n.addresses else None for n in back] == [n if n.addresses else None for n in nics]
    assert yaml.safe_load(network_text(nics)) == {"network": network_config(nics)}


@given(nic_lists())
@settings(max_examples=200, deadline=None)
def test_each_address_of_another_nic_leads_to_its_own_table(nics):
    """Replies leave by the NIC that was asked: a rule per address, a table per NIC, defaults of main by the primary."""
    ethernets = network_config(nics)["ethernets"]
    tables = []
    for nic in nics:
        found = ethernets[nic.name]
        routes, rules = found.get("routes", []), found.get("routing-policy", [])
        if nic.primary:
            assert not rules
            assert all("table" not in route for route in routes)
            continue
        assert all("table" in route for route in routes), "a gateway of another NIC is not in the main table"
        assert [ip_address(rule["from"].partition("/")[0]) for rule in rules] == [
            ip_address(text.partition("/")[0]) for text in nic.addresses
        ]
        tables += [{rule["table"] for rule in rules} | {route["table"] for route in routes}]
    assert all(len(each) <= 1 for each in tables)
    used = [table for each in tables for table in each]
    assert len(used) == len(set(used))
