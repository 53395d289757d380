"""Fields of the NVIDIA Network Operator's objects, version v1alpha1.

Source: github.com/Mellanox/network-operator at b06827e0, api/v1alpha1. Parts of a component that its webhook does not
look at are taken as they are.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from vsphere_ai.kubernetes.objects import Anything, Spec

GROUP = "mellanox.com"
VERSION = "v1alpha1"
POLICY_NAME = "nic-cluster-policy"
"""The one name of a `NicClusterPolicy`: pkg/consts/consts.go."""

Open = dict[str, Anything]
Count = Annotated[int, Field(ge=0)]


class Requests(Spec):
    """What a container may take."""

    name: str
    requests: dict[str, str | int] | None = None
    limits: dict[str, str | int] | None = None


class Global(Spec):
    """What components take that do not say it themselves."""

    repository: str | None = None
    version: str | None = None
    imagePullSecrets: tuple[str, ...] = ()


class Component(BaseModel):
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
    terminationGracePeriodSeconds: Count | None = None
    forcePrecompiled: bool | None = None


class DevicePlugin(Component):
    """A device plugin with its configuration, a JSON text."""

    config: str | None = None
    useCdi: bool | None = None


class IbKubernetes(Component):
    """The agent that gives GUIDs to virtual functions."""

    periodicUpdateSeconds: Count | None = None
    pKeyGUIDPoolRangeStart: str | None = None
    pKeyGUIDPoolRangeEnd: str | None = None
    ufmSecret: str | None = None


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
    nvIpam: Component | None = None
    nicFeatureDiscovery: Component | None = None
    docaTelemetryService: Component | None = None
    nicConfigurationOperator: Open | None = None
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


KINDS: dict[str, type[Spec]] = {
    "NicClusterPolicy": NicClusterPolicy,
    "NicNodePolicy": NicNodePolicy,
    "MacvlanNetwork": MacvlanNetwork,
    "IPoIBNetwork": IPoIBNetwork,
    "HostDeviceNetwork": HostDeviceNetwork,
}
