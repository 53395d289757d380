"""`vsphere-ai render`: objects for Kubernetes inside of the VMs, written from the VMs' devices, or checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from vsphere_ai.cli.console import streams
from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.findings import Look, fail_on_option, show_findings
from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import changes_nothing, check_option, gathering, one_of, vcenter_options, width
from vsphere_ai.cli.train.render_job import commands as job_commands
from vsphere_ai.cli.train.render_netplan import command as netplan
from vsphere_ai.cli.train.render_nodes import nhc, prometheus
from vsphere_ai.cli.train.render_topology import command as nccl_topo
from vsphere_ai.errors import UsageError

if TYPE_CHECKING:
    from vsphere_ai.app import ExportRequest, NetworkOperatorOptions, SpiderpoolOptions
    from vsphere_ai.model.finding import FailOn

F = TypeVar("F", bound=Callable[..., int | None])
HELP_ENTRY = "Train", 60, "Write files for other tools: Slurm, Ansible, Kubernetes."
_WHAT = click.argument("vms", metavar="[PATTERN]...", nargs=-1)
_CHECK = check_option("Check the objects of this file instead; - is standard input. Several times for several.")


def _pairs(_context: click.Context, _option: click.Parameter, texts: Sequence[str]) -> dict[str, str]:
    found = {group: name for group, _, name in (text.rpartition("=") for text in texts)}
    if not all(found):
        wrong = next(text for text in texts if not text.rpartition("=")[0])
        raise UsageError(f"'{wrong}' names no port group", "write PORTGROUP=NAME")
    return found


_INTERFACE = click.option(
    "--interface",
    "interfaces",
    multiple=True,
    metavar="PORTGROUP=NAME",
    callback=_pairs,
    help="Name of the interface in the guests, where no network file of cloud-init says it.",
)


def _namespace(default: str) -> Callable[[F], F]:
    return click.option("--namespace", default=default, show_default=True, help="Namespace of the pods' networks.")


def _spiderpool() -> type[SpiderpoolOptions]:
    from vsphere_ai.app import SpiderpoolOptions

    return SpiderpoolOptions


def _network_operator() -> type[NetworkOperatorOptions]:
    from vsphere_ai.app import NetworkOperatorOptions

    return NetworkOperatorOptions


def _request() -> type[ExportRequest]:
    from vsphere_ai.app import ExportRequest

    return ExportRequest


@click.group("render")
def command() -> None:
    """Write or check files for other tools: Kubernetes operators, launchers, Slurm, Prometheus; network files."""


command.add_command(netplan)
command.add_command(nccl_topo)
command.add_command(nhc)
command.add_command(prometheus)
for _each in job_commands():
    command.add_command(_each)


@command.command("spiderpool")
@_WHAT
@_CHECK
@vcenter_options
@gathering(
    "options",
    _spiderpool,
    click.option(
        "--cni",
        type=click.Choice(("macvlan", "ipvlan")),
        default="macvlan",
        show_default=True,
        help="Plugin by which pods share a NIC.",
    ),
    click.option("--subnets", is_flag=True, help="Write a SpiderSubnet for each pool, too."),
    _namespace("spiderpool"),
)
@gathering("request", _request, _INTERFACE)
@output_option()
@fail_on_option
@changes_nothing
@example("render spiderpool 'train-*'", needs="pools with per_node in the inventory (docs/kubernetes.md)")
def spiderpool(request: ExportRequest, checked: Sequence[Path], form: str, fail_on: FailOn) -> int:
    """Write Spiderpool's objects for pods on the VMs of PATTERN; or check those in a FILE with --check.

    Each VM that holds a block of a pool (`per_node` in the inventory) gets a SpiderIPPool of its own. Exits 1, and
    writes nothing, where an object could not work. Changes nothing.

    With --check: fields, admission rules, and pools against each other; needs no connection. FILE is a manifest of one
    or more objects; - is standard input. Exits 2 when an object breaks a rule, 1 when FILE has none of these objects.
    """
    one_of(request.vms, checked)
    return _check("spiderpool", checked, form, fail_on) if checked else _write(request, form)


@command.command("network-operator")
@_WHAT
@_CHECK
@vcenter_options
@gathering(
    "options",
    _network_operator,
    click.option(
        "--release",
        default="",
        metavar="TAG",
        help="Release of the operator, such as 26.7.1, or the tag of its images; the output names the default.",
    ),
    click.option(
        "--vfs",
        "functions",
        type=click.IntRange(1, 128),
        default=8,
        show_default=True,
        help="Virtual functions to make of each NIC that a VM has as a whole.",
    ),
    _namespace("default"),
)
@gathering("request", _request, _INTERFACE)
@output_option()
@fail_on_option
@changes_nothing
@example("render network-operator 'train-*'", needs="pools with per_node in the inventory (docs/kubernetes.md)")
def network_operator(request: ExportRequest, checked: Sequence[Path], form: str, fail_on: FailOn) -> int:
    """Write objects of the NVIDIA Network Operator for pods on the VMs of PATTERN; or check a FILE with --check.

    They are the cluster's policy with the device plugins that fit these VMs, networks, and pools of nv-ipam in which
    each VM has the block that it holds. Exits 1, and writes nothing, where an object could not work. Changes nothing.

    With --check: objects of the operator, of nv-ipam and of the SR-IOV operator; needs no connection. FILE is a
    manifest of one or more objects; - is standard input. Exits 2 when an object breaks a rule, 1 when FILE has none of
    these objects.
    """
    one_of(request.vms, checked)
    return _check("network-operator", checked, form, fail_on) if checked else _write(request, form)


def _write(request: ExportRequest, form: str) -> int:
    from vsphere_ai import app
    from vsphere_ai.documents.network.manifests import WrittenManifestsDocument
    from vsphere_ai.report.findings_text import findings_text
    from vsphere_ai.report.json_text import json_text

    result = app.export_manifests(request, show_event)
    export = result.export
    if form == "json":
        objects = tuple(dict(each.data) for each in export.objects)
        made = WrittenManifestsDocument.of(export.findings, vcenter=result.estate.about, objects=objects)
        click.echo(json_text(made))
    else:
        click.echo(export.text, nl=False)
        if export.findings:
            streams.say(findings_text(export.findings, "", width=width()))
        if export.is_refused:
            streams.say("nothing is written")
    return result.exit_code


def _check(family: str, files: Sequence[Path], form: str, fail_on: FailOn) -> int:
    from vsphere_ai import app
    from vsphere_ai.report.network.manifest_text import manifests_document

    result: app.ManifestsResult = app.check_manifests(app.ManifestsRequest(files, (family,)))
    look = Look(full=True, wraps=False)  # each object has a place of its own
    return show_findings(result.findings, form, fail_on, partial(manifests_document, result.checked), look)
