"""`vsphere-ai render`: objects for Kubernetes inside of the VMs, checked before a cluster sees them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from vsphere_ai.cli.options import format_option

_FILES = click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
_CHECK = click.option("--check", "checking", is_flag=True, required=True, help="Check the objects of FILE...")


@click.group("render")
def command() -> None:
    """Check objects of Kubernetes operators; needs no connection."""


@command.command("spiderpool")
@_FILES
@_CHECK
@format_option()
def spiderpool(files: Sequence[Path], form: str, **_check_only: bool) -> int:
    """Check Spiderpool's objects in FILE...: fields, admission rules, and pools against each other.

    FILE is a manifest of one or more objects; - is standard input. Exits 1 when an object breaks a rule,
    or when FILE has none of these objects.
    """
    return _check("spiderpool", files, form)


@command.command("network-operator")
@_FILES
@_CHECK
@format_option()
def network_operator(files: Sequence[Path], form: str, **_check_only: bool) -> int:
    """Check objects of the NVIDIA Network Operator, of nv-ipam and of the SR-IOV operator in FILE...

    FILE is a manifest of one or more objects; - is standard input. Exits 1 when an object breaks a rule,
    or when FILE has none of these objects.
    """
    return _check("network-operator", files, form)


def _check(family: str, files: Sequence[Path], form: str) -> int:
    from vsphere_ai import app
    from vsphere_ai.report.json_text import json_text
    from vsphere_ai.report.manifest_text import manifest_document, manifest_text

    result = app.check_manifests(app.ManifestsRequest(files, (family,)))
    checked = result.checked
    click.echo(json_text(**manifest_document(checked)) if form == "json" else manifest_text(checked))
    return result.exit_code
