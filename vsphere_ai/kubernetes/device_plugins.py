"""Configurations of the RDMA shared device plugin and of the SR-IOV device plugin: JSON texts in a policy.

Source: github.com/Mellanox/k8s-rdma-shared-dev-plugin at 410b0f3, pkg/resources; the SR-IOV plugin's own checks as
github.com/Mellanox/network-operator at b06827e0 repeats them in its webhook.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import Annotated, Literal, TypeVar

from pydantic import Field, JsonValue, ValidationError

from vsphere_ai.kubernetes.objects import Manifest, ObjectFinding, Spec
from vsphere_ai.language.yaml_files.document import DocumentPath

_SHARED_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_SRIOV_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.]*)?[A-Za-z0-9]")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

Texts = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]


class SharedSelectors(Spec):
    """Devices of a shared resource: all the given conditions hold."""

    vendors: Texts | None = None
    deviceIDs: Texts | None = None
    drivers: Texts | None = None
    ifNames: Texts | None = None
    linkTypes: Texts | None = None


class SharedResource(Spec):
    """An RDMA device that `rdmaHcaMax` pods share."""

    resourceName: str
    rdmaHcaMax: Annotated[int, Field(ge=0)]
    resourcePrefix: str | None = None
    selectors: SharedSelectors | None = None
    devices: tuple[str, ...] | None = None


class SharedConfig(Spec):
    """The configuration of the RDMA shared device plugin."""

    configList: Annotated[tuple[SharedResource, ...], Field(min_length=1)]
    periodicUpdateInterval: Annotated[int, Field(ge=0)] | None = None


class SriovSelectors(Spec):
    """Devices of an SR-IOV resource: all the given conditions hold."""

    vendors: Texts | None = None
    devices: Texts | None = None
    drivers: Texts | None = None
    pciAddresses: Texts | None = None
    pfNames: Texts | None = None
    rootDevices: Texts | None = None
    linkTypes: Texts | None = None
    ddpProfiles: Texts | None = None
    isRdma: bool | None = None
    needVhostNet: bool | None = None
    vdpaType: Literal["virtio", "vhost"] | None = None


class SriovResource(Spec):
    """A device that one pod owns."""

    resourceName: str
    resourcePrefix: str | None = None
    deviceType: Literal["accelerator", "netDevice", "auxNetDevice"] | None = None
    excludeTopology: bool | None = None
    selectors: SriovSelectors | tuple[SriovSelectors, ...] | None = None
    additionalInfo: dict[str, JsonValue] | None = None


class SriovConfig(Spec):
    """The configuration of the SR-IOV device plugin."""

    resourceList: Annotated[tuple[SriovResource, ...], Field(min_length=1)]


C = TypeVar("C", bound=Spec)


def check_shared(manifest: Manifest, path: DocumentPath, text: str) -> Iterator[ObjectFinding]:
    """Yield what is wrong with the configuration of the RDMA shared device plugin."""
    config = yield from _read(manifest, path, text, SharedConfig)
    if config is None:
        return
    for index, each in enumerate(config.configList):
        spot = f"configList[{index}]"
        if each.selectors is not None and each.devices is not None:
            message = f"{spot} has selectors and devices: the plugin refuses both together"
            yield manifest.fault(path, "device-plugin.selectors", message, "keep one of them")
        elif not each.devices and not _given(each.selectors):
            yield manifest.fault(path, "device-plugin.selectors", f"{spot} selects no device", "add selectors.ifNames")
        yield from _names(manifest, path, each, _SHARED_NAME)
    seen: set[tuple[str, str]] = set()
    for each in config.configList:
        name = (each.resourcePrefix or "rdma", each.resourceName)
        if name in seen:
            yield manifest.fault(path, "device-plugin.name-twice", f"the resource {'/'.join(name)} is written twice")
        seen.add(name)


def check_sriov(manifest: Manifest, path: DocumentPath, text: str) -> Iterator[ObjectFinding]:
    """Yield what is wrong with the configuration of the SR-IOV device plugin."""
    config = yield from _read(manifest, path, text, SriovConfig)
    if config is None:
        return
    for index, each in enumerate(config.resourceList):
        spot = f"resourceList[{index}]"
        selectors = each.selectors if isinstance(each.selectors, tuple) else (each.selectors,)
        if not any(map(_given, selectors)):
            help = "add selectors.pciAddresses"
            yield manifest.fault(path, "device-plugin.selectors", f"{spot} selects no device", help)
        yield from _names(manifest, path, each, _SRIOV_NAME)


def resources_of(text: str) -> dict[str, str]:
    """Return the resources that a configuration of the SR-IOV device plugin offers: name -> prefix, if any is given."""
    try:
        config = SriovConfig.model_validate_json(text, strict=True)
    except ValueError:
        return {}
    return {each.resourceName: each.resourcePrefix or "" for each in config.resourceList}


def _read(
    manifest: Manifest, path: DocumentPath, text: str, model: type[C]
) -> Generator[ObjectFinding, None, C | None]:
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        for each in error.errors(include_url=False):
            steps = (s for s in each["loc"] if not (isinstance(s, str) and ("[" in s or s == "SriovSelectors")))
            spot = "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in steps).lstrip(".")
            message = f"{spot}: {each['msg']}" if spot else f"this is not a configuration in JSON: {each['msg']}"
            yield manifest.fault(path, "device-plugin.config", message)
    return None


def _given(selectors: Spec | None) -> bool:
    return selectors is not None and any(value is not None for _, value in selectors)


def _names(
    manifest: Manifest, path: DocumentPath, each: SharedResource | SriovResource, allowed: re.Pattern[str]
) -> Iterator[ObjectFinding]:
    if not allowed.fullmatch(each.resourceName):
        hyphen = "" if allowed is _SHARED_NAME else "; the SR-IOV device plugin takes no hyphen"
        message = f"'{each.resourceName}' is no name of a resource{hyphen}"
        yield manifest.fault(path, "device-plugin.name", message, "write letters and digits")
    if each.resourcePrefix is not None and not _PREFIX.fullmatch(each.resourcePrefix):
        message = f"'{each.resourcePrefix}' is no prefix of resources"
        yield manifest.fault(path, "device-plugin.prefix", message, "write a dotted name such as nvidia.com")
