"""Checks of what makes a VM fast: CPUs and NUMA nodes that its host has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from vsphere_ai.fabric import pci
from vsphere_ai.fabric.host_cpus import cores_of_socket, makes_sockets
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.names.secret_settings import may_hold_secret
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers import factories
from vsphere_ai.resources.tuning.owned import owner_of
from vsphere_ai.resources.tuning.settings import CPUS, gpu_nodes
from vsphere_ai.resources.vm_hardware import VmHardware

problem = partial(factories.problem, "tuning")


def cpu_problems(vm: Target, view: View, cpus: int | None, cores: int | None) -> Iterator[Problem]:
    """Yield why a VM cannot have that many virtual CPUs in sockets of so many cores; None is what it has."""
    now = view.facts(vm.ref)
    count, each = cpus or now.get(CPUS) or 1, cores or cores_of_socket(now) or 1
    if (cpus or cores) and not makes_sockets(count, each):
        message = f"{count} CPUs cannot be sockets of {each} cores"
        yield problem(vm, "cores", message, f"cores_per_socket has to divide {count}")


def reservation_problems(
    vm: Target, view: View, wanted: str | None, full: int, latency: str | None
) -> Iterator[Problem]:
    """Yield the problems of a CPU reservation (`full`, `none`, or as it is); `full` is the whole one in MHz."""
    stated = (view.said(VmHardware, vm.ref) or VmHardware()).cpu_reservation_mhz
    amount = {"full": full, "none": 0}.get(wanted or "")
    if wanted == "full" and full == 0:
        yield problem(
            vm, "clock-unknown", "the clock rate of the VM's host is not known", "connect the host to vCenter"
        )
    if latency == "high" and wanted == "none":
        message = "high latency sensitivity needs the full CPU reservation"
        yield problem(vm, "latency", message, "write cpu_reservation: full, or leave it out")
    if None not in (stated, amount) and stated != amount:
        message = f"hardware reserves {stated} MHz of CPU, tuning wants {wanted}"
        yield problem(vm, "reservation", message, "keep one of them; high latency sensitivity wants full")


def owned_problems(vm: Target, settings: Iterable[str]) -> Iterator[Problem]:
    """Yield the advanced settings that kinds set, or that vSphere keeps as properties; secrets have their own rule."""
    for key in settings:
        owner = "" if may_hold_secret(key) else owner_of(key)
        if owner:
            yield problem(vm, "owned", f"{key} is no advanced setting of its own", owner)


def secret_problems(vm: Target, settings: Iterable[str]) -> Iterator[Problem]:
    """Yield the advanced settings that may hold secrets: plans show what they set, and what was there before."""
    for key in filter(may_hold_secret, settings):
        remedy = "set it with another tool; accounts and networks of guests are set by vm_set"
        yield problem(vm, "secret", f"{key} may hold a secret, and a plan would show it", remedy)


def gpu_node_problems(vm: Target, view: View) -> Iterator[Problem]:
    """Yield that the NUMA node of a VM's GPU is not one that is known."""
    nodes = gpu_nodes(vm, view)
    if len(nodes) != 1:
        seen = f"on nodes {', '.join(map(str, nodes))}" if nodes else "on no node that is known"
        remedy = "write the node: numa_affinity: 0, or name one GPU (host_device)"
        yield problem(vm, "gpu-node", f"the GPUs this VM may get are {seen}", remedy)


def node_problems(vm: Target, view: View, nodes: Sequence[int]) -> Iterator[Problem]:
    """Yield the NUMA nodes that a VM's host does not have."""
    on = view.estate.host_of(vm.ref)
    count = (view.facts(on.ref).get(pci.NUMA) or {}).get("numNodes") if on else None
    beyond = ", ".join(str(n) for n in nodes if count and n >= count)
    if on and beyond:
        yield problem(vm, "node", f"{on.name} has no NUMA node {beyond}", f"it has {count} nodes, from 0 on")
