"""Text of the files of a new project: an inventory and a first playbook, with comments on what to edit next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from vsphere_ai.fabric.corrections import HostForPvrdma, NewRdmaAdapter
from vsphere_ai.gpu.corrections import DividedGpus, SharedDirectGpus, VgpuProfiles
from vsphere_ai.gpu.devices import found_gpus
from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.names.yaml_text import flow, scalar
from vsphere_ai.model.records.project import Project, ProjectGroup, ProjectVCenter
from vsphere_ai.model.state import State, Target
from vsphere_ai.report.playbooks.playbook_text import MODELINE, playbook_text
from vsphere_ai.resources.corrections import text_of

RDMA = "config.network.rdmaDevice"
_HEAD = """\
# Which vCenter this is about, how to log in, and what groups of hosts and VMs are called.
# `vsphere-ai` finds this file by itself in this folder and those below it. No password is ever in it.
"""
_SSH = """
# Commands on the hosts (MIG, reboots over SSH) need this, too; take the comment signs away:
# ssh:
#   username: root
#   password: "env:ESXI_PASSWORD"
#   known_hosts: known_hosts  # written by: vsphere-ai trust host PATTERN
"""
_NOTES = (
    "This is what is there: `vsphere-ai plan playbook.yml` finds nothing to do.",
    "Change a value, or add one, and plan again; what a play does not name stays as it is.",
)
_MIG = "GPUs that several VMs share (MIG). In a play of hosts, then in one of VMs:"
_RDMA = "RDMA between VMs. In a play of hosts, then in one of VMs:"
_VM = Target("vm", "VM", "")
"""A VM that a comment is about: the operator chooses it."""


def inventory_text(project: Project) -> str:
    """Return the inventory of a project."""
    lines = [MODELINE.format("schemas/inventory.schema.json"), *_HEAD.splitlines()]
    lines += ["lab: true"] if project.vcenter is None else _vcenter_lines(project.vcenter)
    for key, kind in (("hosts", "host"), ("vms", "vm")):
        groups = [group for group in project.groups if group.kind == kind]
        lines += ["", f"{key}:", *map(_group_line, groups)] if groups else []
    return "\n".join(lines) + "\n" + (_SSH if project.vcenter else "")


def _vcenter_lines(vcenter: ProjectVCenter) -> Iterator[str]:
    yield "vcenters:"
    yield f"  {scalar(vcenter.name)}:"
    yield f"    address: {scalar(vcenter.address)}"
    if vcenter.port != 443:
        yield f"    port: {vcenter.port}"
    yield f"    username: {scalar(vcenter.username)}"
    yield f"    password: {scalar(vcenter.password)}  # where it is, not what it is"
    if vcenter.ca_file:
        yield f"    tls: {{ca_file: {scalar(vcenter.ca_file)}}}"
    elif vcenter.fingerprint:
        yield f"    tls: {{fingerprint: {scalar(vcenter.fingerprint)}}}"


def _group_line(group: ProjectGroup) -> str:
    return f"  {scalar(group.name)}: {flow(group.conditions)}"


def first_playbook(
    project: Project,
    estate: Estate,
    plays: Iterable[tuple[Sequence[Target], Sequence[State]]],
    remarks: Mapping[Target, str],
) -> str:
    """Return the first playbook: what is there, and as comments what may be the next step."""
    groups = {group.name: group.targets for group in project.groups}
    text = playbook_text(estate, plays, remarks, groups, _NOTES)
    return MODELINE.format("schemas/playbook.schema.json") + "\n" + text + "".join(_next_steps(estate))


def _next_steps(estate: Estate) -> Iterator[str]:
    gpus = [g for h in estate.hosts for g in found_gpus(estate[h.ref].get("hardware.pciDevice") or ())]
    board = next((g.board for g in gpus if g.board and g.board.mig_capable and g.board.vgpu_names), None)
    sizes = [p.vgpu_suffix.lower() for p in board.profiles if p.vgpu_suffix] if board else []
    if board and sizes:
        profile, others = f"{board.vgpu_names[0]}-{sizes[0]}", f"others: vsphere-ai vgpu list {board.key}"
        host = estate.hosts[0]
        yield _step(_MIG, others, SharedDirectGpus(host), DividedGpus(host), VgpuProfiles(_VM, profiles=(profile,)))
    able = next((h for h in estate.hosts if estate[h.ref].get(RDMA)), None)
    if able is not None:
        adapter = NewRdmaAdapter(_VM, "PORT-GROUP", protocol="rocev2")
        yield _step(_RDMA, "", HostForPvrdma(able, adapter="vmk2"), adapter)


def _step(title: str, remark: str, *corrections: Correction) -> str:
    """Return a next step as comments: a line of a play for each correction, with a remark behind the last one."""
    lines = [f"#   {text_of(correction)}" for correction in corrections]
    lines[-1] += f"  # {remark}" if remark else ""
    return "\n".join(["", f"# {title}", *lines, ""])


def next_commands(folder: str, variable: str, playbook: str, inventory: str) -> list[str]:
    """Return the commands to go on with: from another folder, with a variable that is not set, with a named inventory.

    Each of these is empty where it is not needed. Folder and variable are words of a shell.
    """
    named = f" -i {inventory}" if inventory else ""
    rows = [
        (f"vsphere-ai plan {playbook}{named}", "nothing to do yet: edit it, plan again"),
        (f"vsphere-ai doctor{named}", "is all there that a run needs?"),
        (f"vsphere-ai check{named}", "compatibility of hosts and VMs"),
    ]
    width = max(len(command) for command, _ in rows)
    before = [f"cd {folder}"] * bool(folder) + [f"read -rs {variable}; export {variable}"] * bool(variable)
    return [*before, *(f"{command:{width}}  # {why}" for command, why in rows)]
