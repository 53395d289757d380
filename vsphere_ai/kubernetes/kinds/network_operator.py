"""Fields of the NVIDIA Network Operator's objects, version v1alpha1.

Source: github.com/Mellanox/network-operator at b06827e0, api/v1alpha1. Parts of a component that its webhook does not
look at are taken as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from vsphere_ai.kubernetes.kinds.labels import subdomain
from vsphere_ai.kubernetes.objects import Anything, BrokenRule, RuledModel, Spec, broken, keeps

GROUP = "mellanox.com"
VERSION = "v1alpha1"
POLICY_NAME = "nic-cluster-policy"
"""The one name of a `NicClusterPolicy`: pkg/consts/consts.go."""

Open = dict[str, Anything]
Count = Annotated[int, Field(ge=0)]


_QUANTITY = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?")
_FACTORS = {unit: Decimal(1024) ** power for power, unit in enumerate(("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))} | {
    unit: Decimal(1000) ** power for unit, power in zip("numkMGTPE", (-3, -2, -1, 1, 2, 3, 4, 5, 6), strict=True)
}
GUID = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){7}")


def quantity(text: str | int) -> Decimal:
    """Return an amount as Kubernetes writes it, such as ``500m`` or ``2Gi``; `ValueError` for anything else."""
    parts = _QUANTITY.fullmatch(str(text))
    if parts is None:
        raise ValueError(f"'{text}' is no amount\nwrite e.g. 500m or 2Gi")
    unit = parts[2] or ""
    return Decimal(parts[1]) * (_FACTORS[unit] if unit in _FACTORS else Decimal(10) ** int(unit[1:]))


class Requests(Spec):
    """What a container may take: ``cpu`` and ``memory``, and at most `limits` of them."""

    name: str
    requests: dict[str, str | int] | None = None
    limits: dict[str, str | int] | None = None

    def broken_rules(self) -> Iterator[BrokenRule]:
        """Yield other resources, amounts of nothing, and requests above their limit."""
        amounts: dict[tuple[str, str], Decimal] = {}
        for field, given in (("requests", self.requests), ("limits", self.limits)):
            for name, text in (given or {}).items():
                if name not in ("cpu", "memory"):
                    message = f"a container of the operator has no {field} of '{name}'"
                    yield broken("policy.resources", message, "write cpu or memory", (field, name))
                try:
                    amounts[field, name] = quantity(text)
                except ValueError as error:
                    message, _, help = str(error).partition("\n")
                    yield broken("policy.resources", message, help, (field, name))
                    continue
                if amounts[field, name] == 0:
                    yield broken("policy.resources", f"{field} of {name} are zero", "remove it", (field, name))
        for name in (self.limits or {}).keys() & (self.requests or {}).keys():
            least, most = amounts.get(("requests", name)), amounts.get(("limits", name))
            if least is not None and most is not None and least > most:
                message = f"{(self.requests or {})[name]} of {name} are requested, above the limit"
                yield broken("policy.resources", message, "raise the limit", ("requests", name))


class Probe(Spec):
    """When and how often a container is asked whether it works, in seconds."""

    initialDelaySeconds: int
    periodSeconds: int
    failureThreshold: int | None = None
    timeoutSeconds: int | None = None


class Global(Spec):
    """What components take that do not say it themselves."""

    repository: str | None = None
    version: str | None = None
    imagePullSecrets: tuple[str, ...] = ()


class Component(RuledModel):
    """A container image of the operator, with the settings of its own that are not checked."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    image: str | None = None
    repository: str | None = None
    version: str | None = None
    imagePullSecrets: tuple[str, ...] = ()
    containerResources: tuple[Requests, ...] = ()


class Drain(Spec):
    """How nodes are emptied."""

    enable: bool | None = None
    force: bool | None = None
    podSelector: str | None = None
    timeoutSeconds: Count | None = None
    deleteEmptyDir: bool | None = None


class WaitForCompletion(Spec):
    """Which pods are waited for."""

    podSelector: str | None = None
    timeoutSeconds: Count | None = None


class UpgradePolicy(Spec):
    """How a new driver is rolled out."""

    autoUpgrade: bool = False
    maxParallelUpgrades: Count | None = None
    safeLoad: bool = False
    drain: Drain | None = None
    waitForCompletion: WaitForCompletion | None = None


class OfedDriver(Component):
    """The container of the NIC driver."""

    upgradePolicy: UpgradePolicy | None = None
    startupProbe: Probe | None = None
    livenessProbe: Probe | None = None
    readinessProbe: Probe | None = None
    terminationGracePeriodSeconds: Count | None = None
    forcePrecompiled: bool | None = None


class DevicePlugin(Component):
    """A device plugin with its configuration, a JSON text."""

    config: str | None = None
    useCdi: bool | None = None


class IbKubernetes(Component):
    """The agent that gives GUIDs to virtual functions."""

    periodicUpdateSeconds: Count | None = None
    pKeyGUIDPoolRangeStart: str
    pKeyGUIDPoolRangeEnd: str
    ufmSecret: str

    def broken_rules(self) -> Iterator[BrokenRule]:
        """Yield ends of the range that are no GUID, and a range that does not end after it begins."""
        first, last = self.pKeyGUIDPoolRangeStart, self.pKeyGUIDPoolRangeEnd
        ends = (("pKeyGUIDPoolRangeStart", first), ("pKeyGUIDPoolRangeEnd", last))
        wrong = [(key, text) for key, text in ends if not GUID.fullmatch(text)]
        for key, text in wrong:
            yield broken("policy.guid", f"'{text}' is no GUID", "write 8 bytes: 02:00:...:00", (key,))
        if not wrong and first.lower() >= last.lower():
            message = f"the range of GUIDs ends at {last} before it begins"
            yield broken("policy.guid", message, at=("pKeyGUIDPoolRangeEnd",))


class ConfigMapName(Spec):
    """The ConfigMap that holds a configuration."""

    fromConfigMap: Annotated[str, keeps("policy.config-map", subdomain)]


class Telemetry(Component):
    """The DOCA telemetry service."""

    config: ConfigMapName | None = None


class NvIpam(Component):
    """The IPAM plugin's controller and its part on each node."""

    enableWebhook: bool = False


class NicConfigurationOperator(RuledModel):
    """The operator that sets firmware parameters of NICs, in releases that bring it."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    operator: Component
    configurationDaemon: Component
    logLevel: Literal["info", "debug"] | None = None


class SecondaryNetwork(Spec):
    """The plugins of a pod's further NICs."""

    multus: Component | None = None
    cniPlugins: Component | None = None
    ipoib: Component | None = None


class NodePolicy(Spec):
    """What a policy of a cluster and one of some nodes may both hold; one of them, not both, does."""

    ofedDriver: OfedDriver | None = None
    rdmaSharedDevicePlugin: DevicePlugin | None = None
    sriovDevicePlugin: DevicePlugin | None = None
    tolerations: tuple[Open, ...] = ()

    def sections(self) -> dict[str, Component]:
        """Return the driver and the device plugins that are given, by name."""
        shared = NodePolicy.model_fields
        return {name: value for name, value in self if name in shared and isinstance(value, Component)}


class NicNodePolicy(NodePolicy):
    """Drivers and device plugins of some nodes."""

    nodeSelector: dict[str, str] | None = None


class NicClusterPolicy(NodePolicy):
    """Drivers, device plugins and networks of a cluster."""

    global_: Annotated[Global | None, Field(alias="global")] = None
    ibKubernetes: IbKubernetes | None = None
    secondaryNetwork: SecondaryNetwork | None = None
    nvIpam: NvIpam | None = None
    nicFeatureDiscovery: Component | None = None
    docaTelemetryService: Telemetry | None = None
    nicConfigurationOperator: NicConfigurationOperator | None = None
    spectrumXOperator: Open | None = None
    nodeAffinity: Open | None = None
    deploymentNodeAffinity: Open | None = None
    deploymentTolerations: tuple[Open, ...] = ()


class MacvlanNetwork(Spec):
    """A network of child interfaces of the node's NIC `master`."""

    networkNamespace: str = "default"
    master: str | None = None
    mode: Literal["bridge", "private", "vepa", "passthru"] | None = None
    mtu: Count | None = None
    ipam: str | None = None
    metaPlugins: str | None = None


class IPoIBNetwork(Spec):
    """A network of IP over InfiniBand interfaces."""

    networkNamespace: str = "default"
    master: str | None = None
    ipam: str | None = None


class HostDeviceNetwork(Spec):
    """A network of whole devices that the SR-IOV device plugin offers."""

    networkNamespace: str = "default"
    resourceName: str
    ipam: str | None = None
    metaPlugins: str | None = None


CONTAINERS = {
    "cniPlugins": ("cni-plugins",),
    "ibKubernetes": ("ib-kubernetes",),
    "ipoib": ("ipoib-cni",),
    "multus": ("kube-multus",),
    "nicFeatureDiscovery": ("nic-feature-discovery",),
    "nvIpam": ("nv-ipam-controller", "nv-ipam-node"),
    "ofedDriver": ("mofed-container", "openshift-driver-toolkit-ctr"),
    "rdmaSharedDevicePlugin": ("rdma-shared-dp",),
    "sriovDevicePlugin": ("kube-sriovdp",),
}
"""Component -> the containers of its manifest (manifests/state-*), which `containerResources` may name."""
KINDS: dict[str, type[Spec]] = {
    "NicClusterPolicy": NicClusterPolicy,
    "NicNodePolicy": NicNodePolicy,
    "MacvlanNetwork": MacvlanNetwork,
    "IPoIBNetwork": IPoIBNetwork,
    "HostDeviceNetwork": HostDeviceNetwork,
}
