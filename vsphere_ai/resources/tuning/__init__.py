"""Performance settings of a VM: vCPUs, latency sensitivity, NUMA affinity, CPU reservation, advanced settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator

from vsphere_ai.fabric import pci
from vsphere_ai.fabric.host_cpus import AUTO_CORES
from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.estate.vm_corrections import CpuSettings
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.names.secret_settings import may_hold_secret
from vsphere_ai.model.plain import Plain
from vsphere_ai.model.privilege import Duty
from vsphere_ai.model.state import Change, KindName, Target, observed, setting
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.factories import reconfigure
from vsphere_ai.resources._helpers.vm_settings import advanced_settings, memory_problems
from vsphere_ai.resources.base import Form, Resource, StateExport, Traits, kind_names
from vsphere_ai.resources.corrections import Corrects
from vsphere_ai.resources.mixins import HasSockets
from vsphere_ai.resources.tuning import checks, settings
from vsphere_ai.resources.tuning.settings import CORES, CPUS, MHZ, full_mhz

AFFINITY = "numa.nodeAffinity"
LATENCY, RESERVATION = "config.latencySensitivity", "config.cpuAllocation.reservation"
MEMORY_LOCKED = "config.memoryReservationLockedToMax"
SPEC = ("numCPUs", "numCoresPerSocket", "cpuAllocation", "latencySensitivity", "memoryReservationLockedToMax")
"""The fields of a ConfigSpec that are set."""
USUAL = {"cpu_reservation": "none", "latency_sensitivity": "normal", "numa_affinity": "off", "cores_per_socket": 1}
"""What VMs come with."""


class Tuning(HasSockets, Corrects, Resource):
    """Sets what makes a VM fast and predictable; what is left out stays as it is.

    High latency sensitivity brings along what it needs: all memory and the full speed of every CPU reserved. vSphere
    ignores some advanced settings without a word: each is read back, and one that is not there fails the step.
    """

    kind = KindName("tuning")
    target = "vm"
    traits = Traits(
        implies={"config.memoryReservationLockedToMax": "memory_locked"},
        after=kind_names("hardware", "pci_devices", "vgpu"),
        properties={
            "VirtualMachine": (CPUS, CORES, AUTO_CORES, LATENCY, RESERVATION, MEMORY_LOCKED, "config.extraConfig"),
            "HostSystem": (MHZ, *pci.PATHS),
        },
        duties=(Duty("`tuning`", "VMs", (), SPEC, extra_config=True),),
        vm_settings={AFFINITY: "write numa_affinity"},
    )

    cpus: int | None = setting("Virtual CPUs.", ge=1, le=768)
    cores_per_socket: int | None = setting("Cores of each virtual socket.", ge=1)
    cpu_reservation: Literal["full", "none"] | None = setting(
        "`full`: every virtual CPU at the clock rate of the VM's host; an amount is "
        "`hardware: {cpu_reservation_mhz: N}`."
    )
    latency_sensitivity: Literal["normal", "high"] | None = setting(
        "`high` gives every virtual CPU a core of its own, and reserves CPU and memory fully."
    )
    numa_affinity: Annotated[settings.Affinity, BeforeValidator(settings.as_nodes)] | None = setting(
        "NUMA nodes of the host (`0` or `[0, 1]`), `gpu` for that of the VM's GPU, or `off`."
    )
    extra_config: Mapping[str, Annotated[str, BeforeValidator(settings.as_text)]] | None = setting(
        "Advanced settings by name; an empty text removes one."
    )
    memory_locked: bool | None = observed("All guest memory is reserved; follows from high latency sensitivity.")

    def cores_stated(self) -> int | None:
        """Return the cores of each socket."""
        return self.cores_per_socket

    @classmethod
    def correcting(cls, corrections: Sequence[Correction]) -> Plain:
        """What the CPUs of a VM are to be; of several corrections the later one decides."""
        stated: dict[str, Plain] = {}
        for cpu in (c for c in corrections if isinstance(c, CpuSettings)):
            stated |= {} if cpu.cpus is None else {"cpus": cpu.cpus}
            stated |= {} if cpu.cores_per_socket is None else {"cores_per_socket": cpu.cores_per_socket}
            stated |= {} if cpu.is_reserved is None else {"cpu_reservation": "full" if cpu.is_reserved else "none"}
            stated |= {"latency_sensitivity": "high"} if cpu.low_latency else {}
            stated |= {} if cpu.nodes is None else {"numa_affinity": cpu.nodes}
        return stated

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read the VM's configuration; what a full CPU reservation is depends on its host."""
        cpus = facts.get(CPUS)
        if cpus is None:
            return None
        keys = {key: value for key, value in advanced_settings(facts).items() if not may_hold_secret(key)}
        reserved, full = facts.get(RESERVATION, 0), full_mhz(cpus, facts.ref, estate)
        amount = "full" if full and reserved >= full else "none" if reserved == 0 else f"{reserved} MHz"
        return cls.model_construct(
            cpus=cpus,
            cores_per_socket=facts.get(CORES),
            cpu_reservation=amount,
            latency_sensitivity=(facts.get(LATENCY) or {}).get("level"),
            numa_affinity=settings.nodes_in(keys.get(AFFINITY, "")),
            extra_config=keys,
            memory_locked=bool(facts.get(MEMORY_LOCKED)),
        )

    def settle(self, target: Target, view: View) -> Self:
        """Find the GPU's node, and add what high latency sensitivity implies."""
        update: dict[str, object] = {}
        now = view.get(Tuning, target.ref) or Tuning()
        high = (self.latency_sensitivity or now.latency_sensitivity) == "high"
        if self.latency_sensitivity == "high":
            update |= {"cpu_reservation": self.cpu_reservation or "full", "memory_locked": True}
        if high and self.cpus is not None and self.cpu_reservation is None:
            update["cpu_reservation"] = "full"  # more CPUs need more
        if self.numa_affinity == "gpu":
            nodes = settings.gpu_nodes(target, view)
            update["numa_affinity"] = tuple(nodes) if len(nodes) == 1 else now.numa_affinity
        elif isinstance(self.numa_affinity, tuple):
            update["numa_affinity"] = tuple(sorted(set(self.numa_affinity)))
        if self.extra_config is not None:
            have, wanted = now.extra_config or {}, self.extra_config
            kept = {
                k: have[k] if settings.is_same(have.get(k, ""), v) else v
                for k, v in wanted.items()
                if (v or k in have) and not may_hold_secret(k)
            }
            update["extra_config"] = kept
        return self.model_copy(update=update)

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """What cannot be together, what the host does not have, and keys that belong to others."""
        yield from checks.cpu_problems(target, view, self.cpus, self.cores_per_socket)
        full = full_mhz(self._cpus(view.facts(target.ref)), target.ref, view.estate)
        yield from checks.reservation_problems(target, view, self.cpu_reservation, full, self.latency_sensitivity)
        if self.memory_locked:
            yield from memory_problems(target, view, "tuning.memory", "high latency sensitivity needs")
        said = view.said(Tuning, target.ref)
        if said and said.numa_affinity == "gpu":
            yield from checks.gpu_node_problems(target, view)
        if isinstance(self.numa_affinity, tuple):
            yield from checks.node_problems(target, view, self.numa_affinity)
        stated = (said or self).extra_config or ()
        yield from checks.owned_problems(target, stated)
        yield from checks.secret_problems(target, stated)

    def _cpus(self, facts: Facts) -> int:
        return int(self.cpus or facts.get(CPUS) or 1)

    def remarks(self, target: Target, view: View) -> Iterator[str]:
        """An affinity means something on the host it was made for only."""
        if not isinstance(self.numa_affinity, tuple) or not view.is_planned(target.ref, self.kind):
            return
        own = view.estate.host_of(target.ref)
        if any(h != own for h in view.candidates(target.ref)):
            yield "the NUMA affinity goes with the VM to other hosts, where its GPU may be on another node"

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """One reconfigure, powered off: most of it counts at the next power-on only."""
        changed = {f.name.partition(" ")[0] for f in change.fields}
        reserves = "cpu_reservation" in changed or ("cpus" in changed and self.cpu_reservation == "full")
        full = full_mhz(self._cpus(view.facts(change.target.ref)), change.target.ref, view.estate)
        mhz = full if self.cpu_reservation == "full" else 0
        wanted = {
            "numCPUs": ("cpus" in changed, self.cpus),
            "numCoresPerSocket": ("cores_per_socket" in changed, self.cores_per_socket),
            "cpuAllocation": (reserves, {"_typeName": "ResourceAllocationInfo", "reservation": mhz}),
            "latencySensitivity": (
                "latency_sensitivity" in changed,
                {"_typeName": "LatencySensitivity", "level": self.latency_sensitivity},
            ),
            "memoryReservationLockedToMax": ("memory_locked" in changed, True),
        }
        spec = {name: value for name, (is_changed, value) in wanted.items() if is_changed}
        nodes = self.numa_affinity if isinstance(self.numa_affinity, tuple) else ()
        keys = {AFFINITY: ",".join(map(str, nodes))} if "numa_affinity" in changed else {}
        before = change.before.extra_config or {}
        keys |= {k: v for k, v in (self.extra_config or {}).items() if before.get(k) != v}
        yield reconfigure(change, spec, "tuning: " + ", ".join([*sorted(spec), *sorted(keys)]), keys.items())

    def export(self, target: Target, view: View, form: Form) -> StateExport:
        """A playbook states what is not as VMs come, and no advanced settings: which are vSphere's own is not known."""
        if form == "shown":
            return StateExport(self)
        named, have = (view.said(Tuning, target.ref) or Tuning()).extra_config or {}, self.extra_config or {}
        sensitivity, nodes = self.latency_sensitivity, self.numa_affinity
        before = type(self).model_construct(
            cpus=self.cpus,
            cores_per_socket=self.cores_per_socket or None,
            cpu_reservation=self.cpu_reservation if self.cpu_reservation in ("full", "none") else None,
            latency_sensitivity=sensitivity if sensitivity in ("normal", "high") else None,
            numa_affinity=nodes if isinstance(nodes, tuple) or nodes == "off" else None,
            extra_config={key: have.get(key, "") for key in named} or None,
        )
        if form == "rollback":
            return StateExport(before)
        usual = {name for name, value in USUAL.items() if getattr(before, name) in (None, value)}
        stated = before.model_copy(update={**dict.fromkeys(usual), "extra_config": None})
        return StateExport(None if usual == {*USUAL} else stated)
