"""Spiderpool's objects: every class of error in a minimal object, and its good twin beside it."""

from __future__ import annotations

import pytest
from support.manifests import checked, marked, said, twin

API = "apiVersion: spiderpool.spidernet.io/v2beta1"


def pool(spec: str, name: str = "rail1") -> str:
    return f"{API}\nkind: SpiderIPPool\nmetadata: {{name: {name}}}\nspec:\n{spec}"


def network(spec: str) -> str:
    return f"{API}\nkind: SpiderMultusConfig\nmetadata: {{name: rail1, namespace: kube-system}}\nspec:\n{spec}"


GOOD = "  subnet: 172.16.1.0/27\n  ips: [172.16.1.2-172.16.1.30]\n"
CASES = {
    "host bits in the subnet": (
        pool("  subnet: 172.16.1.1/27  # <- spiderpool.subnet\n  ips: [172.16.1.2-172.16.1.30]\n"),
        ("172.16.1.1/27", "172.16.1.0/27"),
    ),
    "a subnet without a length": (
        pool("  subnet: 172.16.1.0  # <- spiderpool.subnet\n"),
        ("172.16.1.0", "172.16.1.0/27"),
    ),
    "no subnet": (
        f"{API}\nkind: SpiderIPPool\nmetadata: {{name: rail1}}\nspec: {{ips: [10.0.0.1]}}  # <- schema.missing-field\n",
        ("{ips:", "{subnet: 10.0.0.0/24, ips:"),
    ),
    "no spec": (
        "kind: SpiderIPPool  # <- schema.missing-field\n" + f"{API}\nmetadata: {{name: rail1}}\n",
        ("metadata", "spec: {subnet: 10.0.0.0/24}\nmetadata"),
    ),
    "a range beyond the subnet": (
        pool("  subnet: 172.16.1.0/27\n  ips:\n  - 172.16.1.2-172.16.1.40  # <- spiderpool.outside-subnet\n"),
        ("1.40", "1.30"),
    ),
    "an octet of 256": (
        pool("  subnet: 172.16.1.0/24\n  ips:\n  - 172.16.1.2-172.16.1.256  # <- spiderpool.address\n"),
        ("1.256", "1.255"),
    ),
    "a range that ends before it begins": (
        pool("  subnet: 172.16.1.0/24\n  ips:\n  - 172.16.1.9-172.16.1.2  # <- spiderpool.address\n"),
        ("1.9-172.16.1.2", "1.2-172.16.1.9"),
    ),
    "a range of two families": (
        pool("  subnet: 172.16.1.0/24\n  ips:\n  - 172.16.1.9-fd00::1  # <- spiderpool.address\n"),
        ("-fd00::1", ""),
    ),
    "an exclusion beyond the subnet": (
        pool(GOOD + "  excludeIPs:\n  - 172.16.2.1  # <- spiderpool.outside-subnet\n"),
        ("172.16.2.1", "172.16.1.9"),
    ),
    "a gateway outside": (
        pool(GOOD + "  gateway: 172.16.2.1  # <- spiderpool.gateway-outside\n"),
        ("172.16.2.1", "172.16.1.1"),
    ),
    "a gateway among the addresses": (
        pool(GOOD + "  gateway: 172.16.1.5  # <- spiderpool.gateway-in-ips\n"),
        ("gateway:", "excludeIPs: [172.16.1.5]\n  gateway:"),
    ),
    "a default route": (
        pool(GOOD + "  routes:\n  - {dst: 0.0.0.0/0, gw: 172.16.1.1}  # <- spiderpool.default-route\n"),
        ("0.0.0.0/0", "172.16.0.0/16"),
    ),
    "a default route of IPv6": (
        pool("  subnet: fd00:1::/64\n  routes:\n  - {dst: '::/0', gw: fd00:1::1}  # <- spiderpool.default-route\n"),
        ("'::/0'", "'fd00::/16'"),
    ),
    "a destination twice": (
        pool(
            GOOD + "  routes:\n  - {dst: 10.0.0.0/8, gw: 172.16.1.1}\n"
            "  - {dst: 10.0.0.0/8, gw: 172.16.1.31}  # <- spiderpool.route-twice\n"
        ),
        ("10.0.0.0/8, gw: 172.16.1.31", "10.0.0.0/9, gw: 172.16.1.31"),
    ),
    "a destination with host bits": (
        pool(GOOD + "  routes:\n  - {dst: 10.0.0.1/8, gw: 172.16.1.1}  # <- spiderpool.route\n"),
        ("10.0.0.1/8", "10.0.0.0/8"),
    ),
    "a route's gateway outside": (
        pool(GOOD + "  routes:\n  - {dst: 10.0.0.0/8, gw: 172.16.2.1}  # <- spiderpool.gateway-outside\n"),
        ("172.16.2.1", "172.16.1.1"),
    ),
    "to and via": (
        pool(
            GOOD + "  routes:\n  - {to: 10.0.0.0/8, via: 172.16.1.1}  # <- schema.unknown-field schema.missing-field\n"
        ),
        ("{to: 10.0.0.0/8, via:", "{dst: 10.0.0.0/8, gw:"),
    ),
    "ipVersion in words": (
        pool(GOOD + "  ipVersion: ipv4  # <- schema.value\n"),
        ("ipv4", "4"),
    ),
    "ipVersion of the other family": (
        pool(GOOD + "  ipVersion: 6  # <- spiderpool.ip-version\n"),
        ("ipVersion: 6", "ipVersion: 4"),
    ),
    "a list that is a text": (
        pool(GOOD + "  multusName: kube-system/rail1  # <- schema.type\n"),
        ("kube-system/rail1", "[kube-system/rail1]"),
    ),
    "an old field": (
        network("  cniType: macvlan\n  macvlan: {master: [ens1]}\n  enableRdma: true  # <- schema.unknown-field\n"),
        ("\n  enableRdma: true", ""),
    ),
    "rdmaResourceName on the wrong level": (
        network(
            "  cniType: macvlan\n  macvlan: {master: [ens1]}\n  rdmaResourceName: a/b  # <- schema.unknown-field\n"
        ),
        ("]}\n  rdmaResourceName: a/b", "], rdmaResourceName: a/b}"),
    ),
    "ippools on the wrong level": (
        network("  cniType: sriov\n  sriov: {resourceName: a/b}\n  ippools: {ipv4: [p]}  # <- schema.unknown-field\n"),
        ("a/b}\n  ippools: {ipv4: [p]}", "a/b, ippools: {ipv4: [p]}}"),
    ),
    "matchMasterSubnet on the wrong level": (
        network(
            "  cniType: sriov\n  sriov:\n    resourceName: a\n    matchMasterSubnet: true  # <- schema.unknown-field\n"
        ),
        ("matchMasterSubnet: true", "ippools: {matchMasterSubnet: true}"),
    ),
    "a pkey that is a number": (
        network("  cniType: ib-sriov\n  ibsriov:\n    resourceName: a/b\n    pkey: 1000  # <- schema.type\n"),
        ("pkey: 1000", 'pkey: "1000"'),
    ),
    "a field in the wrong case": (
        network("  cniType: sriov\n  sriov:\n    resourceName: a/b\n    MaxTxRateMbps: 9  # <- schema.unknown-field\n"),
        ("MaxTx", "maxTx"),
    ),
    "a VLAN of 4095": (
        network("  cniType: macvlan\n  macvlan:\n    master: [ens1]\n    vlanID: 4095  # <- schema.value\n"),
        ("4095", "4094"),
    ),
    "a block of another type": (
        network(
            "  cniType: ipvlan  # <- spiderpool.block-missing\n"
            "  macvlan: {master: [ens1]}  # <- spiderpool.block-unused\n"
        ),
        ("cniType: ipvlan", "cniType: macvlan"),
    ),
    "two masters without a bond": (
        network("  cniType: macvlan\n  macvlan:\n    master: [ens1, ens2]  # <- spiderpool.master\n"),
        ("ens2]", "ens2]\n    bond: {name: bond0, mode: 1}"),
    ),
    "a CNI configuration that is no JSON": (
        network("  cniType: custom\n  customCNI: '{type: x}'  # <- spiderpool.json\n"),
        ("'{type: x}'", """'{"type": "x"}'"""),
    ),
    "subnets that overlap": (
        pool("  subnet: 172.16.0.0/16  # <- spiderpool.subnets-overlap\n", "wide") + "---\n" + pool(GOOD),
        ("172.16.0.0/16", "172.17.0.0/16"),
    ),
    "an address in two pools": (
        pool("  subnet: 172.16.1.0/27\n  ips: [172.16.1.30]  # <- spiderpool.ips-overlap\n", "one")
        + "---\n"
        + pool(GOOD),
        ("[172.16.1.30]", "[172.16.1.30]\n  excludeIPs: [172.16.1.30]"),
    ),
    "two pools that are the default": (
        pool("  subnet: 10.0.0.0/24\n  default: true\n", "one")
        + "---\n"
        + pool("  subnet: 10.0.1.0/24\n  default: true  # <- spiderpool.two-defaults\n"),
        ("10.0.1.0/24\n  default: true", "10.0.1.0/24\n  default: false"),
    ),
    "one name twice": (
        pool(GOOD) + "---\n" + pool("  subnet: 10.0.0.0/24\n").replace("rail1}", "rail1}  # <- manifest.twice"),
        ("{name: rail1}  # <- manifest.twice", "{name: rail2}"),
    ),
    "a version that is not served": (
        pool(GOOD).replace("v2beta1", "v1  # <- manifest.version"),
        ("/v1  ", "/v2beta1  "),
    ),
    "a kind that is misspelt": (
        pool(GOOD).replace("SpiderIPPool", "SpiderIPPol  # <- manifest.kind"),
        ("SpiderIPPol ", "SpiderIPPool "),
    ),
    "a group that is misspelt": (
        pool(GOOD).replace("spidernet.io/v2beta1", "spidernet.oi/v2beta1  # <- manifest.group"),
        ("spidernet.oi", "spidernet.io"),
    ),
    "no name": (
        pool(GOOD).replace("{name: rail1}", "{labels: {a: b}}  # <- manifest.name"),
        ("{labels: {a: b}}", "{name: rail1}"),
    ),
    "no object": (
        pool(GOOD) + "---\n- 1  # <- manifest.object\n",
        ("---\n- 1", ""),
    ),
    "a coordinator's old switches": (
        f"{API}\nkind: SpiderCoordinator\nmetadata: {{name: default}}\nspec:\n"
        "  mode: auto\n  podCIDRType: auto\n  detectGateway: true  # <- spiderpool.deprecated\n",
        ("\n  detectGateway: true", ""),
    ),
    "a reserved address of the other family": (
        f"{API}\nkind: SpiderReservedIP\nmetadata: {{name: r}}\nspec:\n"
        "  ipVersion: 4\n  ips:\n  - fd00::1  # <- spiderpool.ip-version\n",
        ("fd00::1", "10.0.0.1"),
    ),
    "a pool that is not there": (
        pool(GOOD)
        + "---\n"
        + network(
            "  cniType: ipvlan\n  ipvlan:\n    master: [a]\n    ippools: {ipv4: [rail]}  # <- spiderpool.pool-missing\n"
        ),
        ("[rail]", "[rail1]"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_error_is_named_with_its_line_and_its_good_twin_passes(case):
    bad, *fixes = CASES[case]
    assert said(bad) == marked(bad) != set()
    assert said(twin(bad, *fixes)) == set()


def test_all_faults_of_an_object_are_found_at_once():
    """A field of the wrong type hides no rule about the other fields."""
    text = pool(
        "  subnet: 172.16.1.0/27\n  ips: [172.16.1.40]  # <- spiderpool.outside-subnet\n"
        "  gateway: 172.16.2.1  # <- spiderpool.gateway-outside\n  nodeName: trn-00  # <- schema.type\n"
    )
    assert said(text) == marked(text)


def test_items_of_a_list_are_checked_and_objects_of_others_are_counted():
    text = (
        "apiVersion: v1\nkind: List\nitems:\n"
        f"- {API}\n  kind: SpiderIPPool\n  metadata: {{name: a}}\n  spec: {{subnet: 10.0.0.0/24, gateway: 10.0.1.1}}\n"
        "- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}\n"
    )
    found = checked(text)
    assert [(f.target.mark.line, f.rule) for f in found.findings] == [(7, "spiderpool.gateway-outside")]
    assert (len(found.objects), len(found.others)) == (1, 1)
    assert "not looked at: 1 ConfigMap, of other API groups" in [finding.message for finding in found.summary]


def test_of_many_kinds_some_are_named():
    text = "---\n".join(f"{{apiVersion: v1, kind: Kind{n:02d}, metadata: {{name: a}}}}\n" for n in range(15))
    (message,) = (finding.message for finding in checked(text).summary if finding.rule == "manifest.not-checked")
    assert "1 Kind11 and 3 other kinds" in message


def test_an_object_that_spiderpool_wrote_is_left_as_it_is():
    assert said(f"{API}\nkind: SpiderEndpoint\nmetadata: {{name: pod-1}}\nstatus: {{current: {{uid: u}}}}\n") == set()
