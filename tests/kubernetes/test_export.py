"""Objects that are written for pods on VMs: what they hold, and what keeps them from being written."""

from __future__ import annotations

import json

import pytest
import yaml
from support.manifests import checked
from support.pods import (
    DROPS,
    OPERATOR,
    POOLS,
    SPIDERPOOL,
    card,
    dynamic,
    ethernet,
    exported,
    machine,
    passed,
    rails,
    reports,
    rules,
    seen,
)

from vsphere_ai.addresses.pool import AddressPool, Affinity, PoolRoute
from vsphere_ai.kubernetes.export_network_operator import RELEASE, NetworkOperatorOptions
from vsphere_ai.kubernetes.export_spiderpool import SpiderpoolOptions
from vsphere_ai.model.finding import worst
from vsphere_ai.model.names.networks import address_range

IPVLAN = SpiderpoolOptions(cni="ipvlan")
BOTH = pytest.mark.parametrize("how", [SPIDERPOOL, OPERATOR], ids=["spiderpool", "network-operator"])


def objects(found, kind=""):
    assert rules(found) == []
    documents = [each for each in yaml.safe_load_all(found.text) if each]
    assert documents == [dict(each.data) for each in found.objects]
    return [each for each in documents if kind in ("", each["kind"])]


def specs(found, kind):
    return {each["metadata"]["name"]: each["spec"] for each in objects(found, kind)}


@BOTH
def test_what_is_written_passes_the_check_of_any_file_and_is_the_same_every_time(how):
    found = exported(seen(*rails(1, 2, 3)), how)
    assert found.text == exported(seen(*rails(1, 2, 3)), how).text
    again = checked(found.text)
    assert worst(again.findings) in ("pass", "warn")
    assert len(again.objects) == len(found.objects) >= 3


def test_each_vm_has_a_pool_of_its_block_without_its_own_address():
    found = exported(seen(*rails(1, 2)), IPVLAN)
    assert specs(found, "SpiderIPPool") == {
        f"rail1-trn-0{n}": {
            "ipVersion": 4, "subnet": "172.16.2.0/23", "ips": ips, "nodeName": [f"trn-0{n}"],
            "multusName": ["spiderpool/rail1"],
        }
        for n, ips in ((1, ["172.16.2.2-172.16.2.30"]), (2, ["172.16.2.34-172.16.2.62"]))
    }  # fmt: skip
    (network,) = specs(found, "SpiderMultusConfig").values()
    pools = {"ipv4": ["rail1-trn-01", "rail1-trn-02"]}
    block = {"master": ["rail1"], "mtu": 9000, "rdmaResourceName": "rdma/pvrdma", "ippools": pools}
    assert network == {"cniType": "ipvlan", "ipvlan": block}


def test_vms_in_a_subnet_of_their_own_get_its_gateway_and_routes():
    pool = AddressPool(subnet="172.16.2.0/23", per_node=27, routes=(PoolRoute(to="172.16.0.0/16", via="172.16.2.30"),))
    routes = [{"to": "0.0.0.0/0", "via": "172.16.2.62", "table": 101}]
    one = machine(1, [card(1, 1, "pg-rail1")], ethernet(1, 1, "rail1", "172.16.2.1/27"))
    two = machine(2, [card(2, 1, "pg-rail1")], ethernet(2, 1, "rail1", "172.16.2.33/27", routes=routes))
    found = specs(exported(seen(one, two), pools={"rail1": pool}), "SpiderIPPool")
    assert [(f["subnet"], f["gateway"], f["routes"]) for f in found.values()] == [
        ("172.16.2.0/27", "172.16.2.30", [{"dst": "172.16.0.0/16", "gw": "172.16.2.30"}]),
        ("172.16.2.32/27", "172.16.2.62", [{"dst": "172.16.0.0/16", "gw": "172.16.2.62"}]),
    ]
    assert [f["ips"] for f in found.values()] == [["172.16.2.2-172.16.2.29"], ["172.16.2.34-172.16.2.61"]]
    cidr = specs(exported(seen(one, two), OPERATOR, {"rail1": pool}), "CIDRPool")["rail1"]
    assert [each["gateway"] for each in cidr["staticAllocations"]] == ["172.16.2.30", "172.16.2.62"]
    assert cidr["routes"] == [{"dst": "172.16.0.0/16"}]


def test_each_block_has_the_gateway_that_the_pool_gives_it():
    pool = AddressPool(subnet="172.16.2.0/23", per_node=27, node_gateway=30, routes=(PoolRoute(to="172.16.0.0/16"),))
    machines = [
        machine(n, [card(n, 1, "pg-rail1")], ethernet(n, 1, "rail1", f"172.16.2.{32 * n - 31}/27")) for n in (1, 2)
    ]
    spider = specs(exported(seen(*machines), pools={"rail1": pool}), "SpiderIPPool")
    assert [(each["subnet"], each["ips"], each["routes"]) for each in spider.values()] == [
        (
            f"172.16.2.{n}/27",
            [f"172.16.2.{n + 2}-172.16.2.{n + 29}"],
            [{"dst": "172.16.0.0/16", "gw": f"172.16.2.{n + 30}"}],
        )
        for n in (0, 32)
    ]
    operator = exported(seen(*machines), OPERATOR, {"rail1": pool})
    (cidr,) = specs(operator, "CIDRPool").values()
    assert [each["gateway"] for each in cidr["staticAllocations"]] == ["172.16.2.30", "172.16.2.62"]
    assert cidr["routes"] == [{"dst": "172.16.0.0/16"}]
    assert rules(operator, "warn") == ["export.pvrdma"]


def test_a_pool_is_for_the_port_groups_that_it_names():
    pool = AddressPool(
        subnet="172.16.2.0/23", per_node=27, domain="a", affinity=Affinity(portgroups=("dvpg-rail[23]",))
    )
    other = pool.model_copy(update={"domain": "b", "affinity": Affinity(portgroups=("dvpg-rail1",))})
    plain = pool.model_copy(update={"domain": "c", "affinity": Affinity()})
    for pools, chosen in (({"x": pool}, None), ({"x": pool, "y": other}, "y"), ({"w": plain, "y": other}, "y")):
        found = exported(seen(*rails(1)), pools=pools)
        assert rules(found) == ([] if chosen else ["export.nothing"])
        assert not chosen or list(specs(found, "SpiderIPPool")) == [f"{chosen}-trn-01"]


def test_a_cidr_pool_has_each_vms_block_and_gives_none_to_other_nodes():
    found = exported(seen(*rails(1, 2)), OPERATOR)
    (pool,) = specs(found, "CIDRPool").values()
    assert pool["staticAllocations"] == [
        {"nodeName": "trn-01", "prefix": "172.16.2.0/27"},
        {"nodeName": "trn-02", "prefix": "172.16.2.32/27"},
    ]
    (term,) = pool["nodeSelector"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["trn-01", "trn-02"]
    assert [each["startIP"] for each in pool["exclusions"]] == ["172.16.2.1", "172.16.2.33"]
    assert rules(found, "warn") == ["export.pvrdma", "export.flat-subnet"]
    (network,) = specs(found, "MacvlanNetwork").values()
    assert (network["master"], network["mtu"]) == ("rail1", 9000)
    assert json.loads(network["ipam"])["poolName"] == "rail1"


def test_pvrdma_is_offered_by_its_rdma_function_and_not_by_an_interface():
    (policy,) = specs(exported(seen(*rails(1)), OPERATOR), "NicClusterPolicy").values()
    (shared,) = json.loads(policy["rdmaSharedDevicePlugin"]["config"])["configList"]
    assert (shared["resourceName"], shared["selectors"]) == ("pvrdma", {"vendors": ["15ad"], "deviceIDs": ["0820"]})
    assert "sriovDevicePlugin" not in policy


def test_a_virtual_function_is_taken_whole_by_a_pod_of_the_operator_and_shared_by_ipvlan():
    one = machine(1, [card(1, 1, "pg-rail1", "sriov")], ethernet(1, 1, "rail-1", "172.16.2.1/23"))
    found = exported(seen(one, policy=DROPS), OPERATOR)
    (policy,) = specs(found, "NicClusterPolicy").values()
    (device,) = json.loads(policy["sriovDevicePlugin"]["config"])["resourceList"]
    assert device["selectors"] == {"pfNames": ["rail-1"], "isRdma": True}
    (network,) = specs(found, "HostDeviceNetwork").values()
    assert network["resourceName"] == device["resourceName"] == "rail_1"
    assert "rdmaSharedDevicePlugin" not in policy
    shared = exported(seen(one, policy=DROPS), SPIDERPOOL)
    (network,) = specs(shared, "SpiderMultusConfig").values()
    assert (network["cniType"], network["ipvlan"]["rdmaResourceName"]) == ("ipvlan", "rdma/rail-1")
    assert rules(shared, "warn") == ["export.sriov"]


def test_a_function_of_a_nic_without_rdma_is_not_offered_for_it():
    one = machine(1, [card(1, 1, "pg-rail1", "sriov")], ethernet(1, 1, "rail1", "172.16.2.1/23"))
    estate = seen(one)
    plain = estate.with_objects([estate[estate.hosts[0].ref].having({"config.network.rdmaDevice": ()})])
    (policy,) = specs(exported(plain, OPERATOR), "NicClusterPolicy").values()
    (device,) = json.loads(policy["sriovDevicePlugin"]["config"])["resourceList"]
    assert device["selectors"] == {"pfNames": ["rail1"]}
    (network,) = specs(exported(plain, SPIDERPOOL), "SpiderMultusConfig").values()
    assert "rdmaResourceName" not in network["ipvlan"]


@pytest.mark.parametrize(("second", "verdict"), [(DROPS, "fail"), (None, "warn")])
def test_of_port_groups_with_one_name_the_one_that_lacks_something_counts(second, verdict):
    one, other = rails(1, 2)
    moved = (card(2, 1, "pg-rail2"),)
    estate = seen(one, other.having({"config.hardware.device": moved}))
    group = estate["DistributedVirtualPortgroup:pg-rail2"]
    config = None if second is None else {"macManagementPolicy": second}
    found = exported(estate.with_objects([group.having({"name": "dvpg-rail1", "config.defaultPortConfig": config})]))
    assert "export.mac-filter" in rules(found, verdict)
    other = "warn" if verdict == "fail" else "fail"
    assert "export.mac-filter" not in rules(found, other)


def test_an_adapter_of_no_port_group_is_shared_with_a_warning():
    cards = [{**card(1, 1, "pg-none"), "backing": {"opaqueNetworkId": "segment-7"}}]
    found = exported(seen(machine(1, cards, ethernet(1, 1, "rail1", "172.16.2.1/23"))))
    assert ("export.mac-filter" in rules(found, "warn"), "on segment-7" in found.text) == (True, True)


def test_whole_nics_get_a_policy_and_functions_a_network():
    whole = exported(seen(machine(1, [passed(0x15B3, 0x101B)])), NetworkOperatorOptions(functions=4))
    (policy,) = specs(whole, "SriovNetworkNodePolicy").values()
    assert (policy["numVfs"], policy["nicSelector"]) == (4, {"vendor": "15b3", "deviceID": "101b"})
    (network,) = specs(whole, "SriovNetwork").values()
    assert network == {"resourceName": policy["resourceName"], "networkNamespace": "default"}
    function = exported(seen(machine(1, [passed(0x15B3, 0x101E)])), OPERATOR)
    (network,) = specs(function, "HostDeviceNetwork").values()
    assert network["resourceName"] == "vf_101e"
    assert rules(function, "warn") == ["export.no-addresses"]
    either = exported(seen(machine(1, [dynamic((0x15B3, 0x1019), (0x15B3, 0x101B), (0x8086, 0x1583))])), OPERATOR)
    assert list(specs(either, "SriovNetworkNodePolicy")) == ["pf-1019", "pf-101b"]
    other = exported(seen(machine(1, [passed(0x10DE, 0x20F1)])), OPERATOR)
    assert rules(other) == ["export.nothing"]


@pytest.mark.parametrize(
    ("release", "tag"),
    [
        ("26.7.1", "network-operator-v26.7.1"), ("v26.7.1", "network-operator-v26.7.1"),
        ("26.7", "network-operator-v26.7.1"), ("26.10", "network-operator-v26.10.0"),
        ("26.10.0-beta.3", "network-operator-v26.10.0-beta.3"),
        ("network-operator-v26.7.1", "network-operator-v26.7.1"),
        ("27.1.3", "network-operator-v27.1.3"), ("27.1", "27.1"), ("sha-abc", "sha-abc"), ("", RELEASE),
    ],
)  # fmt: skip
def test_a_release_has_the_tag_of_its_images_and_a_newer_one_is_not_called_old(release, tag):
    manifests = exported(seen(*rails(1)), NetworkOperatorOptions(release=release))
    (policy,) = specs(manifests, "NicClusterPolicy").values()
    assert policy["nvIpam"]["version"] == tag
    assert "export.old-release" not in rules(manifests, "warn")


def test_a_release_without_corrections_is_warned_of():
    manifests = exported(seen(*rails(1)), NetworkOperatorOptions(release="26.1.2"))
    assert "export.old-release" in rules(manifests, "warn")
    assert list(specs(manifests, "NicClusterPolicy")) == ["nic-cluster-policy"]


def test_both_families_are_in_one_network():
    pools = POOLS | {"six": AddressPool(subnet="fd00::/64", per_node=120)}
    one = machine(1, [card(1, 1, "pg-rail1")], ethernet(1, 1, "rail1", "172.16.2.1/23", "fd00::301/64"))
    spider = exported(seen(one), pools=pools)
    assert specs(spider, "SpiderIPPool")["six-trn-01"]["ips"] == ["fd00::302-fd00::3ff"]
    (network,) = specs(spider, "SpiderMultusConfig").values()
    assert network["macvlan"]["ippools"] == {"ipv4": ["rail1-trn-01"], "ipv6": ["six-trn-01"]}
    operator = exported(seen(one), OPERATOR, pools)
    (network,) = specs(operator, "MacvlanNetwork").values()
    assert json.loads(network["ipam"])["poolName"] == "rail1,six"


def test_a_subnet_of_spiderpool_holds_what_the_vms_hold():
    subnets = SpiderpoolOptions(subnets=True)
    assert specs(exported(seen(*rails(1, 2)), subnets), "SpiderSubnet")["rail1"]["ips"] == [
        "172.16.2.2-172.16.2.30", "172.16.2.34-172.16.2.62"
    ]  # fmt: skip
    own = machine(1, [card(1, 1, "pg-rail1")], ethernet(1, 1, "rail1", "172.16.2.1/27"))
    assert rules(exported(seen(own), subnets)) == ["export.subnets"]


def test_addresses_that_are_reserved_excluded_or_of_other_adapters_are_not_for_pods():
    pool = AddressPool(subnet="172.16.2.0/23", per_node=27, gateway="172.16.2.20", exclude=("172.16.2.30",))
    file = ethernet(1, 1, "rail1", "172.16.2.1/23") | ethernet(1, 2, "rail2", "172.16.2.10/24")
    one = machine(1, [card(1, 1, "pg-rail1"), card(1, 2, "pg-rail2")], file)
    two = exported(seen(one), pools={"rail1": pool}, reserved=(address_range("172.16.2.5-172.16.2.6"),))
    assert rules(two) == ["export.block-shared"]
    one = machine(1, [card(1, 1, "pg-rail1")], ethernet(1, 1, "rail1", "172.16.2.1/23", "172.16.2.10/23"))
    found = exported(seen(one), pools={"rail1": pool}, reserved=(address_range("172.16.2.5-172.16.2.6"),))
    (spec,) = specs(found, "SpiderIPPool").values()
    ranges = "172.16.2.2-172.16.2.4 172.16.2.7-172.16.2.9 172.16.2.11-172.16.2.19 172.16.2.21-172.16.2.29"
    assert (spec["ips"], spec["gateway"]) == (ranges.split(), "172.16.2.20")


def test_an_address_that_the_guest_reports_counts_and_one_in_conflict_does_not():
    net = reports(1, 1, "172.16.2.33/23/duplicate", "fe80::1/64", "172.16.2.65/23")
    one = machine(1, [card(1, 1, "pg-rail1")], net=[net], guest__hostName="Node-A.example")
    found = exported(seen(one), interfaces={"dvpg-rail1": "ens224"})
    (spec,) = specs(found, "SpiderIPPool").values()
    assert (spec["ips"][0], spec["nodeName"]) == ("172.16.2.66-172.16.2.94", ["node-a.example"])
    assert "interface by --interface" in found.text
    assert "172.16.2.65 (reported by VMware Tools)" in " ".join(found.text.replace("#", "").split())


def test_what_a_guest_reports_goes_before_what_it_was_given():
    file = ethernet(1, 1, "rail1", "172.16.2.1/23")
    moved = exported(seen(machine(1, [card(1, 1, "pg-rail1")], file, net=[reports(1, 1, "172.16.2.65/23")])))
    assert specs(moved, "SpiderIPPool")["rail1-trn-01"]["ips"] == ["172.16.2.66-172.16.2.94"]
    silent = exported(seen(machine(1, [card(1, 1, "pg-rail1")], file, net=[reports(1, 1, "fe80::1/64")])))
    assert "172.16.2.1 (of guestinfo.metadata)" in " ".join(silent.text.replace("#", "").split())


@pytest.mark.parametrize(
    ("forged", "promiscuous", "found"),
    [(True, True, []), (True, False, ["export.mac-filter"]), (False, True, ["export.mac-filter"])],
)
def test_an_old_switch_has_a_security_policy_only(forged, promiscuous, found):
    values = {"forgedTransmits": {"value": forged}, "allowPromiscuous": {"value": promiscuous}}
    old = {"config.defaultPortConfig": {"securityPolicy": values}}
    estate = seen(*rails(1))
    group = estate["DistributedVirtualPortgroup:pg-rail1"]
    assert rules(exported(estate.with_objects([group.having(old)]))) == found


def test_a_port_group_that_cannot_be_read_is_a_warning():
    estate = seen(*rails(1))
    group = estate["DistributedVirtualPortgroup:pg-rail1"]
    found = exported(estate.with_objects([group.having({"config.defaultPortConfig": None})]))
    assert (rules(found), "export.mac-filter" in rules(found, "warn")) == ([], True)


@pytest.mark.parametrize(
    ("machines", "more", "rule"),
    [
        ([machine(1, [card(1, 1, "pg-rail1")], net=[reports(1, 1, "172.16.2.1/23")])], {}, "export.interface"),
        (rails(1), {"policy": DROPS}, "export.mac-filter"),
        (rails(1), {"policy": {**DROPS, "forgedTransmits": True, "macLearningPolicy": {}}}, "export.mac-filter"),
        (rails(1), {"mtu": 1500}, "export.mtu"),
        (rails(1, 1 + 16), {"policy": DROPS}, "export.mac-filter"),
        ([machine(1, [card(1, 1, "pg-rail1")], ethernet(1, 1, "rail1", "10.0.0.1/24"))], {}, "export.nothing"),
        ([machine(1, [card(1, 1, "pg-rail1")], {})], {}, "export.nothing"),
        (
            [*rails(1), machine(2, [card(2, 1, "pg-rail1")], ethernet(2, 1, "rail1", "172.16.2.9/23"))],
            {},
            "export.block-shared",
        ),
        (
            [*rails(1), machine(2, [card(2, 1, "pg-rail1")], ethernet(2, 1, "rail1", "172.16.2.33/27"))],
            {},
            "export.prefix",
        ),
        ([*rails(1), machine(2, [card(2, 1, "pg-rail1")], {}, hostname="trn-01")], {}, "export.node-name"),
        ([machine(1, rails(1)[0].get("config.hardware.device"), {}, name="-")], {}, "export.node-name"),
        ([machine(1, [], {}, name="a..b")], {}, "export.node-name"),
        ([machine(1, [], {}, name="a" * 64)], {}, "export.node-name"),
        ([*rails(2), machine(1, [], {}, config__hardware__device=None)], {}, "export.unreadable"),
    ],
)
@BOTH
def test_nothing_is_written_that_could_not_work(machines, more, rule, how):
    found = exported(seen(*machines, **more), how)
    assert rule in rules(found)
    assert (found.text, found.objects, found.is_refused) == ("", (), True)


def test_many_adapters_that_are_left_out_for_one_reason_are_named_once():
    files = {n: ethernet(n, 1, "rail1", f"172.16.2.{32 * n - 31}/23") for n in (1, 2, 3, 4, 5)}
    lan = [machine(n, [card(n, 0, "pg-rail2"), card(n, 1, "pg-rail1")], file) for n, file in files.items()]
    (line,) = (each for each in exported(seen(*lan)).text.split("\n# ") if each.startswith("Not for pods"))
    assert " ".join(line.split()).startswith("Not for pods: trn-01, trn-02, trn-03 and 2 more: Network adapter 1 on")


def test_a_block_without_an_address_for_pods_is_refused():
    found = exported(seen(*rails(1)), pools={"rail1": AddressPool(subnet="172.16.2.0/23", per_node=32)})
    assert rules(found) == ["export.no-room"]


def test_the_operator_has_one_block_per_node_and_pool_and_one_pool_per_family():
    file = ethernet(1, 1, "rail1", "172.16.2.1/23") | ethernet(1, 2, "rail2", "172.16.2.33/23")
    two = machine(1, [card(1, 1, "pg-rail1"), card(1, 2, "pg-rail2")], file)
    assert rules(exported(seen(two), OPERATOR)) == ["export.two-blocks"]
    assert rules(exported(seen(two), SPIDERPOOL)) == []
    other = machine(2, [card(2, 1, "pg-rail1")], ethernet(2, 1, "rail1", "172.16.8.1/24"))
    pools = POOLS | {"more": AddressPool(subnet="172.16.8.0/24", per_node=28)}
    assert rules(exported(seen(*rails(1), other), OPERATOR, pools)) == ["export.two-pools"]
    assert rules(exported(seen(*rails(1), other), SPIDERPOOL, pools)) == []


def test_whole_nics_and_functions_are_not_for_one_cluster():
    file = ethernet(1, 1, "rail1", "172.16.2.1/23")
    mixed = machine(1, [card(1, 1, "pg-rail1", "sriov"), passed(0x15B3, 0x1021)], file)
    assert rules(exported(seen(mixed), OPERATOR)) == ["export.mixed"]


def test_pools_of_two_domains_are_found_by_name_and_refused_where_pods_would_share_addresses():
    pool = AddressPool(subnet="172.16.2.0/23", per_node=27, domain="one")
    pools = {"rail1": pool, "rail2": pool.model_copy(update={"domain": "two"})}
    file = ethernet(1, 1, "rail1", "172.16.2.1/23") | ethernet(1, 2, "rail2", "172.16.2.1/23")
    one = machine(1, [card(1, 1, "pg-rail1"), card(1, 2, "pg-rail2")], file)
    assert rules(exported(seen(one), SPIDERPOOL, pools)) == ["spiderpool.ips-overlap"]
    refused = exported(seen(one), OPERATOR, pools)
    assert (rules(refused), refused.text, refused.objects) == (["nv-ipam.pools-overlap"], "", ())


def test_a_name_cannot_end_a_comment_or_stand_for_another_value():
    name = "trn\n---\nkind: Secret\x1b[31m\u202e"
    file = ethernet(1, 1, "e1e5", "172.16.2.1/23")
    one = machine(1, [card(1, 1, "pg-rail1")], file, name=name, hostname="1e3")
    found = exported(seen(one))
    assert not any(line.startswith("kind: Secret") for line in found.text.splitlines())
    assert not {"\x1b", "\u202e"} & set(found.text)
    assert '- "1e3"\n' in found.text
    assert specs(found, "SpiderIPPool")["rail1-1e3"]["nodeName"] == ["1e3"]
    assert worst(checked(found.text).findings) in ("pass", "warn")
