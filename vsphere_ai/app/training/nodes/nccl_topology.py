"""NCCL topology files of VMs: written from the PCI and NUMA tree of their hosts, or compared with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from vsphere_ai.app.estate.scope import EstateRequest, inventory_of
from vsphere_ai.app.events import Emit, Status, ignore
from vsphere_ai.app.training.nodes.listed import guest_settings, list_nodes, meant
from vsphere_ai.app.training.nodes.pci import asked_nodes
from vsphere_ai.app.training.nodes.topology import with_vgpu_sites
from vsphere_ai.errors import REPORT_IT, StepFailed, UsageError
from vsphere_ai.gpu.smi import live
from vsphere_ai.language.yaml_files.document import judged_text, require
from vsphere_ai.model.names.written_names import refusal
from vsphere_ai.model.nodes import Node
from vsphere_ai.security.files import make_private_folder, not_written, write_output
from vsphere_ai.security.state_dir import file_name
from vsphere_ai.training.exports import nccl_topo
from vsphere_ai.training.exports.finding import LineFinding, at_line, by_line, faults, in_file, line_of
from vsphere_ai.training.node_topology import NodeTopology, files, node_topology

NO_GUESTS = "the inventory has no guests: section, so that addresses are those of vCenter's slot numbers (unverified)"


@dataclass(frozen=True)
class TopologyRequest:
    """Which VMs: those of the sets of a playbook (`set`: of that one), else those that a pattern means.

    Their guests are asked for PCI addresses where the inventory says how to reach guests.
    """

    what: str = ""
    set: str = ""
    estate: EstateRequest = field(default_factory=EstateRequest)


@dataclass(frozen=True)
class TopologyResult:
    """The topologies of VMs, in the order of the nodes."""

    found: tuple[NodeTopology, ...]

    @property
    def files(self) -> tuple[tuple[tuple[Node, ...], str], ...]:
        """The files with the nodes that share each."""
        return files(self.found)

    @property
    def exit_code(self) -> int:
        """Return 0, or 1 where a VM has no file."""
        return int(any(each.gaps for each in self.found))


def nccl_topologies(request: TopologyRequest, emit: Emit = ignore) -> TopologyResult:
    """Return the topology files of VMs. Changes nothing; what is written is read back first.

    `UsageError` where no VM is meant.
    """
    if not request.what:
        raise UsageError("neither VMs to write for nor a file to check were given", "name VMs, or give --check FILE")
    known = list_nodes(meant(request.what, request.estate, set=request.set), emit, (live.RUNNING,))
    nodes, unasked = known.nodes, {node.vm: NO_GUESTS for node in known.nodes}
    inventory = inventory_of(request.estate)
    if inventory.guests is not None:
        emit(Status(f"topology: {len(nodes)} guests"))
        on = [n for n in nodes if known.states[n.vm].power == "poweredOn"]
        answered, errors = asked_nodes(on, guest_settings(inventory))
        by_vm = {node.vm: with_vgpu_sites(node, known.states[node.vm].vgpus) for node in answered}
        nodes = tuple(by_vm.get(node.vm, node) for node in nodes)
        unasked = {node.vm: "it is not powered on" for node in nodes if node.vm not in by_vm}
        unasked |= {vm: error.message for vm, error in errors.items()}
        emit(Status(""))
    result = TopologyResult(tuple(node_topology(node, unasked.get(node.vm, "")) for node in nodes))
    for _, text in result.files:
        for each in faults(nccl_topo.check(text)):
            said = f"what was written cannot be read back: line {line_of(each)}: {each.message}"
            raise StepFailed(said, REPORT_IT, rule="internal")
    return result


def save_topologies(result: TopologyResult, folder: Path) -> tuple[Path, ...]:
    """Write the file of each VM as ``VM.xml`` into a folder, and return the paths; an existing file is replaced.

    `Refused` where the names of two VMs give one file; then nothing is written.
    """
    texts: dict[str, tuple[str, str]] = {}
    for nodes, text in result.files:
        for node in nodes:
            name = file_name(node.vm)
            if name.casefold() in texts:
                why = f"the file of {texts[name.casefold()][0]} has the same name, {name}.xml"
                raise refusal("file of the VM", node.vm, str(folder), why, "files are named by letters, digits and '-'")
            texts[name.casefold()] = node.vm, text
    try:
        make_private_folder(folder)
    except OSError as error:
        raise not_written(folder, error) from None
    written = []
    for vm, text in texts.values():
        path = folder / f"{file_name(vm)}.xml"
        write_output(path, text)
        written.append(path)
    return tuple(sorted(written))


def check_topology(path: Path, request: TopologyRequest, emit: Emit = ignore) -> tuple[LineFinding, ...]:
    """Return the problems of a topology file; for VMs also where it differs from the hosts of the VMs.

    `UsageError` when there is no such file.
    """
    require(path, "file")
    text = judged_text(path)
    found = nccl_topo.check(text)
    if request.what and not faults(found):
        found = by_line([*found, *_against(text, nccl_topologies(request, emit))])
    return in_file(found, str(path), "nccl-topo")


def _against(text: str, result: TopologyResult) -> Iterator[LineFinding]:
    for each in result.found:
        if each.gaps:
            yield from (at_line(0, f"{each.node.vm}: {gap}") for gap in each.gaps)
        else:
            yield from nccl_topo.differences(text, each.node)
