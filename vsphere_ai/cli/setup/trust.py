"""`vsphere-ai trust`: shows a vCenter's certificate or SSH keys of hosts and guests, and keeps those agreed to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.forms import output_option, show_document
from vsphere_ai.cli.console.help_examples import TRAINING, example
from vsphere_ai.cli.console.options import (
    agreed,
    dry_run_option,
    inventory_options,
    is_dry_run,
    variable_options,
    vcenter_options,
    yes_to,
)
from vsphere_ai.errors import UsageError

if TYPE_CHECKING:
    from vsphere_ai.app import Emit, EstateRequest, Event

HELP_ENTRY = "Set up", 40, "Show and store certificates and SSH keys."
_YES = yes_to("Do not ask; only together with --fingerprint.")


@click.group("trust")
def command() -> None:
    """Show the identity of a vCenter or of hosts, and trust it after a yes. No login is made for that."""


@command.command("vcenter")
@click.argument("vcenter", metavar="[NAME]", required=False, default="")
@inventory_options
@click.option("--fingerprint", default="", metavar="SHA256", help="The SHA-256 fingerprint it must have.")
@_YES
@output_option()
@dry_run_option
@click.option("--write", is_flag=True, help="Write the certificate to trusted/NAME.pem beside the inventory.")
@example("trust vcenter")
def vcenter(estate: EstateRequest, fingerprint: str, form: str, yes: bool, write: bool) -> int:
    """Show the certificate of the vCenter NAME of the inventory, whether it is trusted, and how to trust it.

    Compare the fingerprint with what the appliance's console shows. A fingerprint that is not the one of
    --fingerprint exits 4.
    """
    from vsphere_ai import app

    request = app.TrustVCenterRequest(_confirming(yes, fingerprint), estate, fingerprint, write)
    result = app.trust_vcenter(request, _beside(form))
    show_document(form, result.document)
    return result.exit_code


@command.command("host")
@click.argument("pattern")
@vcenter_options
@click.option("--fingerprint", multiple=True, metavar="SHA256:…", help="A fingerprint a host may have; repeatable.")
@_YES
@output_option(names="keys.name")
@dry_run_option
@example("trust host 'esx[01:03].lab.local'")
def host(pattern: str, estate: EstateRequest, fingerprint: tuple[str, ...], form: str, yes: bool) -> int:
    """Show the SSH host keys of the hosts PATTERN means and keep them in the inventory's known_hosts file.

    Names and ranges such as esx-[01:16].example.com are taken as they are; for globs and clusters vCenter is asked.
    Compare the fingerprints with the hosts' consoles. A key that is none of --fingerprint exits 4.
    """
    from vsphere_ai import app

    request = app.TrustHostsRequest(_confirming(yes, fingerprint), pattern, estate, fingerprint)
    result = app.trust_hosts(request, _beside(form))
    show_document(form, result.document)
    return result.exit_code


@command.command("guest")
@click.argument("what", metavar="PLAYBOOK|PATTERN")
@variable_options
@click.option("--fingerprint", multiple=True, metavar="SHA256:…", help="A fingerprint a guest may have; repeatable.")
@_YES
@output_option(names="keys.name")
@dry_run_option
@example("trust guest 'train-*'", needs=TRAINING)
def guest(what: str, estate: EstateRequest, fingerprint: tuple[str, ...], form: str, yes: bool) -> int:
    """Show the SSH host keys of the guests of VMs and keep them in the known_hosts file of `guests:`.

    The VMs are those of a playbook's sets, or those that PATTERN means; vCenter is asked for their addresses.
    Compare the fingerprints with the console of each VM, where cloud-init prints them.

    Exits 4 for a key that is none of --fingerprint.
    """
    from vsphere_ai import app

    request = app.TrustGuestsRequest(_confirming(yes, fingerprint), app.meant(what, estate), fingerprint)
    result = app.trust_guests(request, _beside(form))
    show_document(form, result.document)
    return result.exit_code


def _beside(form: str) -> Emit:
    """Return what shows events; lines of the text go to standard error where a document is printed."""

    def emit(event: Event) -> None:
        from vsphere_ai.app.events import OutputLine

        if form == "json" and isinstance(event, OutputLine):
            click.echo(event.text, err=True)
        else:
            show_event(event)

    return emit


def _confirming(yes: bool, fingerprint: str | Sequence[str]) -> Callable[[str], bool]:
    """Return what asks a question; `UsageError` when nothing would be compared."""
    if yes and not fingerprint and not is_dry_run():
        raise UsageError("--yes without --fingerprint would trust any server", "give the fingerprint you expect")

    def confirm(question: str) -> bool:
        answer = agreed(
            f"{question} Type yes to confirm", yes=yes, instead="give the expected --fingerprint, and --yes"
        )
        if not answer:
            click.echo("Nothing was stored.", err=True)
        return answer

    return confirm
