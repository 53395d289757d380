"""Rules of the NVIDIA Network Operator's objects, of its pools and of SR-IOV policies, each alone and together.

Source: github.com/Mellanox/network-operator at b06827e0, api/v1alpha1/validator and pkg/state; macvlan, IPoIB and
host device networks have no webhook there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from vsphere_ai.kubernetes.kinds import device_plugins, nv_ipam, sriov_operator
from vsphere_ai.kubernetes.kinds import network_operator as fields
from vsphere_ai.kubernetes.kinds.network_operator import (
    Component,
    Global,
    HostDeviceNetwork,
    IPoIBNetwork,
    MacvlanNetwork,
    NicClusterPolicy,
    NicNodePolicy,
    NodePolicy,
    OfedDriver,
)
from vsphere_ai.kubernetes.objects import (
    Manifest,
    ObjectFinding,
    Spec,
    TypedObject,
    is_newer_kind,
    twice,
    version_fault,
)
from vsphere_ai.kubernetes.schema import read_spec
from vsphere_ai.language.yaml_files.document import DocumentPath
from vsphere_ai.model.bounded import json_value
from vsphere_ai.model.names.suggestion import suggest

Kinds = Mapping[str, type[Spec]]
GROUPS: Mapping[str, tuple[str, Kinds]] = {
    module.GROUP: (module.VERSION, module.KINDS) for module in (fields, nv_ipam, sriov_operator)
}
NOT_JUDGED: Mapping[str, Sequence[str]] = {sriov_operator.GROUP: sriov_operator.NOT_JUDGED}
MOST_NAME = 30
"""Characters of the name of a `NicNodePolicy`."""
PREFIX = "nvidia.com"
"""Prefix that the operator adds to the resource of a `HostDeviceNetwork`: pkg/state/state_hostdevice_network.go."""

# The pattern of the CRD is not anchored: one such character anywhere is enough (Mellanox/network-operator, ImageSpec).
# The version is added behind a colon, so a tag or digest in it makes a reference that no runtime takes.
_IMAGE = re.compile(r"[^:@\s]*[a-zA-Z0-9-][^:@\s]*")
_REPOSITORY = re.compile(
    r"(?![a-f0-9]{64}$)([a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?(:\d+)?/)?"
    r"[a-z0-9]+((\.|__?|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|__?|-+)[a-z0-9]+)*)*"
)
"""A domain with its port, and parts of small letters: distribution/reference, regexp.go, and ParseNormalizedNamed."""
# From 26.10 on the driver's own version is six digits without dots: doca3.6.0-26.10-043000-0 (both forms are accepted).
_OFED = re.compile(
    r"doca\d+\.\d+(\.\d+)?-\d+\.\d+-(\d+\.\d+\.\d+\.\d+|\d{6})-\d+(-[\w.-]+)*"
    r"|\d+\.\d+-\d+(\.\d+)*(-\d+)?(-[\w.-]+)*|sha256:[0-9a-fA-F]{64}",
    re.ASCII,
)
_RESOURCE = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")


def is_not_judged(manifest: Manifest) -> bool:
    """Return whether an object is of a kind that has no rules here, and is not one that is misspelt."""
    if manifest.group not in GROUPS:
        return False
    if manifest.kind in NOT_JUDGED.get(manifest.group, ()) or sriov_operator.is_default_policy(manifest):
        return True
    return is_newer_kind(manifest.kind, (*GROUPS[manifest.group][1], *NOT_JUDGED.get(manifest.group, ())))


def check(objects: Sequence[Manifest]) -> Iterator[ObjectFinding]:
    """Yield what is wrong with the objects of `GROUPS`, each by itself and together; others are left out."""
    own = [each for each in objects if each.group in GROUPS]
    read: list[TypedObject[Spec]] = []
    for manifest in own:
        version, kinds = GROUPS[manifest.group]
        if is_not_judged(manifest):
            continue
        if manifest.kind not in kinds:
            message = f"there is no kind '{manifest.kind}' in {manifest.group}"
            yield manifest.fault(
                ("kind",),
                "manifest.kind",
                message,
                suggest(manifest.kind, (*kinds, *NOT_JUDGED.get(manifest.group, ()))),
            )
        elif (found := version_fault(manifest, version)) is not None:
            yield found
        else:
            spec, faults = read_spec(manifest, kinds[manifest.kind])
            yield from faults
            read += [] if spec is None else [TypedObject(manifest, spec)]
    ranges: list[nv_ipam.Range] = []
    for each in read:
        yield from _alone(each.manifest, each.spec, ranges)
    yield from nv_ipam.check_apart(ranges)
    yield from _together(read)
    yield from twice(own)


def _alone(manifest: Manifest, spec: Spec, ranges: list[nv_ipam.Range]) -> Iterator[ObjectFinding]:
    match spec:
        case NicClusterPolicy():
            yield from _cluster_policy(manifest, spec)
        case NicNodePolicy():
            yield from _node_policy(manifest, spec)
        case MacvlanNetwork() | IPoIBNetwork():
            if not spec.master:
                message = "no master is named: the pods get the NIC of the node's default route"
                yield manifest.fault(("spec",), "network.no-master", message, "add 'master', the name of a rail's NIC")
            yield from _pasted(manifest, spec)
        case HostDeviceNetwork():
            if not _RESOURCE.fullmatch(spec.resourceName):
                message = f"'{spec.resourceName}' is no name of a resource"
                yield manifest.fault(("spec", "resourceName"), "network.resource", message, f"leave out {PREFIX}/")
            yield from _pasted(manifest, spec)
        case nv_ipam.IPPool() | nv_ipam.CIDRPool():
            yield from nv_ipam.check_pool(manifest, spec, ranges)
        case _:
            yield from sriov_operator.check_place(manifest, spec)


def _cluster_policy(manifest: Manifest, spec: NicClusterPolicy) -> Iterator[ObjectFinding]:
    if manifest.name != fields.POLICY_NAME:
        message = f"the operator uses a NicClusterPolicy of one name only, not '{manifest.name}'"
        yield manifest.fault(("metadata", "name"), "policy.name", message, f"write {fields.POLICY_NAME}")
    yield from _components(manifest, spec, spec.global_)
    daemons = spec.nicConfigurationOperator
    if daemons is not None:
        for name, component in (("operator", daemons.operator), ("configurationDaemon", daemons.configurationDaemon)):
            yield from _image(manifest, ("spec", "nicConfigurationOperator", name), component, spec.global_)
    network = spec.secondaryNetwork
    if network is not None:
        for name, component in network:
            if isinstance(component, Component):
                yield from _image(manifest, ("spec", "secondaryNetwork", name), component, spec.global_)
                yield from _containers(manifest, ("spec", "secondaryNetwork", name), component)


def _node_policy(manifest: Manifest, spec: NicNodePolicy) -> Iterator[ObjectFinding]:
    if len(manifest.name) > MOST_NAME:
        message = f"a name of {len(manifest.name)} characters is too long"
        yield manifest.fault(("metadata", "name"), "policy.name", message, f"give at most {MOST_NAME}")
    yield from _components(manifest, spec, None)


def _components(manifest: Manifest, spec: Spec, common: Global | None) -> Iterator[ObjectFinding]:
    for name, component in spec:
        path: DocumentPath = ("spec", name)
        if isinstance(component, Component):
            yield from _image(manifest, path, component, common)
        if isinstance(component, Component) and isinstance(spec, NicClusterPolicy):
            yield from _containers(manifest, path, component)
        if isinstance(component, OfedDriver):
            yield from _driver(manifest, path, component)
        if isinstance(component, fields.DevicePlugin) and component.config is not None:
            shared = name == "rdmaSharedDevicePlugin"
            check = device_plugins.check_shared if shared else device_plugins.check_sriov
            yield from check(manifest, (*path, "config"), component.config)


def _image(manifest: Manifest, path: DocumentPath, given: Component, common: Global | None) -> Iterator[ObjectFinding]:
    if given.image is None:
        yield manifest.fault(path, "policy.image", f"'{path[-1]}' names no image")
    elif not _IMAGE.fullmatch(given.image):
        yield manifest.fault((*path, "image"), "policy.image", f"'{given.image}' is no name of an image")
    shared = common or Global()
    missing = {"repository": given.repository or shared.repository, "version": given.version or shared.version}
    for key, value in missing.items():
        if value is None:
            message = f"'{path[-1]}' has no {key}, and spec.global has none"
            yield manifest.fault(path, "policy.image", message, f"add {key} to one of them")
    if given.repository is not None and not _REPOSITORY.fullmatch(given.repository):
        yield manifest.fault((*path, "repository"), "policy.image", f"'{given.repository}' is no repository of images")


def _containers(manifest: Manifest, path: DocumentPath, component: Component) -> Iterator[ObjectFinding]:
    """Yield resources of containers that a component does not have; the webhook looks at some components only."""
    names = fields.CONTAINERS.get(str(path[-1]))
    for index, each in enumerate(component.containerResources if names else ()):
        if names and each.name not in names:
            message = f"{path[-1]} has no container '{each.name}'"
            help = f"write {' or '.join(names)}"
            yield manifest.fault((*path, "containerResources", index, "name"), "policy.resources", message, help)


def _driver(manifest: Manifest, path: DocumentPath, driver: OfedDriver) -> Iterator[ObjectFinding]:
    if driver.version is not None and not _OFED.fullmatch(driver.version):
        message = f"'{driver.version}' is no version of the driver container"
        help = "write e.g. doca3.1.0-25.07-0.6.6.0-0 or 24.01-0.3.3.1-0"
        yield manifest.fault((*path, "version"), "policy.driver-version", message, help)
    policy = driver.upgradePolicy
    if policy is not None and policy.safeLoad and not policy.autoUpgrade:
        message = "safeLoad needs autoUpgrade"
        yield manifest.fault((*path, "upgradePolicy", "safeLoad"), "policy.safe-load", message, "set autoUpgrade: true")


def _pasted(manifest: Manifest, spec: MacvlanNetwork | IPoIBNetwork | HostDeviceNetwork) -> Iterator[ObjectFinding]:
    """Check texts that the operator pastes into a network attachment between single quotes."""
    if not spec.ipam:
        message = "there is no 'ipam': pods get no address"
        yield manifest.warning(("spec",), "network.ipam", message, 'add e.g. ipam: \'{"type": "nv-ipam", ...}\'')
    plugins = None if isinstance(spec, IPoIBNetwork) else spec.metaPlugins
    for key, text in (("ipam", spec.ipam), ("metaPlugins", plugins)):
        if not text:
            continue
        path: DocumentPath = ("spec", key)
        try:
            value = json_value(text if key == "ipam" else f"[{text}]", has_constants=False)
        except ValueError as error:
            yield manifest.fault(path, "network.json", f"this is not JSON: {error}")
            continue
        # an empty object is no IPAM on purpose: macvlan, ipoib and host-device run none without a type
        if key == "ipam" and value != {} and not (isinstance(value, dict) and isinstance(value.get("type"), str)):
            yield manifest.fault(path, "network.json", "this is not a JSON object with a 'type'")
        if "'" in text:
            yield manifest.fault(
                path, "network.quote", "a single quote breaks the object that the operator makes of it"
            )


def _together(read: Sequence[TypedObject[Spec]]) -> Iterator[ObjectFinding]:
    pools = {
        (each.manifest.kind.lower(), each.manifest.name): each for each in read if each.manifest.group == nv_ipam.GROUP
    }
    policies = [(each.manifest, each.spec) for each in read if isinstance(each.spec, NodePolicy)]
    for each in read:
        if pools and isinstance(each.spec, MacvlanNetwork | IPoIBNetwork | HostDeviceNetwork):
            yield from _pool_named(each.manifest, each.spec.ipam, pools)
        if isinstance(each.spec, HostDeviceNetwork):
            yield from _resource_offered(each.manifest, each.spec, [policy for _, policy in policies])
    clusters = [(manifest, policy) for manifest, policy in policies if isinstance(policy, NicClusterPolicy)]
    for manifest, policy in policies:
        for other, cluster in clusters[:1]:
            for name in sorted(policy.sections().keys() & cluster.sections().keys()) if policy is not cluster else ():
                message = f"'{name}' is in {manifest} and in {other} ({other.mark_of()})"
                yield manifest.key_fault(("spec", name), "policy.twice", message, "keep it in one of them")
    yield from _same_nodes([(manifest, policy) for manifest, policy in policies if isinstance(policy, NicNodePolicy)])
    sriov = [(each.manifest, each.spec) for each in read if isinstance(each.spec, sriov_operator.NodePolicy)]
    yield from sriov_operator.check_policies(sriov)
    plugin = next((manifest for manifest, policy in policies if policy.sriovDevicePlugin is not None), None)
    for each in read:
        if isinstance(each.spec, sriov_operator.NodePolicy) and plugin is not None:
            message = f"the SR-IOV operator brings a device plugin of its own, beside that of {plugin}"
            yield each.manifest.warning(("kind",), "sriov.two-plugins", message, "keep one of them")


def _same_nodes(policies: Sequence[tuple[Manifest, NicNodePolicy]]) -> Iterator[ObjectFinding]:
    """Yield node policies whose selectors match one node (pkg/policyoverlap); no selector matches each node."""
    for (other, first), (manifest, second) in combinations(policies, 2):
        if sriov_operator.share_nodes(first.nodeSelector or {}, second.nodeSelector or {}):
            message = f"{other} ({other.mark_of()}) selects the same nodes"
            help = "let nodeSelector of the two select different nodes"
            yield manifest.fault(("spec",), "policy.same-nodes", message, help)


def _pool_named(
    manifest: Manifest, ipam: str | None, pools: Mapping[tuple[str, str], TypedObject[Spec]]
) -> Iterator[ObjectFinding]:
    try:
        found = json_value(ipam or "{}")
    except ValueError:
        return
    if not isinstance(found, dict) or found.get("type") != "nv-ipam" or not isinstance(found.get("poolName"), str):
        return
    kind = str(found.get("poolType", "ippool")).lower()
    for name in found["poolName"].split(","):  # one pool, or one per family
        if (kind, name) not in pools:
            near = suggest(name, (name for each, name in pools if each == kind))
            message = f"there is no pool '{name}' of this type in what is checked"
            yield manifest.warning(("spec", "ipam"), "network.pool-missing", message, near)


def _resource_offered(
    manifest: Manifest, spec: HostDeviceNetwork, policies: Sequence[NodePolicy]
) -> Iterator[ObjectFinding]:
    offered: dict[str, str] = {}
    for plugin in (policy.sriovDevicePlugin for policy in policies):
        offered.update(device_plugins.resources_of(plugin.config or "") if plugin is not None else {})
    if spec.resourceName in offered and offered[spec.resourceName] != PREFIX:
        message = f"the operator asks for {PREFIX}/{spec.resourceName}, and the device plugin offers another prefix"
        help = f'write "resourcePrefix": "{PREFIX}" in the configuration of sriovDevicePlugin'
        yield manifest.fault(("spec", "resourceName"), "network.prefix", message, help)
    elif offered and spec.resourceName not in offered:
        message = f"no device plugin in what is checked offers '{spec.resourceName}'"
        yield manifest.warning(
            ("spec", "resourceName"), "network.resource", message, suggest(spec.resourceName, offered)
        )
