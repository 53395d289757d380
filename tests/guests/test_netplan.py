"""Network files of guests: what is written is read back, one table per NIC, one default route."""

from __future__ import annotations

import subprocess
from ipaddress import ip_address, ip_interface, ip_network

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from support.gates import LONG
from support.programs import needs_program
from support.seeds import by_level

from vsphere_ai.guests.netplan import GuestNic, NetplanRoute, network_text, read_network, summary
from vsphere_ai.guests.network_problems import network_problems
from vsphere_ai.model.state import Target

NICS = (
    GuestNic(
        "mgmt",
        "00:50:56:00:00:01",
        ("10.0.0.11/24", "fd00::11/64"),
        gateways=("10.0.0.1", "fd00::1"),
        primary=True,
        nameservers=("10.0.0.53",),
        search=("ai.example",),
    ),
    GuestNic(
        "rail1",
        "00:50:56:00:00:02",
        ("172.16.1.11/24",),
        mtu=9000,
        gateways=("172.16.1.1",),
        routes=(NetplanRoute("172.16.0.0/16", "172.16.1.254"),),
    ),
    GuestNic("rail2", "00:50:56:00:00:03", ("172.16.2.11/24", "fd02::11/64"), mtu=9000, gateways=("fd02::1",)),
)
VM = Target("vm", "trn-01", "VirtualMachine:vm-1")
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
      nameservers:
        addresses:
        - 10.0.0.53
        search:
        - ai.example
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
      - fd02::11/64
      routes:
      - to: 172.16.2.0/24
        scope: link
        table: 102
      - to: fd02::/64
        scope: link
        table: 102
      - to: ::/0
        via: fd02::1
        table: 102
      routing-policy:
      - from: 172.16.2.11/32
        table: 102
        priority: 2102
      - from: fd02::11/128
        table: 102
        priority: 2102
"""


def test_the_file_is_as_netplan_has_it():
    assert network_text(NICS) == TEXT


def test_a_line_has_what_each_nic_gets():
    assert summary(NICS) == [
        "mgmt  00:50:56:00:00:01  10.0.0.11/24, fd00::11/64  default via 10.0.0.1, fd00::1  DNS 10.0.0.53",
        "rail1  00:50:56:00:00:02  172.16.1.11/24  MTU 9000  table 101  gateway via 172.16.1.1"
        "  172.16.0.0/16 via 172.16.1.254",
        "rail2  00:50:56:00:00:03  172.16.2.11/24, fd02::11/64  MTU 9000  table 102  gateway via fd02::1",
    ]
    assert summary([GuestNic("n", "00:50:56:00:00:04", primary=True)]) == ["n  00:50:56:00:00:04  no address"]


@needs_program("netplan")
def test_netplan_itself_takes_the_file(tmp_path):
    folder = tmp_path / "etc" / "netplan"
    folder.mkdir(parents=True)
    (folder / "50-vsphere-ai.yaml").write_text(network_text(NICS), "utf-8")
    (folder / "50-vsphere-ai.yaml").chmod(0o600)
    done = subprocess.run(["netplan", "generate", "--root-dir", tmp_path], capture_output=True, text=True, timeout=LONG)
    assert (done.returncode, done.stderr) == (0, "")
    rail = (tmp_path / "run" / "systemd" / "network" / "10-netplan-rail1.network").read_text("utf-8")
    assert "[RoutingPolicyRule]\nFrom=172.16.1.11/32\nTable=101\n" in rail.replace("Priority=2101\n", "")
    assert "Destination=172.16.0.0/16\nGateway=172.16.1.254\nTable=101\n" in rail
    rail = (tmp_path / "run" / "systemd" / "network" / "10-netplan-rail2.network").read_text("utf-8")
    assert "IPv6AcceptRA=no\n" in rail
    assert "[RoutingPolicyRule]\nFrom=fd02::11/128\nTable=102\n" in rail.replace("Priority=2102\n", "")
    assert "Destination=fd02::/64\nScope=link\nTable=102\n" in rail
    assert "Destination=::/0\nGateway=fd02::1\nTable=102\n" in rail
    mgmt = (tmp_path / "run" / "systemd" / "network" / "10-netplan-mgmt.network").read_text("utf-8")
    assert "DNS=10.0.0.53\nDomains=ai.example\n" in mgmt
    assert "RoutingPolicyRule" not in mgmt


def rail2(**changes):
    return (*NICS[:2], GuestNic(**{**NICS[2].__dict__, **changes}))


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"primary": True}, "guest.primary-nic"),
        ({"name": "rail1"}, "guest.repeated"),
        ({"mac": "00:50:56:00:00:02"}, "guest.repeated"),
        ({"addresses": ("172.16.2.11/24", "fd02::11/64", "10.0.0.11/24")}, "guest.repeated"),
        ({"name": "a-name-of-16-chars"}, "guest.nic-name"),
        ({"name": "../x"}, "guest.nic-name"),
        ({"name": "a b"}, "guest.nic-name"),
        ({"mac": "00:50:56:00:00:0A"}, "guest.mac"),
        ({"mac": "01:50:56:00:00:0a"}, "guest.mac"),
        ({"mac": "005056000003"}, "guest.mac"),
        ({"addresses": ("fd02::11/64", "172.16.2.300/24")}, "guest.address"),
        ({"addresses": ("fd02::11/64", "172.16.2.11")}, "guest.address"),
        ({"addresses": ("fd02::11/64", "172.16.2.0/24")}, "guest.address"),
        ({"addresses": ("fd02::11/64", "172.16.2.255/24")}, "guest.address"),
        ({"addresses": ("fd02::11/64", "fe80::1/64")}, "guest.address"),
        ({"addresses": ("fd02::11/64", "224.0.0.1/4")}, "guest.address"),
        ({"addresses": ("fd02::11/64", "127.0.0.1/8")}, "guest.address"),
        ({"gateways": ("10.0.1.1",)}, "guest.gateway"),
        ({"gateways": ("172.16.2.11",)}, "guest.gateway"),
        ({"gateways": ("172.16.2.1", "172.16.2.2")}, "guest.gateway"),
        ({"gateways": ("gw.example",)}, "guest.gateway"),
        ({"routes": (NetplanRoute("10.9.0.0/16", "10.0.1.1"),)}, "guest.gateway"),
        ({"routes": (NetplanRoute("10.9.0.1/16", "172.16.2.1"),)}, "guest.route"),
        ({"routes": (NetplanRoute("10.9.0.0", "172.16.2.1"),)}, "guest.route"),
        ({"routes": (NetplanRoute("0.0.0.0/0", "172.16.2.1"),)}, "guest.route"),
        ({"routes": (NetplanRoute("fd09::/64", "172.16.2.1"),)}, "guest.route"),
        (
            {"routes": (NetplanRoute("10.9.0.0/16", "172.16.2.1"), NetplanRoute("10.9.0.0/16", "172.16.2.2"))},
            "guest.route",
        ),
        ({"mtu": 67}, "guest.mtu"),
        ({"mtu": 9001}, "guest.mtu"),
        ({"mtu": 1279}, "guest.mtu"),
        ({"nameservers": ("dns.example",)}, "guest.dns"),
        ({"search": ("a..b",)}, "guest.dns"),
        ({"search": ("example.com;x",)}, "guest.dns"),
    ],
)
def test_what_a_guest_cannot_have_is_a_problem(changes, rule):
    assert {problem.rule for problem in network_problems(VM, rail2(**changes))} == {rule}
    assert list(network_problems(VM, NICS)) == []


def test_one_nic_is_primary_and_has_an_address():
    rules = [problem.rule for problem in network_problems(VM, NICS[1:])]
    assert rules == ["guest.primary-nic"]
    assert "guest.primary-nic" in [
        p.rule for p in network_problems(VM, [GuestNic("a", "00:50:56:00:00:04", primary=True)])
    ]


def test_point_to_point_and_small_networks_are_no_problem():
    assert list(network_problems(VM, rail2(addresses=("172.16.2.0/31", "fd02::/127"), gateways=("172.16.2.1",)))) == []
    assert list(network_problems(VM, rail2(addresses=("172.16.2.7/32",), gateways=(), mtu=576))) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a: 1",
        "network: {version: 2, ethernets: {a: {dhcp4: true}}}",
        "{",
        "- 1",
        TEXT.replace("172.16.1.11/32", "172.16.2.11/32"),
        TEXT.replace("via: 172.16.1.254\n        table: 101", "via: 172.16.1.254\n        table: 102"),
        TEXT.replace("to: 172.16.2.0/24", "to: 172.16.3.0/24"),
        TEXT.replace("accept-ra: false", "accept-ra: maybe"),
        TEXT.replace("- 172.16.2.11/24", "- 172.16.2.300/24"),
    ],
)
def test_another_file_is_refused(text):
    with pytest.raises(ValueError, match=r".+"):
        read_network(text)


@st.composite
def sets(draw):
    """The NICs of a few VMs of one set: the same networks and roles, addresses by index."""
    count, primary = draw(st.integers(1, 4)), draw(st.integers(0, 3))
    nics = [draw(nic(index, index == primary % count)) for index in range(count)]
    return [tuple(member(each, index) for each in nics) for index in range(draw(st.integers(1, 2)))]


def member(nic, index):
    addresses = tuple(
        f"{ip_address(text.partition('/')[0]) + index}/{text.partition('/')[2]}" for text in nic.addresses
    )
    return GuestNic(
        **{**nic.__dict__, "mac": f"{nic.mac[:-2]}{index * 16 + int(nic.mac[-2:], 16):02x}", "addresses": addresses}
    )


@st.composite
def nic(draw, index, primary):
    networks = [ip_network(f"10.{index}.0.0/24"), ip_network(f"fd00:{index}::/64")]
    networks = draw(st.sampled_from([networks, networks[:1], networks[1:], *([[]] * (not primary))]))
    gateways = tuple(str(network[1]) for network in networks if primary or draw(st.booleans()))
    routes = tuple(
        NetplanRoute(f"192.168.{n}.0/24" if network.version == 4 else f"fd01:{n}::/64", str(network[2]))
        for network in networks
        for n in range(draw(st.integers(0, 2)))
    )
    addresses = tuple(f"{network[draw(st.integers(3, 200))]}/{network.prefixlen}" for network in networks)
    mtu = draw(st.sampled_from([None, 1500, 9000]))
    dns = draw(st.sampled_from([(), ("10.0.0.53",), ("10.0.0.53", "fd00::53")]))
    search = draw(st.sampled_from([(), ("ai.example",)]))
    return GuestNic(f"nic{index}", f"00:50:56:00:00:0{index}", addresses, mtu, gateways, routes, primary, dns, search)


@given(sets())
@settings(max_examples=by_level(200, 1000), deadline=None)
def test_random_sets(vms):
    """The text alone, as netplan's manual defines it: main table, tables of NICs, and the rules that lead to them."""
    seen = set()
    for nics in vms:
        assert list(network_problems(VM, nics)) == []
        text = network_text(nics)
        assert read_network(text) == nics
        ethernets = yaml.safe_load(text)["network"]["ethernets"]
        main = {"0.0.0.0/0": [], "::/0": []}
        owners = {}
        for nic in nics:
            found = ethernets[nic.name]
            assert found["match"]["macaddress"] == nic.mac
            own = [ip_interface(each) for each in found.get("addresses", ())]
            assert own == [ip_interface(each) for each in nic.addresses]
            seen |= {each.ip for each in own}
            routes, rules = found.get("routes", []), found.get("routing-policy", [])
            for route in routes:
                if "table" not in route:
                    main.setdefault(route["to"], []).append(nic.name)
            assert {ip_network(rule["from"]) for rule in rules} <= {ip_network(each.ip) for each in own}
            used = {each["table"] for each in (*routes, *rules) if "table" in each}
            if nic.primary:
                assert not rules
                assert not used
                continue
            assert all("table" in route for route in routes)
            assert len(rules) == len(own)
            assert all(rule["priority"] < 32766 for rule in rules)
            if own:
                (table,) = used
                assert table >= 101
                assert owners.setdefault(table, nic.name) == nic.name
        (primary,) = (nic for nic in nics if nic.primary)
        families = {ip_interface(text).version for text in primary.addresses}
        assert main["0.0.0.0/0"] == [primary.name] * (4 in families), "one default route in main, by the primary NIC"
        assert main["::/0"] == [primary.name] * (6 in families)
    assert len(seen) == sum(len(nic.addresses) for nics in vms for nic in nics)


def applied(nics):
    """Commands of iproute2 that do what the network file says, read from its text alone."""
    for name, each in yaml.safe_load(network_text(nics))["network"]["ethernets"].items():
        yield f"ip link add {name} address {each['match']['macaddress']} type veth peer name far-{name}"
        yield f"ip link set far-{name} up"
        yield f"ip link set {name} up"
        yield from (f"ip addr add {text} dev {name} {'nodad' if ':' in text else ''}" for text in each["addresses"])
        for route in each.get("routes", ()):
            via = f"via {route['via']}" if "via" in route else ""
            table = f"table {route['table']}" if "table" in route else ""
            yield f"ip route add {route['to']} {via} dev {name} {table}"
        for rule in each.get("routing-policy", ()):
            family = "-6" if ":" in rule["from"] else "-4"
            yield f"ip {family} rule add from {rule['from']} lookup {rule['table']} priority {rule['priority']}"


@needs_program("ip")
@pytest.mark.parametrize(
    ("question", "expected"),
    [
        # a reply to a station outside, and to one of the rails' range, leaves by the NIC that was asked
        ("198.51.100.9 from 172.16.1.11", "via 172.16.1.1 dev rail1 table 101"),
        ("172.16.9.9 from 172.16.1.11", "via 172.16.1.254 dev rail1 table 101"),
        ("172.16.2.20 from 172.16.1.11", "via 172.16.1.254 dev rail1 table 101"),
        ("172.16.1.20 from 172.16.1.11", "dev rail1 table 101"),
        ("2001:db8::9 from fd02::11", "via fd02::1 dev rail2 table 102"),
        # what has no source yet goes by main: the primary NIC, or the NIC of the network
        ("198.51.100.9", "via 10.0.0.1 dev mgmt"),
        ("198.51.100.9 from 10.0.0.11", "via 10.0.0.1 dev mgmt"),
        ("2001:db8::9", "via fd00::1 dev mgmt"),
        ("172.16.2.20", "dev rail2 src 172.16.2.11"),
    ],
)
def test_a_kernel_routes_as_meant(question, expected):
    alone = ["unshare", "--user", "--map-root-user", "--net"]
    if subprocess.run([*alone, "ip", "link", "add", "try1", "type", "veth"], capture_output=True).returncode:
        pytest.skip("this machine gives no network namespace with a veth pair")
    script = "\n".join(["set -e", "ip link set lo up", *applied(NICS), f"ip route get {question}"])
    done = subprocess.run([*alone, "sh", "-c", script], capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0, done.stderr
    assert expected in " ".join(done.stdout.split())
