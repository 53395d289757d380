"""Planned launches: what a job would run, with the rails of its nodes as their guests know them where they answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from vsphere_ai.app.estate.scope import EstateRequest, inventory_of
from vsphere_ai.app.events import Emit, Status, ignore
from vsphere_ai.app.training.launch.job import LaunchRequest, fewest_of, job_nodes, load_job
from vsphere_ai.app.training.nodes.checked import Nodes, with_rails
from vsphere_ai.app.training.nodes.listed import guest_settings
from vsphere_ai.app.training.nodes.pci import placed_nodes
from vsphere_ai.errors import VsphereAiError
from vsphere_ai.model.names.name_ranges import listed
from vsphere_ai.model.nodes import Node
from vsphere_ai.training.job import TrainingJob
from vsphere_ai.training.launch import Launch
from vsphere_ai.training.launchers import launch
from vsphere_ai.training.nccl_env import Setting

NOT_ASKED = "guests are not asked with --no-preflight"


def planned_launch(request: LaunchRequest, emit: Emit = ignore) -> Launch:
    """Return what a job would run on each of its nodes; nothing is started or changed.

    Guests are asked for their rails, as the start does; without `preflight` none is connected to. A note says which
    settings the run adds on nodes whose guests were not asked.
    """
    job = load_job(request.job)
    found = job_nodes(job, request.job, request.estate, emit, fewest=fewest_of(job, request.mode))
    if request.preflight:
        nodes, why = known_nodes(job, found, request.estate, emit)
    else:
        nodes, why = found[0], dict.fromkeys((n.vm for n in found[0]), NOT_ASKED)
    made = launch(job, request.mode, nodes, job.training_job)
    settings = {each.node.vm: each.nccl for each in made.nodes}
    return replace(made, notes=(*made.notes, *added_by_the_run(settings, why)))


def known_nodes(
    job: TrainingJob, found: Nodes, estate: EstateRequest, emit: Emit = ignore
) -> tuple[tuple[Node, ...], Mapping[str, str]]:
    """Return nodes with the rails that guests show, and why a guest was not asked, by the name of its VM.

    `Refused` where the job asks for the topology of the host, and the guests that answer do not show it.
    """
    nodes, states = found
    if not job.has_host_topology and not any(node.rails for node in nodes):
        return nodes, {}
    try:
        settings = guest_settings(inventory_of(estate))
    except VsphereAiError as error:
        return nodes, dict.fromkeys((node.vm for node in nodes), error.message)
    emit(Status(f"asking {len(nodes)} guests for their RDMA devices"))
    known, errors = with_rails(nodes, settings)
    if job.has_host_topology and not errors:
        known = placed_nodes(known, settings, states)
    emit(Status(""))
    return known, {vm: error.message.removeprefix(f"{vm}: ") for vm, error in errors.items()}


def added_by_the_run(settings: Mapping[str, Sequence[Setting]], why: Mapping[str, str]) -> list[str]:
    """Return which settings of NCCL the run adds, where guests were not asked for them; alike nodes together."""
    alike: dict[tuple[str, str], list[str]] = {}
    for vm, reason in why.items():
        names = ", ".join(s.name for s in settings.get(vm, ()) if s.of_guest)
        if names:
            alike.setdefault((names, reason), []).append(vm)
    return [
        f"{names} on {listed(vms)}: the run asks the guest, and adds what it shows; not asked here: {reason}"
        for (names, reason), vms in alike.items()
    ]
