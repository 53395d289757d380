"""`vsphere-ai render nccl-topo`: topology files for NCCL, from the PCI and NUMA tree of the hosts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console import streams
from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.findings import fail_on_option
from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.help_examples import TRAINING, example
from vsphere_ai.cli.console.options import FILE, changes_nothing, gathering, to_option, variable_options, width
from vsphere_ai.cli.train.options import set_option
from vsphere_ai.cli.train.render_job import show_checked

if TYPE_CHECKING:
    from vsphere_ai.app import TopologyRequest, TopologyResult
    from vsphere_ai.model.finding import FailOn


def _request() -> type[TopologyRequest]:
    from vsphere_ai.app import TopologyRequest

    return TopologyRequest


@click.command("nccl-topo")
@to_option("Write VM.xml for each VM there.", click.Path(path_type=Path, file_okay=False), metavar="DIR")
@click.option("--check", "checked", type=FILE, metavar="FILE", help="Check this file; with VMs: against their hosts.")
@variable_options
@gathering(
    "request",
    _request,
    click.argument("what", metavar="PLAYBOOK|PATTERN", default=""),
    set_option(),
)
@output_option(names="vms.vm")
@fail_on_option
@changes_nothing
@example("render nccl-topo playbooks/training-set.yml --to topology", needs=TRAINING)
def command(request: TopologyRequest, to: Path | None, checked: Path | None, form: str, fail_on: FailOn) -> int:
    """Write NCCL's topology file (NCCL_TOPO_FILE) for the VMs of a PLAYBOOK's set, or those that PATTERN means.

    GPUs and NICs stand where the PCI and NUMA tree of the ESXi host has them, under the addresses of the guest. Which
    RDMA devices are near which GPU, and advice for NUMA nodes, go to stderr. Changes nothing but the
    files of --to. Exits 0 when it is done, 1 where a VM has no file; with --check 2 where NCCL refuses the file, or
    hosts differ.
    """
    from vsphere_ai import app

    if checked is None:
        return _write(app.nccl_topologies(request, show_event), to, form)
    return show_checked(app.check_topology(checked, request, show_event), checked, form, fail_on)


def _write(result: TopologyResult, folder: Path | None, form: str) -> int:
    from vsphere_ai import app
    from vsphere_ai.report.folding import fitted
    from vsphere_ai.report.json_text import json_text
    from vsphere_ai.report.network.topology_text import topologies_document, topology_lines

    saved = app.save_topologies(result, folder) if folder is not None else ()
    if form == "json":
        click.echo(json_text(topologies_document(result.found)))
        return result.exit_code
    click.echo("".join(f"{path}\n" for path in saved) or "\n".join(text for _, text in result.files), nl=False)
    for line in topology_lines(result.found):
        streams.say(fitted(line, width()))
    if folder is None and len(result.files) > 1:
        streams.say("these are several files: --to writes one for each VM")
    return result.exit_code
