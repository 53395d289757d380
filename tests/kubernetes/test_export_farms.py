"""Farms of any shape: what is written passes its own check, and pods never get an address that is not theirs."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address, ip_network

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from support.manifests import checked
from support.pods import DROPS, PASSES, card, ethernet, exported, machine, passed, reports, rules, seen

from vsphere_ai.addresses.pool import AddressPool
from vsphere_ai.kubernetes.export_network_operator import NetworkOperatorOptions
from vsphere_ai.kubernetes.export_spiderpool import SpiderpoolOptions
from vsphere_ai.model.finding import worst
from vsphere_ai.model.names.networks import address_range, range_of

OPTIONS = st.one_of(
    st.builds(SpiderpoolOptions, cni=st.sampled_from(["macvlan", "ipvlan"]), subnets=st.booleans()),
    st.builds(NetworkOperatorOptions, functions=st.integers(1, 128)),
)
NAMES = st.one_of(st.just(""), st.text(max_size=6), st.sampled_from(["1e3", "0x10", "yes", "a.b", "A--B", "~", "no"]))


@st.composite
def pools(draw, rail):
    """A pool of one rail: rails lie apart, blocks are of any size that has an address for pods."""
    if draw(st.booleans()):
        prefix = draw(st.integers(26, 29))
        found = AddressPool(subnet=f"172.{16 + rail}.0.0/20", per_node=prefix)
    else:
        found = AddressPool(subnet=f"fd00:{rail + 1}::/64", per_node=draw(st.sampled_from([96, 120, 124])))
    if draw(st.booleans()):
        found = AddressPool(subnet=found.subnet, per_node=found.per_node, node_gateway=draw(st.integers(1, 2)))
    exclude = draw(st.lists(st.integers(0, 60), max_size=3))
    first = int(found.network.network_address)
    return found.model_copy(update={"exclude": tuple(str(ip_address(first + 10**3 + n)) for n in exclude)})


@st.composite
def farms(draw):
    rails = draw(st.integers(1, 3))
    own = {f"pool {n}": draw(pools(n)) for n in range(rails)}
    flat = [draw(st.booleans()) for _ in range(rails)]
    types = [draw(st.sampled_from(["vmxnet3", "pvrdma", "sriov"])) for _ in range(rails)]
    blocks = draw(st.lists(st.integers(0, 60), min_size=1, max_size=5, unique=True))
    machines = []
    for number, block in enumerate(blocks, 1):
        cards, ethernets, net = [], {}, []
        for rail, pool in enumerate(own.values()):
            base = int(pool.network.network_address) + block * pool.block
            place = base + (draw(st.integers(1, 2)) if pool.node_gateway is None else 3 - pool.node_gateway)
            length = pool.network.prefixlen if flat[rail] and pool.node_gateway is None else pool.per_node
            text = f"{ip_address(place) if pool.version == 4 else ip_network((place, 128)).network_address}/{length}"
            cards.append(card(number, rail, f"pg-rail{rail + 1}", types[rail]))
            known = draw(st.booleans())
            ethernets |= ethernet(number, rail, f"rail{rail}", *([] if known else [text]), mtu=draw(st.just(9000)))
            net += [reports(number, rail, text)] if known else []
        extra = (
            [passed(0x15B3, draw(st.sampled_from([0x101B, 0x101E, 0x1021])))] if draw(st.integers(0, 9)) == 0 else []
        )
        name = draw(NAMES)
        machines.append(machine(number, [*cards, *extra], ethernets, hostname=name, net=net))
    return seen(*machines, policy=draw(st.sampled_from([PASSES, PASSES, DROPS]))), own


def given_to_pods(found):
    """Yield (node, range of addresses) that pods on it may get."""
    for each in filter(None, yaml.safe_load_all(found.text)):
        spec = each["spec"]
        if each["kind"] == "SpiderIPPool":
            yield from ((spec["nodeName"][0], address_range(text)) for text in spec["ips"])
        if each["kind"] == "CIDRPool":
            for part in spec["staticAllocations"]:
                yield part["nodeName"], range_of(ip_network(part["prefix"]))


def excluded(found):
    kinds = (each for each in filter(None, yaml.safe_load_all(found.text)) if each["kind"] == "CIDRPool")
    return [address_range(f"{e['startIP']}-{e['endIP']}") for each in kinds for e in each["spec"].get("exclusions", ())]


@given(farms(), OPTIONS)
@settings(max_examples=150, deadline=None)
def test_what_is_written_passes_its_own_check_and_gives_no_address_of_a_vm_to_pods(farm, how):
    estate, own = farm
    found = exported(estate, how, own)
    if rules(found):
        assert found.text == ""
        assert all(rule.startswith("export.") for rule in rules(found)), found.findings
        return
    assert worst(checked(found.text).findings) in ("pass", "warn")
    parts = list(given_to_pods(found))
    assert not any(a.overlaps(b) for i, (_, a) in enumerate(parts) for _, b in parts[:i])
    gone = excluded(found)
    held = [
        ip_address(text.partition("/")[0])
        for vm in estate.vms
        for text in addresses_of(estate[vm.ref])
    ]  # fmt: skip
    for address in held:
        blocks = [each for _, each in parts if address in each]
        if isinstance(how, NetworkOperatorOptions):
            assert len(blocks) == 1
            assert any(address in each for each in gone)
        else:
            assert blocks == []
            pool = next(p for p in own.values() if address in p.network)
            first = int(address) - (int(address) - int(pool.network.network_address)) % pool.block
            assert any(first <= each.first and each.last < first + pool.block for _, each in parts)


def addresses_of(facts):
    from vsphere_ai.kubernetes.guest_network import guest_file

    file = guest_file(facts.get("config.extraConfig"))
    yield from (str(a) for each in file.ethernets.values() for a in each.addresses)
    for net in facts.get("guest.net"):
        yield from (each["ipAddress"] for each in net["ipConfig"]["ipAddress"])


@given(farms(), st.sampled_from(["spiderpool", "network-operator"]))
@settings(max_examples=60, deadline=None)
def test_a_farm_that_is_in_order_is_always_written(farm, family):
    estate, own = farm
    in_order = []
    for number, vm in enumerate(estate.vms):
        facts = estate[vm.ref]
        devices = tuple(d for d in facts.get("config.hardware.device") if "macAddress" in d)
        in_order.append(facts.having({"config.hardware.device": devices, "name": f"vm-{number}"}))
    how = SpiderpoolOptions(cni="ipvlan") if family == "spiderpool" else NetworkOperatorOptions()
    names = {facts.ref: facts.name for facts in in_order}
    kept = [facts for facts in estate.objects.values() if facts.ref not in names]
    passes = [replace(f, properties={**f.properties, "config.defaultPortConfig": {"macManagementPolicy": PASSES}})
              if f.ref.startswith("DistributedVirtualPortgroup") else f for f in kept]  # fmt: skip
    found = exported(estate.with_objects([*passes, *in_order]), how, own)
    assert set(rules(found)) <= {"export.node-name"}, found.findings
