"""Host graphics: shared (vSGA) or shared direct (vGPU), and how VMs are spread over a host's GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from vsphere_ai.compat.devices import found_gpus
from vsphere_ai.facts import Facts, View
from vsphere_ai.gpu.inventory import nvidia_gpus
from vsphere_ai.resources.base import Resource
from vsphere_ai.state import Change, Problem, Target, observed
from vsphere_ai.steps import Invoke, Step

GraphicsType = Literal["shared", "shared_direct"]
Policy = Literal["performance", "consolidation"]

# vSphere API spelling (HostGraphicsConfig) <-> the spelling of a playbook
FROM_API = {"sharedDirect": "shared_direct"}
TO_API = {v: k for k, v in FROM_API.items()}


class HostGraphics(Resource):
    """Sets the default graphics type of an ESXi host and of every NVIDIA GPU in it, and the assignment policy.

    A GPU is converged when the type it runs with (`graphicsInfo`) is the wanted one, not when it is configured
    (`graphicsConfig`): a configured change waits for a restart of the host, and this kind asks for that restart.
    """

    kind: ClassVar[str] = "graphics"
    target = "host"
    after: ClassVar[tuple[str, ...]] = ("passthrough",)
    properties: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "HostSystem": ("config.graphicsConfig", "config.graphicsInfo", "config.pciPassthruInfo")
    }

    default_type: GraphicsType | None = Field(
        default=None, description="`shared_direct` gives GPUs to vGPU VMs, `shared` to vSGA; every NVIDIA GPU follows."
    )
    assignment_policy: Policy | None = Field(
        default=None,
        description="`performance` spreads VMs over GPUs, `consolidation` fills one GPU first; "
        "honoured for time-sliced vGPUs of equal size only.",
    )
    gpus: Mapping[str, str] | None = observed("PCI address -> the type the GPU runs with, and what it waits for.")

    @classmethod
    def is_fit(cls, facts: Facts) -> bool:
        """A host with NVIDIA GPUs."""
        return bool(found_gpus(facts.get("hardware.pciDevice", ())))

    @classmethod
    def observe(cls, facts: Facts) -> Self | None:
        """Read what is configured and what is active."""
        config = facts.get("config.graphicsConfig")
        if config is None:
            return None
        configured = {d["deviceId"]: d["graphicsType"] for d in config.get("deviceType", ())}
        default = config["hostDefaultGraphicsType"]
        gpus = {}
        for gpu in nvidia_gpus(facts):
            wanted, active = configured.get(gpu["pciId"], default), gpu["graphicsType"]
            waits = "" if wanted == active else f" (configured: {_spelled(wanted)})"
            gpus[gpu["pciId"]] = _spelled(active) + waits
        return cls.model_construct(
            default_type=_spelled(default), assignment_policy=config["sharedPassthruAssignmentPolicy"], gpus=gpus
        )

    def settle(self, target: Target, view: View) -> Self:
        """Every NVIDIA GPU follows the default type."""
        full = super().settle(target, view)
        if self.default_type is None:
            return full
        gpus = {g["pciId"]: self.default_type for g in nvidia_gpus(view.facts(target.ref))}
        return full.model_copy(update={"gpus": gpus})

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """No GPU, or one that is given to a VM whole (passthrough)."""
        facts = view.facts(target.ref)
        if facts.get("config.graphicsConfig") is None:
            yield Problem(
                target,
                "graphics.unreadable",
                "the graphics configuration of this host cannot be read",
                "connect the host to vCenter and grant System.Read on it",
            )
            return
        if not nvidia_gpus(facts):
            yield Problem(
                target,
                "graphics.no-gpu",
                "this host shows no NVIDIA GPU in its graphics devices",
                "leave it out of the play, or install the NVIDIA host driver (VIB) and reboot",
            )
        enabled = {p["id"] for p in facts.get("config.pciPassthruInfo", ()) if p.get("passthruEnabled")}
        for gpu in nvidia_gpus(facts):
            if gpu["graphicsType"] == "direct" or gpu["pciId"] in enabled:
                yield Problem(
                    target,
                    "graphics.passthrough",
                    f"GPU {gpu['pciId']} is in passthrough mode and cannot be {self.default_type}",
                    "disable passthrough for the device first (Configure > PCI Devices)",
                )

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Send the complete configuration once, ask for the restart that makes it active, refresh afterwards."""
        facts = view.facts(change.target.ref)
        config = facts.get("config.graphicsConfig")
        wanted = self._config(config)
        wanted_types = self._types()
        count = len(nvidia_gpus(facts))
        restart = any(g["graphicsType"] != wanted_types.get(g["pciId"], g["graphicsType"]) for g in nvidia_gpus(facts))
        if wanted != config:
            yield Invoke(
                target=change.target,
                kinds=(self.kind,),
                path="configManager.graphicsManager",
                method="UpdateGraphicsConfig",
                args={"config": wanted},
                needs_maintenance=restart,
                summary=f"set graphics to {self.default_type}, {self.assignment_policy} "
                f"({count} GPU{'' if count == 1 else 's'})",
            )
        if restart:
            yield Step(
                target=change.target,
                kinds=(self.kind,),
                needs_reboot=True,
                needs_maintenance=True,
                summary="restart, which makes the graphics type active",
            )
            yield Invoke(
                target=change.target,
                kinds=(self.kind,),
                path="configManager.graphicsManager",
                method="RefreshGraphicsManager",
                after_reboot=True,
                summary="have the host read its graphics devices again",
            )

    def as_playbook(self, target: Target, view: View) -> Self | None:
        """Leave out hosts without a GPU, and those with a GPU that is not as the default: no playbook says that."""
        return self if self.gpus and not self._odd() else None

    def left_out(self, target: Target, view: View) -> str:
        """A GPU may wait for a restart, or have a type of its own (passthrough among them)."""
        odd = ", ".join(f"GPU {pci} is {value}" for pci, value in self._odd().items())
        return f"graphics left out: {odd}, the host's default is {self.default_type}" if odd else ""

    def _odd(self) -> dict[str, str]:
        return {pci: value for pci, value in (self.gpus or {}).items() if value != self.default_type}

    def _types(self) -> dict[str, str]:
        """Return PCI address -> API type; a GPU that nobody states a type for and that waits for one is left alone."""
        return {pci: _api(t) for pci, t in (self.gpus or {}).items() if t in ("shared", "shared_direct")}

    def _config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Build the complete HostGraphicsConfig: no patch semantics are promised, what is left out may be lost."""
        have = {d["deviceId"]: dict(d) for d in config.get("deviceType", ())}
        for pci, graphics_type in self._types().items():
            device = have.setdefault(pci, {"_typeName": "HostGraphicsConfigDeviceType", "deviceId": pci})
            device["graphicsType"] = graphics_type
        return {
            **config,
            "_typeName": "HostGraphicsConfig",
            "hostDefaultGraphicsType": _api(self.default_type),
            "sharedPassthruAssignmentPolicy": self.assignment_policy,
            "deviceType": tuple(have.values()),
        }


def _spelled(graphics_type: str) -> str:
    return FROM_API.get(graphics_type, graphics_type)


def _api(graphics_type: str | None) -> str:
    return TO_API.get(graphics_type or "", graphics_type or "")
