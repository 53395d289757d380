"""Rules of the operators' webhooks, one row each: an object that is refused, and its twin that is admitted.

Sources: pkg/multuscniconfig and pkg/coordinatormanager of spidernet-io/spiderpool (v1.2.1); pkg/webhook/validate.go of
k8snetworkplumbingwg/sriov-network-operator (249e20012); api/v1alpha1/validator and webhook-schemas of
Mellanox/network-operator (b06827e0); api/v1alpha1 of Mellanox/nvidia-k8s-ipam (3ce4a34).
"""

from __future__ import annotations

import pytest
from support.manifests import checked, marked, said, twin

APIS = {
    "Spider": "spiderpool.spidernet.io/v2beta1",
    "Nic": "mellanox.com/v1alpha1",
    "IPPool": "nv-ipam.nvidia.com/v1alpha1",
    "CIDRPool": "nv-ipam.nvidia.com/v1alpha1",
    "Sriov": "sriovnetwork.openshift.io/v1",
    "OVS": "sriovnetwork.openshift.io/v1",
}
IMAGE = "image: a, repository: example.com/nvidia, version: v1"


def made(kind: str, spec: str, name: str = "rail1", metadata: str = "") -> str:
    """An object in the usual namespace; `spec` is a mapping in one line or in lines of their own."""
    api = next(api for begin, api in APIS.items() if kind.startswith(begin))
    spec = f"\n{spec}" if spec.startswith("  ") else f" {spec}\n"
    head = f"apiVersion: {api}\nkind: {kind}\nmetadata:\n  name: {name}\n  namespace: network-operator\n"
    return f"{head}{metadata}spec:{spec}"


def network(spec: str, annotation: str = "") -> str:
    return made("SpiderMultusConfig", spec, metadata=f"  annotations:\n    {annotation}\n" if annotation else "")


def cluster(spec: str) -> str:
    return made("NicClusterPolicy", spec, "nic-cluster-policy")


def plugin(key: str, config: str, rule: str) -> str:
    return cluster(f"  {key}:\n    {IMAGE.replace(', ', chr(10) + '    ')}\n    config: '{config}'  # <- {rule}\n")


def policy(more: str, name: str = "rail1", nodes: str = "{a: b}") -> str:
    lines = [f"  nodeSelector: {nodes}", "  resourceName: r", "  numVfs: 8", *more.splitlines()]
    return made("SriovNetworkNodePolicy", "\n".join(lines) + "\n", name)


def selector(terms: str) -> str:
    return made(
        "IPPool", f"  subnet: 10.0.0.0/24\n  perNodeBlockSize: 8\n  nodeSelector:\n    nodeSelectorTerms:{terms}"
    )


CASES = {
    "coordinator: pod CIDRs of no known kind": (
        made("SpiderCoordinator", "  podCIDRType: flannel  # <- schema.value\n"),
        ("flannel", "calico"),
    ),
    "coordinator: no kind of pod CIDRs": (
        made("SpiderCoordinator", "  mode: auto  # <- schema.missing-field\n"),
        ("mode: auto", "podCIDRType: cluster"),
    ),
    "coordinator: rp_filter of 3": (
        made("SpiderCoordinator", "  podCIDRType: auto\n  podRPFilter: 3  # <- schema.value\n"),
        ("podRPFilter: 3", "podRPFilter: -1"),
    ),
    "coordinator: a MAC prefix of three bytes": (
        made("SpiderCoordinator", "  podCIDRType: auto\n  podMACPrefix: '0a:1b:2c'  # <- spiderpool.mac-prefix\n"),
        ("0a:1b:2c", "0a:1b"),
    ),
    "coordinator: a MAC prefix of multicast": (
        made("SpiderCoordinator", "  podCIDRType: auto\n  podMACPrefix: '0b:1b'  # <- spiderpool.mac-prefix\n"),
        ("0b:", "0a:"),
    ),
    "coordinator: an MTU of nothing": (
        made("SpiderCoordinator", "  podCIDRType: auto\n  vethMTU: 0  # <- schema.value\n"),
        ("vethMTU: 0", "vethMTU: 1500"),
    ),
    "coordinator: a queue of less than nothing": (
        made("SpiderCoordinator", "  podCIDRType: auto\n  txQueueLen: -1  # <- schema.value\n"),
        ("-1", "0"),
    ),
    "coordinator: a route by a gateway of the other family": (
        made(
            "SpiderCoordinator",
            "  podCIDRType: auto\n  policyRoutes:\n  - {dst: 10.0.0.0/8, gw: 'fd00::1'}  # <- spiderpool.route\n",
        ),
        ("'fd00::1'", "10.1.0.1"),
    ),
    "coordinator: what is hijacked is no address": (
        made("SpiderCoordinator", "  podCIDRType: auto\n  hijackCIDR:\n  - a.b  # <- spiderpool.subnet\n"),
        ("a.b", "10.0.0.1"),
    ),
    "coordinator: a link address that is none": (
        made("SpiderCoordinator", "  podCIDRType: auto\n  vethLinkAddress: link  # <- spiderpool.address\n"),
        ("link  #", "169.254.0.1  #"),
    ),
    "network: settings of the coordinator are held against the same rules": (
        network("  coordinator:\n    vethMTU: -5  # <- schema.value\n"),
        ("-5", "9000"),
    ),
    "network: pools by the master's subnet": (
        network(
            "  cniType: macvlan\n  macvlan:\n    master: [ens1]\n    ippools:\n"
            "      matchMasterSubnet: true  # <- spiderpool.master-subnet\n"
        ),
        ("true", "false"),
    ),
    "network: no master": (
        network("  cniType: ipvlan\n  ipvlan:\n    master: []  # <- spiderpool.master\n"),
        ("[]", "[ens1]"),
    ),
    "network: masters of a bond without a name": (
        network(
            "  cniType: macvlan\n  macvlan:\n    master: [ens1, ens2]\n    bond:\n      mode: 1\n"
            "      name: ''  # <- spiderpool.master\n"
        ),
        ("''", "bond0"),
    ),
    "network: a least rate beside no greatest, which is 0": (
        network("  cniType: sriov\n  sriov:\n    resourceName: a/b\n    minTxRateMbps: 9  # <- spiderpool.rate\n"),
        ("minTxRateMbps: 9", "minTxRateMbps: 0"),
    ),
    "network: a configuration of the chain whose parts have other types": (
        network(
            "  cniType: sriov\n  sriov: {resourceName: a/b}\n  chainCNIJsonData:\n"
            "  - '{\"type\": \"tuning\", \"ipam\": 5}'  # <- spiderpool.json\n"
            "  - '{\"type\": \"tuning\", \"cniVersion\": 1}'  # <- spiderpool.json\n"
        ),
        ("5}", "{}}"),
        ("1}", '"1.0.0"}'),
    ),
    "network: a constant that is no JSON": (
        network("  cniType: custom\n  customCNI: 'NaN'  # <- spiderpool.json\n"),
        ("NaN", "null"),
    ),
    "pool: a gateway that is an empty text": (
        made("SpiderIPPool", "  subnet: 10.0.0.0/24\n  gateway: ''  # <- spiderpool.gateway\n"),
        ("''", "10.0.0.1"),
    ),
    "pool: a route to the other family": (
        made(
            "SpiderIPPool",
            "  subnet: 10.0.0.0/24\n  routes:\n  - gw: 10.0.0.1\n    dst: fd01::/48  # <- spiderpool.ip-version\n",
        ),
        ("fd01::/48", "10.1.0.0/16"),
    ),
    "reserved: no address and no family": (
        made("SpiderReservedIP", "  ips: []  # <- spiderpool.address\n"),
        ("[]", "[10.0.0.1]"),
    ),
    "reserved: an address with a zone": (
        made("SpiderReservedIP", "  ips:\n  - fe80::5%eth0  # <- spiderpool.address\n"),
        ("%eth0", ""),
    ),
    "network: a VLAN that is automatic and has an id": (
        network(
            "  cniType: vlan\n  vlan:\n    master: [ens1]\n    vlanMode: auto\n    vlanID: 5"
"  # <- spiderpool.vlan-mode\n"
        ),
        ("auto", "manual"),
    ),
    "network: least rate above the greatest": (
        network(
            "  cniType: sriov\n  sriov:\n    resourceName: a/b\n    maxTxRateMbps: 5\n"
            "    minTxRateMbps: 6  # <- spiderpool.rate\n"
        ),
        ("Mbps: 6", "Mbps: 5"),
    ),
    "network: a resource of no name": (
        network("  cniType: ib-sriov\n  ibsriov:\n    resourceName: ''  # <- schema.value\n"),
        ("''", "a/b"),
    ),
    "network: IPoIB without a master": (
        network("  cniType: ipoib\n  ipoib:\n    master: ''  # <- schema.value\n"),
        ("''", "ib0"),
    ),
    "network: a trunk that ends before it begins": (
        network("  cniType: ovs\n  ovs:\n    bridge: br\n    trunk:\n    - {minID: 9, maxID: 3}"
"  # <- spiderpool.trunk\n"),
        ("maxID: 3", "maxID: 30"),
    ),
    "network: custom beside another block": (
        network("  cniType: custom\n  ipoib: {master: ib0}  # <- spiderpool.block-unused\n"),
        ("  ipoib: {master: ib0}", "  disableIPAM: false"),
    ),
    "network: a chained plugin without a type": (
        network(
            "  cniType: ipvlan\n  ipvlan: {master: [ens1]}\n  chainCNIJsonData:\n  - '{\"a\": 1}'"
"  # <- spiderpool.json\n"
        ),
        ('"a": 1', '"type": "tuning"'),
    ),
    "network: a CNI version that is not written": (
        network("{cniType: custom}", "multus.spidernet.io/cni-version: 2.0.0  # <- spiderpool.annotation"),
        ("2.0.0", "1.0.0"),
    ),
    "network: a name of an object that is none": (
        network("{cniType: custom}", "multus.spidernet.io/cr-name: Rail_1  # <- spiderpool.annotation"),
        ("Rail_1", "rail-1"),
    ),
    "network: a resource to inject that is not named": (
        network(
            "  cniType: macvlan\n  macvlan:\n    master: [ens1]\n    ippools: {ipv4: [p]}\n",
            "cni.spidernet.io/rdma-resource-inject: a  # <- spiderpool.inject",
        ),
        ("master:", "rdmaResourceName: a/b\n    master:"),
    ),
    "network: a resource to inject without a pool": (
        network(
            "  cniType: sriov\n  sriov:\n    resourceName: a/b\n",
            "cni.spidernet.io/network-resource-inject: a  # <- spiderpool.inject",
        ),
        ("resourceName:", "ippools: {ipv6: [p]}\n    resourceName:"),
    ),
    "network: nothing to inject for Open vSwitch": (
        network("  cniType: ovs\n  ovs: {bridge: b}\n", "cni.spidernet.io/rdma-resource-inject: a"
"  # <- spiderpool.inject"),
        ("cni.spidernet.io/rdma-resource-inject", "example.com/note"),
    ),
    "pool: pods selected by nothing": (
        made("SpiderIPPool", "  subnet: 10.0.0.0/24\n  podAffinity: {}  # <- spiderpool.affinity\n"),
        ("{}", "{matchLabels: {a: b}}"),
    ),
    "pool: a label that is none": (
        made("SpiderIPPool", "  subnet: 10.0.0.0/24\n  podAffinity:\n    matchLabels: {a: b c}"
"  # <- kubernetes.selector\n"),
        ("b c", "b-c"),
    ),
    "pool: an operator without values": (
        made(
            "SpiderIPPool",
            "  subnet: 10.0.0.0/24\n  podAffinity:\n    matchExpressions:\n"
            "    - {key: a, operator: In}  # <- kubernetes.selector\n",
        ),
        ("In}", "Exists}"),
    ),
    "pool: a range with blanks": (
        made("SpiderIPPool", "  subnet: 10.0.0.0/24\n  ips:\n  - 10.0.0.1 - 10.0.0.9  # <- spiderpool.address\n"),
        (" - 10.0.0.9", "-10.0.0.9"),
    ),
    "pool: a subnet in an unusual form": (
        made("SpiderIPPool", "  subnet: 'fd00:0::/64'  # <- spiderpool.subnet\n"),
        ("fd00:0::", "fd00::"),
    ),
    "reserved addresses of two families": (
        made("SpiderReservedIP", "  ips:\n  - 10.0.0.1\n  - fd00::1  # <- spiderpool.ip-version\n"),
        ("fd00::1", "10.0.0.2"),
    ),
    "nv-ipam: more than the usable addresses of IPv6": (
        made("IPPool", "  subnet: 'fd00::/126'\n  perNodeBlockSize: 4  # <- nv-ipam.block-size\n"),
        ("Size: 4", "Size: 3"),
    ),
    "nv-ipam: the gateway is the broadcast address": (
        made("CIDRPool", "  cidr: 10.0.0.0/16\n  perNodeNetworkPrefix: 24\n  gatewayIndex: 255"
"  # <- nv-ipam.gateway-index\n"),
        ("255", "254"),
    ),
    "nv-ipam: the gateway of a pair may be its first address": (
        made("CIDRPool", "  cidr: 10.0.0.0/16\n  perNodeNetworkPrefix: 31\n  gatewayIndex: 2"
"  # <- nv-ipam.gateway-index\n"),
        ("Index: 2", "Index: 0"),
    ),
    "nv-ipam: routes by the gateway of an allocation only": (
        made(
            "CIDRPool",
            "  cidr: 10.0.0.0/16\n  perNodeNetworkPrefix: 24\n"
            "  staticAllocations: [{nodeName: a, prefix: 10.0.1.0/24, gateway: 10.0.1.1}]\n"
            "  routes: [{dst: 10.8.0.0/16}]  # <- nv-ipam.no-gateway\n",
        ),
        ("  routes", "  gatewayIndex: 1\n  routes"),
    ),
    "nv-ipam: every place of a block is excluded": (
        made(
            "IPPool",
            "  subnet: 10.0.0.0/24\n  perNodeBlockSize: 8\n"
            "  perNodeExclusions:  # <- nv-ipam.no-address\n  - {startIndex: 0, endIndex: 3}\n"
            "  - {startIndex: 4, endIndex: 7}\n",
        ).replace("perNodeExclusions:  # <- nv-ipam.no-address", "perNodeExclusions:").replace(
            "- {startIndex: 0, endIndex: 3}", "- {startIndex: 0, endIndex: 3}  # <- nv-ipam.no-address"
        ),
        ("startIndex: 0", "startIndex: 1"),
    ),
    "nv-ipam: a name that CNI does not take": (
        made("IPPool", "{subnet: 10.0.0.0/24, perNodeBlockSize: 8}", "rail:1  # <- nv-ipam.name"),
        ("rail:1", "rail_1"),
    ),
    "nv-ipam: a selector without terms": (
        selector(" []  # <- kubernetes.selector\n"),
        ("    nodeSelectorTerms: []", "    nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]"),
    ),
    "nv-ipam: In without values": (
        selector("\n    - matchExpressions:\n      - {key: a, operator: In}  # <- kubernetes.selector\n"),
        ("In}", "In, values: [b]}"),
    ),
    "nv-ipam: Exists with values": (
        selector("\n    - matchExpressions:\n      - {key: a, operator: Exists, values: [b]}"
"  # <- kubernetes.selector\n"),
        (", values: [b]", ""),
    ),
    "nv-ipam: Gt with two values": (
        selector("\n    - matchExpressions:\n      - {key: a, operator: Gt, values: ['1', '2']}"
"  # <- kubernetes.selector\n"),
        (", '2'", ""),
    ),
    "nv-ipam: an operator that there is not": (
        selector("\n    - matchExpressions:\n      - {key: a, operator: in, values: [b]}  # <- kubernetes.selector\n"),
        ("operator: in", "operator: NotIn"),
    ),
    "nv-ipam: a key that is none": (
        selector("\n    - matchExpressions:\n      - {key: 'a b', operator: Exists}  # <- kubernetes.selector\n"),
        ("a b", "example.com/a_b"),
    ),
    "nv-ipam: a field that does not select nodes": (
        selector("\n    - matchFields:\n      - {key: spec.name, operator: In, values: [a]}"
"  # <- kubernetes.selector\n"),
        ("spec.name", "metadata.name"),
    ),
    "nv-ipam: two names in one field": (
        selector("\n    - matchFields:\n      - {key: metadata.name, operator: In, values: [a, b]}"
"  # <- kubernetes.selector\n"),
        (", b]", "]"),
    ),
    "policy: a container that the component does not have": (
        cluster(
            f"  nvIpam:\n    {IMAGE.replace(', ', chr(10) + '    ')}\n    containerResources:\n"
            "    - name: nv-ipam  # <- policy.resources\n"
        ),
        ("name: nv-ipam ", "name: nv-ipam-node "),
    ),
    "policy: a resource that containers do not have": (
        cluster(
            f"  nvIpam:\n    {IMAGE.replace(', ', chr(10) + '    ')}\n    containerResources:\n"
            "    - name: nv-ipam-node\n      requests:\n        nvidia.com/gpu: 1  # <- policy.resources\n"
        ),
        ("nvidia.com/gpu", "cpu"),
    ),
    "policy: a request above its limit": (
        cluster(
            f"  nvIpam:\n    {IMAGE.replace(', ', chr(10) + '    ')}\n    containerResources:\n"
            "    - name: nv-ipam-node\n      limits: {cpu: 500m}\n      requests:\n        cpu: 1"
"  # <- policy.resources\n"
        ),
        ("500m", "'1.5'"),
    ),
    "policy: nothing requested": (
        cluster(
            f"  nvIpam:\n    {IMAGE.replace(', ', chr(10) + '    ')}\n    containerResources:\n"
            "    - name: nv-ipam-node\n      limits:\n        memory: 0Gi  # <- policy.resources\n"
        ),
        ("0Gi", "1Gi"),
    ),
    "policy: a probe without its period": (
        cluster(
            "  ofedDriver:\n    image: d\n    repository: example.com/n\n    version: 24.01-0.3.3.1-0\n"
            "    startupProbe: {initialDelaySeconds: 9}  # <- schema.missing-field\n"
        ),
        ("9}", "9, periodSeconds: 9}"),
    ),
    "policy: a ConfigMap of a name that is none": (
        cluster(
            f"  docaTelemetryService:\n    {IMAGE.replace(', ', chr(10) + '    ')}\n"
            "    config:\n      fromConfigMap: DTS_1  # <- policy.config-map\n"
        ),
        ("DTS_1", "dts-1"),
    ),
    "policy: a log level that there is not": (
        cluster(
            f"  nicConfigurationOperator:\n    operator: {{{IMAGE}}}\n    configurationDaemon: {{{IMAGE}}}\n"
            "    logLevel: trace  # <- schema.value\n"
        ),
        ("trace", "debug"),
    ),
    "policy: an agent without the secret of UFM": (
        cluster(
            "  ibKubernetes: {image: a, repository: example.com/n, version: v1, "
            "pKeyGUIDPoolRangeStart: '02:00:00:00:00:00:00:00', "
            "pKeyGUIDPoolRangeEnd: '02:00:00:00:00:00:00:ff'}  # <- schema.missing-field\n"
        ),
        ("image: a", "ufmSecret: ufm, image: a"),
    ),
    "policies of the same nodes": (
        made("NicNodePolicy", "{nodeSelector: {gpu: h100}}", "one")
        + "---\n"
        + made("NicNodePolicy", "  nodeSelector: {gpu: h100, rack: r1}  # <- policy.same-nodes\n", "two"),
        ("{gpu: h100, rack: r1}", "{gpu: a100, rack: r1}"),
    ),
    "plugin: a selector of another type of devices": (
        plugin(
            "sriovDevicePlugin",
            '{"resourceList": [{"resourceName": "r", "deviceType": "auxNetDevice", '
            '"selectors": {"pciAddresses": ["0000:03:00.0"]}}]}',
            "device-plugin.selectors",
        ),
        ('"pciAddresses": ["0000:03:00.0"]', '"auxTypes": ["sf"]'),
    ),
    "plugin: one of several selectors is empty": (
        plugin(
            "sriovDevicePlugin",
            '{"resourceList": [{"resourceName": "r", "selectors": [{"vendors": ["15b3"]}, {}]}]}',
            "device-plugin.selectors",
        ),
        (", {}", ""),
    ),
    "plugin: a prefix that is no domain": (
        plugin(
            "rdmaSharedDevicePlugin",
            '{"configList": [{"resourceName": "r", "resourcePrefix": "rdma", "rdmaHcaMax": 9, '
            '"selectors": {"ifNames": ["a"]}}]}',
            "device-plugin.prefix",
        ),
        ('"rdma"', '"nvidia.com"'),
    ),
    "plugin: how many share a device is no number": (
        plugin(
            "rdmaSharedDevicePlugin",
            '{"configList": [{"resourceName": "r", "rdmaHcaMax": "9", "selectors": {"ifNames": ["a"]}}]}',
            "device-plugin.config",
        ),
        ('"9"', "9"),
    ),
    "functions: netFilter beside InfiniBand": (
        policy("  linkType: ib  # <- sriov.nic-selector\n  nicSelector: {netFilter: a}\n"),
        ("linkType: ib", "linkType: eth"),
    ),
    "functions: vDPA with another driver": (
        policy(
            "  nicSelector: {vendor: '15b3'}\n  deviceType: vfio-pci\n  eSwitchMode: switchdev\n"
            "  vdpaType: vhost  # <- sriov.vdpa\n"
        ),
        ("vfio-pci", "netdevice"),
    ),
    "functions: a bridge of a device that others manage": (
        policy(
            "  nicSelector: {vendor: '15b3'}\n  eSwitchMode: switchdev\n  externallyManaged: true\n"
            "  bridge: {ovs: {}}  # <- sriov.bridge\n"
        ),
        ("externallyManaged: true", "externallyManaged: false"),
    ),
    "functions that are in two policies": (
        policy("  nicSelector: {pfNames: ['ens1#0-3']}\n", "one")
        + "---\n"
        + policy("  nicSelector:\n    pfNames:\n    - ens1#3-7  # <- sriov.policies-overlap\n", "two"),
        ("#3-7", "#4-7"),
    ),
    "a device that is in two policies": (
        policy("  nicSelector: {rootDevices: ['0000:03:00.0']}\n", "one")
        + "---\n"
        + policy("  nicSelector:\n    rootDevices:\n    - '0000:03:00.0'  # <- sriov.policies-overlap\n", "two"),
        ("- '0000:03:00.0'", "- '0000:04:00.0'"),
    ),
    "one resource with and without topology": (
        policy("  nicSelector: {pfNames: [ens1]}\n", "one")
        + "---\n"
        + policy("  nicSelector: {pfNames: [ens2]}\n  excludeTopology: true\n", "two").replace("b}", "b}"
"  # <- sriov.policies-differ"),
        ("excludeTopology: true", "excludeTopology: false"),
    ),
    "a network with a VLAN of 4095": (
        made("SriovNetwork", "  resourceName: r\n  vlan: 4095  # <- schema.value\n"),
        ("4095", "4094"),
    ),
    "a network of a protocol that there is not": (
        made("SriovNetwork", "  resourceName: r\n  vlanProto: 802.1p  # <- schema.value\n"),
        ("802.1p", "802.1ad"),
    ),
    "an InfiniBand network with a field of Ethernet": (
        made("SriovIBNetwork", "  resourceName: r\n  trust: 'on'  # <- schema.unknown-field\n"),
        ("trust: 'on'", "linkState: enable"),
    ),
    "an Open vSwitch network with a trunk beyond the last": (
        made("OVSNetwork", "  resourceName: r\n  trunk:\n  - {minID: 1, maxID: 4096}  # <- schema.value\n"),
        ("4096", "4095"),
    ),
    "nodes that are set up together, beside offload": (
        made(
            "SriovNetworkPoolConfig",
            "  maxUnavailable: 2\n  ovsHardwareOffloadConfig:\n    name: worker  # <- sriov.pool\n",
        ),
        ("  maxUnavailable: 2\n", ""),
    ),
    "a share of nodes that is none": (
        made("SriovNetworkPoolConfig", "  maxUnavailable: some  # <- sriov.pool\n"),
        ("some", "10%"),
    ),
    "a share of nodes above all of them": (
        made("SriovNetworkPoolConfig", "  maxUnavailable: 150%  # <- sriov.pool\n"),
        ("150", "100"),
    ),
    "a number of nodes below none": (
        made("SriovNetworkPoolConfig", "  maxUnavailable: -1  # <- sriov.pool\n"),
        ("-1", "0"),
    ),
    "an MTU below none": (
        made("OVSNetwork", "  resourceName: r\n  mtu: -1  # <- schema.value\n"),
        ("-1", "9000"),
    ),
    "a driver whose own version has three parts": (
        cluster(
            "  ofedDriver:\n    image: d\n    repository: example.com/n\n"
            "    version: doca3.1-25.07-0.6.6-0  # <- policy.driver-version\n"
        ),
        ("0.6.6-0", "0.6.6.0-0"),
    ),
    "a repository that reads like a digest": (
        cluster(f"  nvIpam:\n    image: n\n    version: v1\n    repository: {'a' * 64}  # <- policy.image\n"),
        ("a" * 64, "a" * 63),
    ),
    "an image of the NIC configuration operator without a name": (
        cluster(
            f"  nicConfigurationOperator:\n    operator: {{{IMAGE}}}\n    configurationDaemon:\n"
            "      repository: example.com/n\n      version: v1\n      image: ''  # <- policy.image\n"
        ),
        ("''", "daemon"),
    ),
    "a switch of the IPAM plugin that is a text": (
        cluster(f"  nvIpam:\n    {IMAGE.replace(', ', chr(10) + '    ')}\n    enableWebhook: 'no'  # <- schema.type\n"),
        ("'no'", "false"),
    ),
    "a node that no node is called": (
        selector(
            "\n    - matchFields:\n      - key: metadata.name\n        operator: In\n        values:\n"
            "        - gpu_1  # <- kubernetes.selector\n"
        ),
        ("gpu_1", "gpu-1"),
    ),
    "a second configuration of the operator": (
        made("SriovOperatorConfig", "{logLevel: 2}", "other  # <- sriov.operator-config"),
        ("other", "default"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_a_webhook_refuses_is_named_with_its_line_and_its_twin_is_admitted(case):
    refused, *fixes = CASES[case]
    assert said(refused) == marked(refused) != set()
    assert said(twin(refused, *fixes)) == set()


ADMITTED = {
    "a custom network without a configuration": network("{cniType: custom}"),
    "a network of the default type": network("{}"),
    "a coordinator of one network without the kind of pod CIDRs": network("{coordinator: {mode: underlay}}"),
    "a list of devices that is empty": plugin(
        "sriovDevicePlugin", '{"resourceList": [{"resourceName": "r", "selectors": {"devices": []}}]}', "-"
    ),
    "a resource without selectors, with a key of a newer release": plugin(
        "sriovDevicePlugin", '{"resourceList": [{"resourceName": "r", "newer": 1}], "also": 2}', "-"
    ),
    "auxiliary devices": plugin(
        "sriovDevicePlugin",
        '{"resourceList": [{"resourceName": "r", "deviceType": "auxNetDevice", "selectors": [{"auxTypes": ["sf"]}]}]}',
        "-",
    ),
    "a pool without a gateway, as an empty text": made(
        "IPPool", "{subnet: 10.0.0.0/24, perNodeBlockSize: 8, gateway: ''}"
    ),
    "a chain whose fields are in capitals, as Go reads them": network(
        '  cniType: sriov\n  sriov: {resourceName: a/b}\n  chainCNIJsonData: [\'{"Type": "tuning"}\']\n'
    ),
    "a bond without a name, of one master": network(
        "  cniType: macvlan\n  macvlan: {master: [ens1], bond: {name: '', mode: 1}}\n"
    ),
    "repositories of images": cluster(
        "  nvIpam: {image: a, version: v1, repository: 'harbor.a-b.com:443/x__y/z-1.0'}\n"
        "  nicFeatureDiscovery: {image: a, version: v1, repository: my_registry/x}\n"
    ),
    "networks without an IPAM, on purpose": "---\n".join(
        made("NicNetwork", f"{{networkNamespace: a, ipam: '{{}}', {more}}}").replace("NicNetwork", kind)
        for kind, more in (
            ("HostDeviceNetwork", "resourceName: r"),
            ("MacvlanNetwork", "master: ens1"),
            ("IPoIBNetwork", "master: ib0"),
        )
    ),
    "a digest in capitals for the driver": cluster(
        "  ofedDriver: {image: d, repository: example.com/n, version: 'sha256:" + "0A" * 32 + "'}\n"
    ),
    "the policy of old releases": made("SriovNetworkNodePolicy", "{}", "default"),
    "two policies of different nodes": policy("  nicSelector: {pfNames: [ens1]}\n", "one", "{rack: r1}")
    + "---\n"
    + policy("  nicSelector: {pfNames: [ens1]}\n", "two", "{rack: r2}"),
}


@pytest.mark.parametrize("case", ADMITTED)
def test_what_a_webhook_admits_is_not_called_wrong(case):
    assert checked(ADMITTED[case].replace("  # <- -", "")).findings == ()


def test_what_is_admitted_and_surely_not_meant_is_a_warning():
    """Pools that overlap, a policy that nothing uses, a term that selects nothing, host bits of a route."""
    text = "---\n".join((
        made("IPPool", "{subnet: 10.0.0.0/16, perNodeBlockSize: 8}", "wide"),
        made("IPPool", "{subnet: 10.0.0.0/24, perNodeBlockSize: 8, gateway: 10.0.0.1, routes: [{dst: 10.9.0.1/16}]}"),
        policy("  nicSelector: {pfNames: [ens1]}\n").replace("network-operator", "default"),
        made("IPPool", "{subnet: 10.7.0.0/24, perNodeBlockSize: 8, nodeSelector: {nodeSelectorTerms: [{}]}}", "empty"),
    ))  # fmt: skip
    found = checked(text.replace("10.7.0.0/24", "10.77.0.0/24"))
    rules = {"nv-ipam.pools-overlap", "nv-ipam.route", "sriov.namespace", "kubernetes.selector"}
    assert {fault.rule for fault in found.findings} >= rules
    assert {fault.verdict for fault in found.findings} == {"warn"}


WARNED = {
    "a field of old releases": made("SpiderIPPool", "{subnet: 10.0.0.0/24, vlan: 5}"),
    "addresses to reserve later": made("SpiderReservedIP", "{ipVersion: 4}"),
    "a VLAN that is manual and gets the id 0": network("{cniType: vlan, vlan: {master: [ens1], vlanMode: manual}}"),
    "one network in two spellings": made(
        "SpiderIPPool",
        "{subnet: 10.0.0.0/24, routes: [{dst: 10.1.0.0/16, gw: 10.0.0.1}, {dst: 10.1.0.1/16, gw: 10.0.0.1}]}",
    ),
}


@pytest.mark.parametrize("case", WARNED)
def test_what_is_admitted_and_does_nothing_is_a_warning(case):
    assert [fault.verdict for fault in checked(WARNED[case]).findings] == ["warn"]


def test_a_warning_within_a_part_does_not_hide_the_rules_around_it():
    text = network("  cniType: sriov  # <- spiderpool.block-missing\n  coordinator: {detectGateway: true}\n")
    assert {(fault.rule, fault.verdict) for fault in checked(twin(text)).findings} == {
        ("spiderpool.deprecated", "warn"), ("spiderpool.block-missing", "fail"),
    }  # fmt: skip


def test_a_kind_of_a_newer_release_is_named_and_not_judged():
    result = checked(made("SpiderFabricBundle", "{a: b}"))
    assert result.findings == ()
    assert [manifest.kind for manifest in result.unjudged] == ["SpiderFabricBundle"]


def test_no_message_has_words_of_the_library_that_validates():
    texts = [refused for refused, *_ in CASES.values()]
    faults = [fault for text in texts for fault in checked(twin(text)).findings]
    assert len(faults) >= len(CASES)
    words = ("Input should", "validation", "pydantic", "Tuple", "valid dictionary", "Value error", "Field required")
    assert [fault.message for fault in faults if any(word in fault.message for word in words)] == []
