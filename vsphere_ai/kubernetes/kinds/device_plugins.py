"""Configurations of the RDMA shared device plugin and of the SR-IOV device plugin: JSON texts in a policy.

Source: github.com/Mellanox/k8s-rdma-shared-dev-plugin at 410b0f3, pkg/resources; the SR-IOV plugin's own checks as
github.com/Mellanox/network-operator at b06827e0 repeats them in its webhook (webhook-schemas, api/v1alpha1/validator).
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping
from typing import Annotated, Literal, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field

from vsphere_ai.kubernetes.objects import BrokenRule, Manifest, ObjectFinding, RuledModel, Spec, broken
from vsphere_ai.kubernetes.schema import read_model, words_of
from vsphere_ai.language.yaml_files.document import DocumentPath
from vsphere_ai.model.bounded import json_value
from vsphere_ai.model.plain import as_tuples

_SHARED_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_SRIOV_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.]*)?[A-Za-z0-9]")
_PREFIX = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z]{2,})+")

Texts = tuple[Annotated[str, Field(min_length=1)], ...]


class Entry(RuledModel):
    """An entry of a configuration; keys that no rule is about pass the webhook."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)


class SharedSelectors(Spec):
    """Devices of a shared resource: all the given conditions hold."""

    vendors: Texts = ()
    deviceIDs: Texts = ()
    drivers: Texts = ()
    ifNames: Texts = ()
    linkTypes: Texts = ()


class SharedResource(Entry):
    """An RDMA device that `rdmaHcaMax` pods share."""

    resourceName: str
    rdmaHcaMax: Annotated[int, Field(ge=0)]
    resourcePrefix: str | None = None
    selectors: SharedSelectors | None = None
    devices: Texts = ()

    def broken_rules(self) -> Iterator[BrokenRule]:
        """Yield selectors beside devices, and neither of them."""
        if self.selectors is not None and self.devices:
            message = "selectors and devices: the plugin refuses both together"
            yield broken("device-plugin.selectors", message, "keep one of them")
        elif not self.devices and not (self.selectors and any(values for _, values in self.selectors)):
            yield broken("device-plugin.selectors", "it selects no device", "add selectors.ifNames")
        yield from _broken_names(self.resourceName, self.resourcePrefix, _SHARED_NAME)


class SharedConfig(Entry):
    """The configuration of the RDMA shared device plugin."""

    configList: Annotated[tuple[SharedResource, ...], Field(min_length=1)]
    periodicUpdateInterval: Annotated[int, Field(ge=0)] | None = None


class SriovSelectors(Spec):
    """Devices of an SR-IOV resource: all the given conditions hold."""

    vendors: Texts = ()
    devices: Texts = ()
    drivers: Texts = ()
    pciAddresses: Texts = ()
    pfNames: Texts = ()
    rootDevices: Texts = ()
    linkTypes: Texts = ()
    ddpProfiles: Texts = ()
    auxTypes: Texts = ()
    isRdma: bool = False
    needVhostNet: bool = False
    vdpaType: str = ""


COMMON = frozenset({"vendors", "devices", "drivers"})
SELECTORS: Mapping[str, frozenset[str]] = {
    "accelerator": COMMON | {"pciAddresses"},
    "auxNetDevice": COMMON | {"pfNames", "rootDevices", "linkTypes", "isRdma", "auxTypes"},
    "netDevice": COMMON
    | {"pciAddresses", "pfNames", "rootDevices", "linkTypes", "ddpProfiles", "isRdma", "needVhostNet", "vdpaType"},
}
"""Type of devices -> the selectors that its schema has."""


def _one_or_many(value: object) -> object:
    """Return the selectors of a resource, an object or a list of them, as a list."""
    return (value,) if isinstance(value, dict) else value


class SriovResource(Entry):
    """A device that one pod owns."""

    resourceName: str
    resourcePrefix: str | None = None
    deviceType: Literal["accelerator", "netDevice", "auxNetDevice"] = "netDevice"
    excludeTopology: bool | None = None
    selectors: Annotated[tuple[SriovSelectors, ...], BeforeValidator(_one_or_many)] = ()

    def broken_rules(self) -> Iterator[BrokenRule]:
        """Yield selectors without a condition, and those that this type of devices does not have."""
        allowed = SELECTORS[self.deviceType]
        for index, each in enumerate(self.selectors):
            if not each.model_fields_set:
                at, help = ("selectors", index), "add selectors.pciAddresses, or leave selectors out"
                yield broken("device-plugin.selectors", "it selects by nothing", help, at)
            for name in sorted(each.model_fields_set - allowed):
                help = f"possible there: {', '.join(sorted(allowed))}"
                message = f"devices of the type {self.deviceType} are not selected by '{name}'"
                yield broken("device-plugin.selectors", message, help, ("selectors", index, name))
        yield from _broken_names(self.resourceName, self.resourcePrefix, _SRIOV_NAME)


class SriovConfig(Entry):
    """The configuration of the SR-IOV device plugin."""

    resourceList: Annotated[tuple[SriovResource, ...], Field(min_length=1)]


C = TypeVar("C", SharedConfig, SriovConfig)


def check_shared(manifest: Manifest, path: DocumentPath, text: str) -> Iterator[ObjectFinding]:
    """Yield what is wrong with the configuration of the RDMA shared device plugin."""
    config = yield from _read(manifest, path, text, SharedConfig)
    seen: set[tuple[str, str]] = set()
    for each in config.configList if config is not None else ():
        name = (each.resourcePrefix or "rdma", each.resourceName)
        if name in seen:
            yield manifest.fault(path, "device-plugin.name-twice", f"the resource {'/'.join(name)} is written twice")
        seen.add(name)


def check_sriov(manifest: Manifest, path: DocumentPath, text: str) -> Iterator[ObjectFinding]:
    """Yield what is wrong with the configuration of the SR-IOV device plugin."""
    yield from _read(manifest, path, text, SriovConfig)


def resources_of(text: str) -> dict[str, str]:
    """Return the resources that a configuration of the SR-IOV device plugin offers: name -> prefix, if any is given."""
    try:
        config, _ = read_model(as_tuples(json_value(text, has_constants=False)), SriovConfig)
    except ValueError:
        return {}
    return {each.resourceName: each.resourcePrefix or "" for each in config.resourceList} if config is not None else {}


def _read(
    manifest: Manifest, path: DocumentPath, text: str, model: type[C]
) -> Generator[ObjectFinding, None, C | None]:
    """Yield the faults of a configuration in JSON, and return it without what is wrong in it."""
    try:
        value = as_tuples(json_value(text, has_constants=False))
    except ValueError as error:
        yield manifest.fault(path, "device-plugin.config", f"this is not a configuration in JSON: {error}")
        return None
    config, errors = read_model(value, model)
    for each in errors:
        message, help = words_of(each)
        spot = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in each["loc"]).lstrip(".")
        rule = each["type"] if "." in each["type"] else "device-plugin.config"
        yield manifest.fault(path, rule, f"{spot}: {message}" if spot else message, help)
    return config


def _broken_names(name: str, prefix: str | None, allowed: re.Pattern[str]) -> Iterator[BrokenRule]:
    if not allowed.fullmatch(name):
        hyphen = "" if allowed is _SHARED_NAME else "; the SR-IOV device plugin takes no hyphen"
        message = f"'{name}' is no name of a resource{hyphen}"
        yield broken("device-plugin.name", message, "write letters and digits", ("resourceName",))
    if prefix is not None and not _PREFIX.fullmatch(prefix):
        message = f"'{prefix}' is no domain name, as the prefix of a resource is"
        yield broken("device-plugin.prefix", message, "write e.g. nvidia.com", ("resourcePrefix",))
