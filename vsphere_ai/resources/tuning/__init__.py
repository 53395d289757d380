"""Performance settings of a VM: vCPUs, latency sensitivity, NUMA affinity, CPU reservation, advanced settings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field

from vsphere_ai.fabric import pci
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.privilege import Duty
from vsphere_ai.model.state import Change, Problem, Target, observed
from vsphere_ai.model.steps import Reconfigure, Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.vm_settings import advanced_settings, memory_problems
from vsphere_ai.resources.base import Export, Form, Resource, Traits
from vsphere_ai.resources.tuning.settings import (
    MHZ,
    OWNED,
    THREADS,
    Affinity,
    as_nodes,
    as_text,
    full_mhz,
    gpu_nodes,
    is_same,
)
from vsphere_ai.resources.vm_hardware import VmHardware

AFFINITY = "numa.nodeAffinity"


class Tuning(Resource):
    """Sets what makes a VM fast and predictable; what is left out stays as it is.

    High latency sensitivity brings along what it needs: all memory and the full speed of every CPU reserved. vSphere
    ignores some advanced settings without a word: each is read back, and one that is not there fails the step.
    """

    kind = "tuning"
    target = "vm"
    traits = Traits(
        after=("hardware", "pci_devices", "vgpu"),
        properties={
            "VirtualMachine": (
                "config.hardware.numCPU",
                "config.hardware.numCoresPerSocket",
                "config.latencySensitivity",
                "config.cpuAllocation.reservation",
                "config.memoryReservationLockedToMax",
                "config.extraConfig",
            ),
            "HostSystem": (MHZ, THREADS, *pci.PATHS),
        },
        duties=(
            Duty(
                "`tuning`",
                "VMs",
                (),
                ("numCPUs", "numCoresPerSocket", "cpuAllocation", "latencySensitivity", "memoryReservationLockedToMax"),
                extra_config=True,
            ),
        ),
    )

    cpus: int | None = Field(default=None, ge=1, le=768, description="Virtual CPUs.")
    cores_per_socket: int | None = Field(default=None, ge=1, description="Cores of each virtual socket.")
    cpu_reservation: Literal["full", "none"] | None = Field(
        default=None,
        description="`full`: every virtual CPU at the clock rate of the VM's host; an amount is "
        "`hardware: {cpu_reservation_mhz: N}`.",
    )
    latency_sensitivity: Literal["normal", "high"] | None = Field(
        default=None, description="`high` gives every virtual CPU a core of its own, and reserves CPU and memory fully."
    )
    numa_affinity: Annotated[Affinity, BeforeValidator(as_nodes)] | None = Field(
        default=None, description="NUMA nodes of the host (`0` or `[0, 1]`), `gpu` for that of the VM's GPU, or `off`."
    )
    extra_config: Mapping[str, Annotated[str, BeforeValidator(as_text)]] | None = Field(
        default=None, description="Advanced settings by name; an empty text removes one."
    )
    memory_locked: bool | None = observed("All guest memory is reserved; follows from high latency sensitivity.")

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read the VM's configuration; what a full CPU reservation is depends on its host."""
        cpus = facts.get("config.hardware.numCPU")
        if cpus is None:
            return None
        keys = advanced_settings(facts)
        reserved, full = facts.get("config.cpuAllocation.reservation", 0), full_mhz(cpus, facts.ref, estate)
        amount: Any = "full" if full and reserved >= full else "none" if reserved == 0 else f"{reserved} MHz"
        nodes = keys.get(AFFINITY, "")
        listed = re.fullmatch(r"\d+(,\d+)*", nodes.replace(" ", ""))
        return cls.model_construct(
            cpus=cpus,
            cores_per_socket=facts.get("config.hardware.numCoresPerSocket"),
            cpu_reservation=amount,
            latency_sensitivity=(facts.get("config.latencySensitivity") or {}).get("level"),
            numa_affinity=tuple(sorted({int(n) for n in nodes.split(",")})) if listed else nodes or "off",
            extra_config=keys,
            memory_locked=bool(facts.get("config.memoryReservationLockedToMax")),
        )

    def settle(self, target: Target, view: View) -> Self:
        """Find the GPU's node, and add what high latency sensitivity implies."""
        update: dict[str, Any] = {}
        now = view.get(Tuning, target.ref)
        high = (self.latency_sensitivity or (now.latency_sensitivity if now else None)) == "high"
        if self.latency_sensitivity == "high":
            update |= {"cpu_reservation": self.cpu_reservation or "full", "memory_locked": True}
        if high and self.cpus is not None and self.cpu_reservation is None:
            update["cpu_reservation"] = "full"  # more CPUs need more
        if self.numa_affinity == "gpu":
            nodes = gpu_nodes(target, view)
            update["numa_affinity"] = tuple(nodes) if len(nodes) == 1 else (now.numa_affinity if now else None)
        elif isinstance(self.numa_affinity, tuple):
            update["numa_affinity"] = tuple(sorted(set(self.numa_affinity)))
        if self.extra_config is not None:
            have = (now.extra_config if now else None) or {}
            update["extra_config"] = {
                k: have[k] if k in have and is_same(have[k], v) else v
                for k, v in self.extra_config.items()
                if v or k in have
            }
        return self.model_copy(update=update)

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """What cannot be together, what the host does not have, and keys that belong to others."""
        now = view.facts(target.ref)
        cpus = self.cpus or now.get("config.hardware.numCPU") or 1
        cores = self.cores_per_socket or now.get("config.hardware.numCoresPerSocket") or 1
        if (self.cpus or self.cores_per_socket) and cpus % cores:
            yield Problem(target, "tuning.cores", f"{cpus} CPUs cannot be sockets of {cores} cores",
                          f"cores_per_socket has to divide {cpus}")  # fmt: skip
        on = view.estate.host_of(target.ref)
        threads = view.facts(on.ref).get(THREADS) if on else None
        if on and threads and self.cpus and self.cpus > threads:
            yield Problem(target, "tuning.cpus", f"{self.cpus} CPUs, {on.name} has {threads} logical processors",
                          "a VM has at most as many CPUs as its host")  # fmt: skip
        yield from self._reservation_problems(target, view, cpus)
        yield from self._affinity_problems(target, view, on)
        for key in self.extra_config or {}:
            owner = next((o for p, o in OWNED.items() if re.fullmatch(p, key.lower())), "")
            if owner:
                yield self.problem(target, "owned", f"{key} is no advanced setting of its own", owner)

    def _reservation_problems(self, target: Target, view: View, cpus: int) -> Iterator[Problem]:
        hardware = view.said(VmHardware, target.ref)
        stated = hardware.cpu_reservation_mhz if hardware else None
        full = full_mhz(cpus, target.ref, view.estate)
        if self.cpu_reservation == "full" and full == 0:
            yield self.problem(
                target, "clock-unknown", "the clock rate of the VM's host is not known", "connect the host to vCenter"
            )
        if self.latency_sensitivity == "high" and self.cpu_reservation == "none":
            yield Problem(target, "tuning.latency", "high latency sensitivity needs the full CPU reservation",
                          "write cpu_reservation: full, or leave it out")  # fmt: skip
        wanted = {"full": full, "none": 0}.get(self.cpu_reservation or "")
        if None not in (stated, wanted) and stated != wanted:
            yield Problem(target, "tuning.reservation",
                          f"hardware reserves {stated} MHz of CPU, tuning wants {self.cpu_reservation}",
                          "keep one of them; high latency sensitivity wants full")  # fmt: skip
        if self.memory_locked:
            yield from memory_problems(target, view, "tuning.memory", "high latency sensitivity needs")

    def _affinity_problems(self, target: Target, view: View, on: Target | None) -> Iterator[Problem]:
        said = view.said(Tuning, target.ref)
        if said and said.numa_affinity == "gpu":
            nodes = gpu_nodes(target, view)
            if len(nodes) != 1:
                seen = f"on nodes {', '.join(map(str, nodes))}" if nodes else "on no node that is known"
                yield Problem(target, "tuning.gpu-node", f"the GPUs this VM may get are {seen}",
                              "write the node: numa_affinity: 0, or name one GPU (host_device)")  # fmt: skip
        listed = (view.facts(on.ref).get(pci.NUMA) or {}).get("numNodes") if on else None
        beyond = (
            [n for n in self.numa_affinity if n >= listed] if listed and isinstance(self.numa_affinity, tuple) else []
        )
        if on and beyond:
            yield Problem(target, "tuning.node", f"{on.name} has no NUMA node {', '.join(map(str, beyond))}",
                          f"it has {listed} nodes, from 0 on")  # fmt: skip

    def notes(self, target: Target, view: View) -> Iterator[str]:
        """An affinity means something on the host it was made for only."""
        others = [h.name for h in view.candidates(target.ref) if h != view.estate.host_of(target.ref)]
        if isinstance(self.numa_affinity, tuple) and others and view.is_planned(target.ref, self.kind):
            yield "the NUMA affinity goes with the VM to other hosts, where its GPU may be on another node"

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """One reconfigure, powered off: most of it counts at the next power-on only."""
        changed = {f.name.partition(" ")[0] for f in change.fields}
        spec: dict[str, Any] = {}
        if "cpus" in changed:
            spec["numCPUs"] = self.cpus
        if "cores_per_socket" in changed:
            spec["numCoresPerSocket"] = self.cores_per_socket
        cpus = self.cpus or view.facts(change.target.ref).get("config.hardware.numCPU") or 1
        if "cpu_reservation" in changed or ("cpus" in changed and self.cpu_reservation == "full"):
            amount = full_mhz(cpus, change.target.ref, view.estate) if self.cpu_reservation == "full" else 0
            spec["cpuAllocation"] = {"_typeName": "ResourceAllocationInfo", "reservation": amount}
        if "latency_sensitivity" in changed:
            spec["latencySensitivity"] = {"_typeName": "LatencySensitivity", "level": self.latency_sensitivity}
        if "memory_locked" in changed:
            spec["memoryReservationLockedToMax"] = True
        keys = {AFFINITY: self._affinity()} if "numa_affinity" in changed else {}
        before = change.before.extra_config or {}
        keys |= {k: v for k, v in (self.extra_config or {}).items() if before.get(k) != v}
        yield Reconfigure(
            target=change.target,
            kinds=(self.kind,),
            spec=spec,
            extra_config=tuple(keys.items()),
            needs_power_off=True,
            summary="tuning: " + ", ".join([*sorted(spec), *sorted(keys)]),
        )

    def _affinity(self) -> str:
        return ",".join(map(str, self.numa_affinity)) if isinstance(self.numa_affinity, tuple) else ""

    def export(self, target: Target, view: View, form: Form) -> Export:
        """State what is not as VMs come; which advanced settings are vSphere's own is not known."""
        if form != "playbook":
            return Export(self if form == "shown" else self._before(target, view))
        stated: dict[str, Any] = {
            "latency_sensitivity": self.latency_sensitivity if self.latency_sensitivity == "high" else None,
            "cpu_reservation": self.cpu_reservation if self.cpu_reservation == "full" else None,
            "numa_affinity": self.numa_affinity if isinstance(self.numa_affinity, tuple) else None,
            "cores_per_socket": self.cores_per_socket if self.cores_per_socket not in (None, 1) else None,
        }
        given = any(value is not None for value in stated.values())
        return Export(type(self).model_construct(cpus=self.cpus, **stated) if given else None)

    def _before(self, target: Target, view: View) -> Self:
        """State everything that can be set again, and of advanced settings those the playbook names."""
        playbook = view.said(Tuning, target.ref)
        named = (playbook.extra_config if playbook else None) or {}
        have = self.extra_config or {}
        sensitivity, nodes = self.latency_sensitivity, self.numa_affinity
        return type(self).model_construct(
            cpus=self.cpus,
            cores_per_socket=self.cores_per_socket or None,
            cpu_reservation=self.cpu_reservation if self.cpu_reservation in ("full", "none") else None,
            latency_sensitivity=sensitivity if sensitivity in ("normal", "high") else None,
            numa_affinity=nodes if isinstance(nodes, tuple) or nodes == "off" else None,
            extra_config={key: have.get(key, "") for key in named} or None,
        )
