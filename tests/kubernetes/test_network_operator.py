"""Objects of the NVIDIA Network Operator, nv-ipam and the SR-IOV operator: every error, and its good twin."""

from __future__ import annotations

import json

import pytest
from support.manifests import checked, marked, said, twin

from vsphere_ai.kubernetes.network_operator_rules import _OFED
from vsphere_ai.model.finding import worst
from vsphere_ai.report.findings_text import findings_text

MELLANOX, NV_IPAM, SRIOV = "mellanox.com/v1alpha1", "nv-ipam.nvidia.com/v1alpha1", "sriovnetwork.openshift.io/v1"
IMAGE = "image: driver, repository: example.com/nvidia, version: v1"


def made(api: str, kind: str, spec: str, name: str = "rail1", namespace: str = "network-operator") -> str:
    return f"apiVersion: {api}\nkind: {kind}\nmetadata:\n  name: {name}\n  namespace: {namespace}\nspec:\n{spec}"


def policy(spec: str) -> str:
    return made(MELLANOX, "NicClusterPolicy", spec, "nic-cluster-policy")


def shared(config: str) -> str:
    return policy(f"  rdmaSharedDevicePlugin:\n    {IMAGE.replace(', ', chr(10) + '    ')}\n    config: '{config}'")


def sriov_plugin(config: str) -> str:
    return policy(f"  sriovDevicePlugin:\n    {IMAGE.replace(', ', chr(10) + '    ')}\n    config: '{config}'")


def nodes(spec: str) -> str:
    return made(SRIOV, "SriovNetworkNodePolicy", "  nodeSelector: {a: b}\n" + spec)


POOL = "  subnet: 10.0.0.0/24\n  perNodeBlockSize: 8\n"
CIDRS = "  cidr: 10.0.0.0/16\n  perNodeNetworkPrefix: 24\n"
NICS = "  nicSelector: {vendor: '15b3'}\n"
CASES = {
    "a policy of another name": (
        policy("  nvIpam: {" + IMAGE + "}\n").replace("nic-cluster-policy", "policy  # <- policy.name"),
        ("name: policy ", "name: nic-cluster-policy "),
    ),
    "a component that is unknown": (
        policy("  nvIPAM: {" + IMAGE + "}  # <- schema.unknown-field\n"),
        ("nvIPAM", "nvIpam"),
    ),
    "no repository anywhere": (
        policy("  nvIpam: {image: nvidia-k8s-ipam, version: v1}  # <- policy.image\n"),
        ("  nvIpam", "  global: {repository: example.com/nvidia}\n  nvIpam"),
    ),
    "an image with a tag": (
        policy(
            "  nvIpam:\n    image: ipam:v1  # <- policy.image\n    repository: example.com/nvidia\n    version: v1\n"
        ),
        ("ipam:v1", "ipam"),
    ),
    "a driver version of no known form": (
        policy(
            "  ofedDriver:\n    image: d\n    repository: example\n    version: latest  # <- policy.driver-version\n"
        ),
        ("latest", "doca3.1.0-25.07-0.6.6.0-0"),
    ),
    "safeLoad without autoUpgrade": (
        policy(
            "  ofedDriver:\n    image: mofed\n    repository: example.com\n"
            "    version: 24.01-0.3.3.1-0\n    upgradePolicy:\n"
            "      safeLoad: true  # <- policy.safe-load\n"
        ),
        ("safeLoad", "autoUpgrade: true\n      safeLoad"),
    ),
    "GUIDs that end before they begin": (
        policy(
            "  ibKubernetes:\n    image: ib\n    repository: example.com\n    version: v1\n    ufmSecret: ufm\n"
            "    pKeyGUIDPoolRangeStart: 02:00:00:00:00:00:00:09\n"
            "    pKeyGUIDPoolRangeEnd: 02:00:00:00:00:00:00:01  # <- policy.guid\n"
        ),
        ("00:00:01", "00:00:0f"),
    ),
    "a GUID that is none": (
        policy(
            "  ibKubernetes:\n    image: ib\n    repository: example.com\n    version: v1\n    ufmSecret: ufm\n"
            "    pKeyGUIDPoolRangeStart: 02:00:00  # <- policy.guid\n"
            "    pKeyGUIDPoolRangeEnd: 02:00:00:00:00:00:00:0f\n"
        ),
        ("02:00:00  #", "02:00:00:00:00:00:00:00  #"),
    ),
    "a node policy with a long name": (
        made(MELLANOX, "NicNodePolicy", "  nodeSelector: {a: b}\n", "n" * 31 + "  # <- policy.name"),
        ("n" * 31, "n" * 30),
    ),
    "a section in both policies": (
        policy("  sriovDevicePlugin: {" + IMAGE + "}\n")
        + "---\n"
        + made(MELLANOX, "NicNodePolicy", "  sriovDevicePlugin: {" + IMAGE + "}  # <- policy.twice\n", "a100"),
        (
            "  sriovDevicePlugin: {" + IMAGE + "}  # <-",
            "  ofedDriver: {" + IMAGE.replace("v1", "23.10-0.2.2.0") + "}  # <-",
        ),
    ),
    "a configuration that is no JSON": (
        shared("{configList}") + "  # <- device-plugin.config\n",
        ("{configList}", '{"configList": [{"resourceName": "a", "rdmaHcaMax": 1, "selectors": {"ifNames": ["b"]}}]}'),
    ),
    "selectors and devices": (
        shared(
            '{"configList": [{"resourceName": "a", "rdmaHcaMax": 1, "devices": ["x"], '
            '"selectors": {"drivers": ["b"]}}]}'
        )
        + "  # <- device-plugin.selectors\n",
        ('"devices": ["x"], ', ""),
    ),
    "no device selected": (
        shared('{"configList": [{"resourceName": "a", "rdmaHcaMax": 1, "selectors": {}}]}')
        + "  # <- device-plugin.selectors\n",
        ('"selectors": {}', '"selectors": {"vendors": ["15ad"]}'),
    ),
    "an empty selector": (
        shared('{"configList": [{"resourceName": "a", "rdmaHcaMax": 1, "selectors": {"ifNames": [""]}}]}')
        + "  # <- device-plugin.config\n",
        ('[""]', '["rail1"]'),
    ),
    "the other plugin's selector": (
        shared('{"configList": [{"resourceName": "a", "rdmaHcaMax": 1, "selectors": {"devices": ["101e"]}}]}')
        + "  # <- device-plugin.config\n",
        ('"devices"', '"deviceIDs"'),
    ),
    "a resource twice": (
        shared(
            '{"configList": [{"resourceName": "a", "rdmaHcaMax": 1, "devices": ["x"]},'
            ' {"resourceName": "a", "rdmaHcaMax": 1, "devices": ["y"]}]}'
        )
        + "  # <- device-plugin.name-twice\n",
        (
            '{"resourceName": "a", "rdmaHcaMax": 1, "devices": ["y"]}',
            '{"resourceName": "b", "rdmaHcaMax": 1, "devices": ["y"]}',
        ),
    ),
    "a hyphen in the name of an SR-IOV resource": (
        sriov_plugin('{"resourceList": [{"resourceName": "rail-1", "selectors": {"vendors": ["15b3"]}}]}')
        + "  # <- device-plugin.name\n",
        ("rail-1", "rail_1"),
    ),
    "a prefix that is none": (
        sriov_plugin(
            '{"resourceList": [{"resourceName": "r", "resourcePrefix": "a/b", "selectors": {"vendors": ["15b3"]}}]}'
        )
        + "  # <- device-plugin.prefix\n",
        ("a/b", "nvidia.com"),
    ),
    "a prefix that the operator does not ask for": (
        sriov_plugin('{"resourceList": [{"resourceName": "r", "selectors": {"vendors": ["15b3"]}}]}')
        + "\n---\n"
        + made(
            MELLANOX, "HostDeviceNetwork", '  resourceName: r  # <- network.prefix\n  ipam: \'{"type": "nv-ipam"}\'\n'
        ),
        ('"resourceName": "r"', '"resourceName": "r", "resourcePrefix": "nvidia.com"'),
    ),
    "a network without a master": (
        made(MELLANOX, "MacvlanNetwork", '  {ipam: \'{"type": "nv-ipam"}\'}  # <- network.no-master\n'),
        ("{ipam", "{master: rail1, ipam"),
    ),
    "a network without addresses": (
        made(MELLANOX, "MacvlanNetwork", "  {master: rail1}  # <- network.ipam\n"),
        ("rail1}", 'rail1, ipam: \'{"type": "nv-ipam"}\'}'),
    ),
    "ipam that is no JSON": (
        made(MELLANOX, "MacvlanNetwork", "  master: rail1\n  ipam: 'type: nv-ipam'  # <- network.json\n"),
        ("type: nv-ipam", '{"type": "nv-ipam"}'),
    ),
    "ipam without a type": (
        made(MELLANOX, "MacvlanNetwork", '  master: rail1\n  ipam: \'{"poolName": "a"}\'  # <- network.json\n'),
        ('"poolName": "a"', '"type": "nv-ipam"'),
    ),
    "a single quote": (
        made(MELLANOX, "IPoIBNetwork", "  master: ib0\n  ipam: '{\"type\": \"it''s\"}'  # <- network.quote\n"),
        ("it''s", "its"),
    ),
    "a mode that is unknown": (
        made(
            MELLANOX,
            "MacvlanNetwork",
            '  master: a\n  mode: bridged  # <- schema.value\n  ipam: \'{"type": "nv-ipam"}\'\n',
        ),
        ("bridged", "bridge"),
    ),
    "a pool that is not there": (
        made(NV_IPAM, "IPPool", POOL)
        + "---\n"
        + made(
            MELLANOX,
            "MacvlanNetwork",
            '  master: a\n  ipam: \'{"type": "nv-ipam", "poolName": "rail"}\'  # <- network.pool-missing\n',
        ),
        ('"rail"', '"rail1"'),
    ),
    "host bits in a pool of blocks by prefix": (
        made(NV_IPAM, "CIDRPool", CIDRS.replace("10.0.0.0/16", "10.0.0.1/16  # <- nv-ipam.subnet")),
        ("10.0.0.1/16", "10.0.0.0/16"),
    ),
    "a block larger than the pool": (
        made(NV_IPAM, "IPPool", "  subnet: 10.0.0.0/29\n  perNodeBlockSize: 7  # <- nv-ipam.block-size\n"),
        ("Size: 7", "Size: 6"),
    ),
    "a gateway outside of the pool": (
        made(NV_IPAM, "IPPool", POOL + "  gateway: 10.0.1.1  # <- nv-ipam.gateway-outside\n"),
        ("10.0.1.1", "10.0.0.1"),
    ),
    "a default gateway without a gateway": (
        made(NV_IPAM, "IPPool", POOL + "  defaultGateway: true  # <- nv-ipam.no-gateway\n"),
        ("defaultGateway", "gateway: 10.0.0.1\n  defaultGateway"),
    ),
    "routes without a gateway": (
        made(NV_IPAM, "IPPool", POOL + "  routes: [{dst: 10.9.0.0/16}]  # <- nv-ipam.no-gateway\n"),
        ("routes", "gateway: 10.0.0.1\n  routes"),
    ),
    "a route of the other family": (
        made(NV_IPAM, "IPPool", POOL + "  gateway: 10.0.0.1\n  routes: [{dst: 'fd00::/8'}]  # <- nv-ipam.route\n"),
        ("'fd00::/8'", "10.9.0.0/16"),
    ),
    "a default route beside the default gateway": (
        made(
            NV_IPAM,
            "IPPool",
            POOL + "  gateway: 10.0.0.1\n  defaultGateway: true\n"
            "  routes:\n  - dst: 0.0.0.0/0  # <- nv-ipam.default-route\n",
        ),
        ("0.0.0.0/0", "10.9.0.0/16"),
    ),
    "an exclusion outside": (
        made(
            NV_IPAM,
            "IPPool",
            POOL + "  exclusions:\n  - {startIP: 10.0.0.9, endIP: 10.0.1.2}  # <- nv-ipam.outside-subnet\n",
        ),
        ("10.0.1.2", "10.0.0.12"),
    ),
    "an exclusion that ends before it begins": (
        made(NV_IPAM, "IPPool", POOL + "  exclusions:\n  - {startIP: 10.0.0.9, endIP: 10.0.0.2}  # <- nv-ipam.order\n"),
        ("10.0.0.2", "10.0.0.20"),
    ),
    "an exclusion beyond the block": (
        made(NV_IPAM, "IPPool", POOL + "  perNodeExclusions:\n  - {startIndex: 1, endIndex: 8}  # <- nv-ipam.order\n"),
        ("endIndex: 8", "endIndex: 7"),
    ),
    "a node's prefix wider than the pool": (
        made(NV_IPAM, "CIDRPool", "  cidr: 10.0.0.0/24\n  perNodeNetworkPrefix: 16  # <- nv-ipam.prefix\n"),
        ("Prefix: 16", "Prefix: 28"),
    ),
    "a gateway index of no usable address": (
        made(NV_IPAM, "CIDRPool", CIDRS + "  gatewayIndex: 0  # <- nv-ipam.gateway-index\n"),
        ("Index: 0", "Index: 1"),
    ),
    "an allocation of the wrong size": (
        made(NV_IPAM, "CIDRPool", CIDRS + "  staticAllocations:\n  - prefix: 10.0.1.0/25  # <- nv-ipam.prefix\n"),
        ("/25", "/24"),
    ),
    "an allocation outside": (
        made(
            NV_IPAM, "CIDRPool", CIDRS + "  staticAllocations:\n  - prefix: 10.1.1.0/24  # <- nv-ipam.outside-subnet\n"
        ),
        ("10.1.1.0", "10.0.1.0"),
    ),
    "a node with two allocations": (
        made(
            NV_IPAM,
            "CIDRPool",
            CIDRS + "  staticAllocations:\n  - {nodeName: a, prefix: 10.0.1.0/24}\n"
            "  - {nodeName: a, prefix: 10.0.2.0/24}  # <- nv-ipam.allocation-twice\n",
        ),
        ("a, prefix: 10.0.2.0", "b, prefix: 10.0.2.0"),
    ),
    "a prefix given twice": (
        made(
            NV_IPAM,
            "CIDRPool",
            CIDRS + "  staticAllocations:\n  - {nodeName: a, prefix: 10.0.1.0/24}\n"
            "  - {nodeName: b, prefix: 10.0.1.0/24}  # <- nv-ipam.allocation-twice\n",
        ),
        ("b, prefix: 10.0.1.0", "b, prefix: 10.0.2.0"),
    ),
    "pools that overlap": (
        made(
            NV_IPAM, "CIDRPool", "  cidr: 10.0.0.0/16  # <- nv-ipam.pools-overlap\n  perNodeNetworkPrefix: 24\n", "wide"
        )
        + "---\n"
        + made(NV_IPAM, "IPPool", POOL),
        ("10.0.0.0/16", "10.1.0.0/16"),
    ),
    "no virtual functions": (
        nodes(NICS + "  resourceName: rail1\n  numVfs: 0  # <- sriov.num-vfs\n"),
        ("numVfs: 0", "numVfs: 1"),
    ),
    "more virtual functions than the NIC has": (
        nodes(NICS + "  resourceName: rail1\n  numVfs: 129  # <- sriov.num-vfs\n"),
        ("129", "128"),
    ),
    "a resource with a dot": (
        nodes(NICS + "  numVfs: 4\n  resourceName: rail.1  # <- sriov.name\n"),
        ("rail.1", "rail_1"),
    ),
    "no NIC selected": (
        nodes("  numVfs: 4\n  resourceName: r\n  nicSelector: {}  # <- sriov.nic-selector\n"),
        ("{}", "{rootDevices: ['0000:3b:00.0']}"),
    ),
    "virtual functions beyond the last": (
        nodes("  numVfs: 4\n  resourceName: r\n  nicSelector:\n    pfNames:\n    - ens1#0-4  # <- sriov.vf-range\n"),
        ("#0-4", "#0-3"),
    ),
    "PVRDMA has no virtual functions": (
        nodes("  numVfs: 4\n  resourceName: r\n  nicSelector:\n    vendor: '15ad'  # <- sriov.vmware\n"),
        ("15ad", "15b3"),
    ),
    "RDMA with vfio-pci": (
        nodes(NICS + "  numVfs: 4\n  resourceName: r\n  deviceType: vfio-pci\n  isRdma: true  # <- sriov.rdma\n"),
        ("vfio-pci", "netdevice"),
    ),
    "switchdev on InfiniBand": (
        nodes(
            NICS + "  numVfs: 4\n  resourceName: r\n  linkType: ib\n  eSwitchMode: switchdev  # <- sriov.switchdev\n"
        ),
        ("linkType: ib", "linkType: eth"),
    ),
    "vDPA without switchdev": (
        nodes(NICS + "  numVfs: 4\n  resourceName: r\n  vdpaType: virtio  # <- sriov.switchdev\n"),
        ("vdpaType", "eSwitchMode: switchdev\n  vdpaType"),
    ),
    "a policy that no operator looks at": (
        nodes(NICS + "  numVfs: 4\n  resourceName: r\n").replace("network-operator", "default  # <- sriov.namespace"),
        ("namespace: default ", "namespace: sriov-network-operator "),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_error_is_named_with_its_line_and_its_good_twin_passes(case):
    bad, *fixes = CASES[case]
    assert said(bad) == marked(bad) != set()
    assert said(twin(bad, *fixes)) == set()


def test_a_whole_set_of_objects_passes():
    """What pods on VMs with PVRDMA need: one shared device per rail, a macvlan network, and a block per VM."""
    text = "---\n".join((
        policy(
            "  global: {repository: example.com/nvidia, version: v25}\n  nvIpam: {image: nvidia-k8s-ipam}\n"
            "  secondaryNetwork: {multus: {image: multus}, cniPlugins: {image: plugins}}\n"
            "  rdmaSharedDevicePlugin:\n    image: shared\n    config: |\n"
            '      {"configList": [{"resourceName": "rail1", "rdmaHcaMax": 63, "selectors": {"ifNames": ["rail1"]}}]}\n'
        ),
        made(
            MELLANOX,
            "MacvlanNetwork",
            "  master: rail1\n  mode: bridge\n  mtu: 9000\n"
            '  ipam: \'{"type": "nv-ipam", "poolName": "rail1", "poolType": "cidrpool"}\'\n',
        ),
        made(
            NV_IPAM,
            "CIDRPool",
            "  cidr: 172.16.0.0/16\n  perNodeNetworkPrefix: 27\n  gatewayIndex: 1\n  routes: [{dst: 172.16.0.0/12}]\n"
            "  staticAllocations: [{nodeName: trn-01, prefix: 172.16.1.0/27, gateway: 172.16.1.1}]\n",
        ),
    ))  # fmt: skip
    found = checked(text)
    assert found.findings == ()
    assert len(found.objects) == 3


def test_lists_in_a_field_that_is_not_looked_into_are_no_fault():
    term = "{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [a, b]}]}"
    text = f"""
apiVersion: nv-ipam.nvidia.com/v1alpha1
kind: CIDRPool
metadata: {{name: rail1, namespace: nvidia-network-operator}}
spec: {{cidr: 10.0.0.0/24, perNodeNetworkPrefix: 27, nodeSelector: {{nodeSelectorTerms: [{term}]}}}}
"""
    assert said(text) == set()


@pytest.mark.parametrize(("names", "missing"), [("v4", 0), ("v4,v6", 0), ("v4,v7", 1), ("v4, v6", 1)])
def test_a_network_names_a_pool_per_family(names, missing):
    pool = "apiVersion: nv-ipam.nvidia.com/v1alpha1\nkind: CIDRPool\n"
    ipam = json.dumps({"type": "nv-ipam", "poolName": names, "poolType": "cidrpool"})
    text = "---\n".join([
        f"{pool}metadata: {{name: v4}}\nspec: {{cidr: 10.0.0.0/24, perNodeNetworkPrefix: 27}}\n",
        f"{pool}metadata: {{name: v6}}\nspec: {{cidr: 'fd00::/64', perNodeNetworkPrefix: 120}}\n",
        "apiVersion: mellanox.com/v1alpha1\nkind: MacvlanNetwork\nmetadata: {name: n}\n"
        f"spec: {{master: rail1, ipam: '{ipam}'}}\n",
    ])  # fmt: skip
    assert [rule for _, rule in said(text)] == ["network.pool-missing"] * missing


def warned(text: str) -> list[tuple[str, str, str]]:
    return [(fault.verdict, fault.rule, fault.remedy) for fault in checked(text).findings]


def test_what_the_readers_admit_is_no_error_and_what_they_may_misread_is_a_warning():
    """A pool of nv-ipam may have host bits, one of blocks by prefix may not; any image name passes the CRD."""
    loose = made(NV_IPAM, "IPPool", "  subnet: 10.0.0.7/24\n  perNodeBlockSize: 8\n")
    assert warned(loose) == [("warn", "nv-ipam.subnet", "write 10.0.0.0/24")]
    strict = made(NV_IPAM, "CIDRPool", CIDRS.replace("10.0.0.0", "10.0.0.7"))
    assert warned(strict) == [("fail", "nv-ipam.subnet", "write 10.0.0.0/16")]
    image = policy("  nvIpam: {image: nvidia_k8s.ipam, repository: example.com/nvidia, version: v1}\n")
    assert warned(image) == []


def test_kinds_that_exist_and_have_no_rules_are_named_and_not_called_wrong():
    text = nodes("  resourceName: rail1\n  numVfs: 8\n" + NICS).replace(
        "namespace: network-operator", "namespace: nvidia-network-operator"
    )
    text += "\n---\n" + made(SRIOV, "SriovNetworkNodeState", "  interfaces: []\n")
    text += "\n---\n" + made(MELLANOX, "FabricTelescope", "  a: b\n")
    found = checked(text)
    assert (worst(found.findings), len(found.objects), len(found.unjudged)) == ("pass", 1, 2)
    assert "not looked at: 1 FabricTelescope, 1 SriovNetworkNodeState, for" in findings_text([*found.summary], "")
    (fault,) = checked(made(SRIOV, "SriovNetwrok", "  a: b\n")).findings
    assert fault.rule == "manifest.kind"
    assert fault.remedy.startswith("did you mean 'SriovNetwork'")


@pytest.mark.parametrize("name", ["ips[0]", "str", "]", "int", "bool"])
def test_an_unknown_field_is_named_whatever_it_looks_like(name):
    (fault,) = checked(made(NV_IPAM, "IPPool", f'{POOL}  "{name}": 1\n')).findings
    assert (fault.rule, fault.message) == ("schema.unknown-field", f"unknown field '{name}'")


@pytest.mark.parametrize(
    "version",
    [
        "5.8-2.0.3.1", "23.07-0.5.1.2.4", "24.01-0.3.3.1-0", "doca3.1.0-25.07-0.6.6.0-0", "26.10-043000-0",
        "doca2.9-24.10-0.7.0.0-0-5.14.0-427.el9-rhcos4.17-amd64", "doca3.6.0-26.10-043000-0", "sha256:" + "0a" * 32,
    ],
)  # fmt: skip
def test_driver_versions_of_all_releases_are_accepted(version):
    assert _OFED.fullmatch(version)


@pytest.mark.parametrize("version", ["latest", "v1", "5.8", "doca3.6.0", "sha256:0a"])
def test_other_driver_versions_are_none(version):
    assert not _OFED.fullmatch(version)
