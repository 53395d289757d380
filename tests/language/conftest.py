"""Small kinds and a small estate to read playbooks against; nothing here talks to anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from vsphere_ai.model.facts import About, Estate, Facts
from vsphere_ai.model.state import observed
from vsphere_ai.resources.base import Resource


def _layout_word(text: str) -> str:
    if "g." not in text:
        raise ValueError(f"'{text}' is not a MIG profile\nwrite e.g. 3g.20gb")
    return text


class _Kind(Resource):
    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> _Kind | None:
        return None

    def problems(self, target: Any, view: Any) -> Iterator[Any]:
        return iter(())

    def steps(self, change: Any, view: Any) -> Iterator[Any]:
        return iter(())


class Graphics(_Kind):
    kind = "graphics"
    target: ClassVar[Any] = "host"
    default_type: Literal["shared", "shared_direct"] | None = None
    assignment_policy: Literal["performance", "consolidation"] | None = None
    gpus: tuple[str, ...] | None = observed("Every GPU and its type.")


class Gpu(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    layout: tuple[Annotated[str, AfterValidator(_layout_word)] | int, ...]


class Mig(_Kind):
    kind = "mig"
    target: ClassVar[Any] = "host"
    mode: Literal["enabled", "disabled"] | None = None
    layout: tuple[Annotated[str, AfterValidator(_layout_word)] | int, ...] | str | None = None
    gpus: Mapping[str, Gpu] | None = None


class Hardware(_Kind):
    kind = "hardware"
    target: ClassVar[Any] = "vm"
    version: Annotated[int, Field(ge=13, le=22)] | None = None
    memory_reservation: Literal["full"] | int | None = None
    locked: bool | None = None


class Vgpu(_Kind):
    kind = "vgpu"
    target: ClassVar[Any] = "vm"
    shorthand = "profiles"
    profiles: tuple[str, ...]
    mmio_size_gb: int | None = observed("Follows from the profiles.")


class Adapter(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    port_group: str
    protocol: Literal["rocev1", "rocev2"] | None = None
    mac: str | None = observed("Given by vCenter.")


class Pvrdma(_Kind):
    kind = "pvrdma"
    target: ClassVar[Any] = "vm"
    shorthand = "adapters"
    adapters: tuple[Adapter, ...]


@pytest.fixture(scope="session")
def kinds() -> Mapping[str, type[Resource]]:
    return {each.kind: each for each in (Graphics, Hardware, Mig, Pvrdma, Vgpu)}


def _objects() -> Iterator[Facts]:
    def one(ref: str, name: str, parent: str = "", **more: Any) -> Facts:
        properties = {"name": name, **({"parent": parent} if parent else {}), **more}
        return Facts(ref, {key.replace("__", "."): value for key, value in properties.items()})

    yield one("Folder:group-d1", "Datacenters")
    for number, name in ((1, "DC1"), (2, "DC2")):
        center = f"Datacenter:datacenter-{number}"
        yield one(center, name, "Folder:group-d1")
        yield one(f"Folder:group-v{number}", "vm", center)
        yield one(f"Folder:group-h{number}", "host", center)
        yield one(f"Folder:group-v{number}0", "ai", f"Folder:group-v{number}")
    yield one("Folder:group-v11", "training", "Folder:group-v10")
    yield one("ClusterComputeResource:domain-c1", "gpu-a", "Folder:group-h1")
    yield one("ClusterComputeResource:domain-c2", "gpu-b", "Folder:group-h2")
    yield one("ClusterComputeResource:domain-c3", "empty", "Folder:group-h2")
    yield one("ComputeResource:domain-s1", "esx-odd.lab.local", "Folder:group-h1")
    for number in (1, 2, 3):
        yield one(f"HostSystem:host-{number}", f"esx0{number}.lab.local", "ClusterComputeResource:domain-c1")
    yield one("HostSystem:host-4", "esx-b.lab.local", "ClusterComputeResource:domain-c2")
    yield one("HostSystem:host-9", "esx-odd.lab.local", "ComputeResource:domain-s1")
    for number in (1, 2, 3, 4):
        host = f"HostSystem:host-{1 + number % 2}"
        yield one(f"VirtualMachine:vm-{number}", f"train-0{number}", "Folder:group-v11", runtime__host=host)
    yield one("VirtualMachine:vm-5", "infra-01", "Folder:group-v1", runtime__host="HostSystem:host-3")
    yield one("VirtualMachine:vm-6", "infra-01", "Folder:group-v2", runtime__host="HostSystem:host-4")
    yield one("VirtualMachine:vm-7", "odd, one:[x]", "Folder:group-v20", runtime__host="HostSystem:host-4")
    yield one(
        "VirtualMachine:vm-8", "golden", "Folder:group-v10", runtime__host="HostSystem:host-1", config__template=True
    )


@pytest.fixture(scope="session")
def estate() -> Estate:
    about = About(name="lab", version="7.0.2", build="1", api="7.0.2.0", instance="uuid")
    return Estate(about, {facts.ref: facts for facts in _objects()})
