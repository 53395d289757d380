"""`vsphere-ai unlock`: who holds the locks of a vCenter, and removing one whose holder is gone."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vsphere_ai.cli.options import format_option, open_session, pause_status
from vsphere_ai.errors import Locked, UsageError

if TYPE_CHECKING:
    from vsphere_ai.connect.vcenter_lock import Found
    from vsphere_ai.runs.locks import Note


@click.command("unlock")
@click.option("-i", "--inventory", type=click.Path(path_type=Path, dir_okay=False), help="Inventory file.")
@click.option("--vcenter", default="", metavar="NAME", help="Which vCenter of the inventory.")
@format_option("text", "json")
@click.option("--yes", is_flag=True, help="Do not ask.")
def command(inventory: Path | None, vcenter: str, form: str, yes: bool) -> int:
    """Show who holds the locks of a vCenter, and remove the one in vCenter after asking.

    The lock on this machine ends with its process, so there is nothing to remove. A lock in vCenter whose holder runs
    on this machine is not removed.
    """
    from vsphere_ai.connect import vcenter_lock
    from vsphere_ai.planning.document import SCHEMA_VERSION, dumps
    from vsphere_ai.runs import locks

    shared = {"inventory": inventory, "vcenter": vcenter, "limit": "", "start_ssh": False, "parallel": 1}
    with open_session(shared) as session:
        note = locks.here(session.vcenter.about.instance)
        found = vcenter_lock.find(session.vcenter)
        expired = found is not None and found.expired(session.vcenter.now())
        pause_status()
        if form == "text":
            click.echo(_text(note, found, expired))
        removed = found is not None and _agreed(note, found, yes=yes) and _remove(session.vcenter, found)
        document = {"schema_version": SCHEMA_VERSION, "vcenter": session.vcenter.name, "local": _local(note),
                    "advisory": _advisory(found, expired=expired), "removed": removed}  # fmt: skip
    if form == "json":
        click.echo(dumps(document))
    elif removed:
        click.echo("The lock in vCenter was removed.")
    return 0


def _agreed(note: Note | None, found: Found, *, yes: bool) -> bool:
    """Tell whether the lock in vCenter is to go; `Locked` while its holder is known to run."""
    from vsphere_ai.runs.locks import is_ours, words

    if (note is not None and found.ref in note.advisory) or is_ours(found):
        raise Locked(
            f"the holder still runs on this machine: {words(found.holder)}",
            "stop it with Ctrl-C, or wait",
            rule="lock.in-use",
        )
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError(
            "there is no terminal to ask on",
            "give --yes once you know that the holder is gone",
            rule="usage.no-terminal",
        )
    question = "Remove the lock in vCenter? A run that still works is stopped by that. Only 'yes' is accepted"
    if click.prompt(question, default="", show_default=False, err=True).strip() == "yes":
        return True
    click.echo("Nothing was changed.", err=True)
    return False


def _remove(vcenter: Any, found: Found) -> bool:
    from vsphere_ai.connect.vcenter_lock import remove
    from vsphere_ai.runs.locks import settle

    removed = remove(vcenter, found.ref)
    settle({found.ref})
    return removed


def _text(note: Note | None, found: Found | None, expired: bool) -> str:
    from vsphere_ai.model.text import safe
    from vsphere_ai.runs.locks import words

    here = f"held by {note}" if note else "free"
    there = "free"
    if found is not None:
        there = f"held by {words(found.holder)}"
        if found.expires is not None:
            there += f"; {'lapsed' if expired else 'lapses'} at {found.expires.isoformat(timespec='seconds')}"
        there += "" if expired else " unless renewed"
    return f"this machine  {safe(here)}\nvCenter       {safe(there)}"


def _local(note: Note | None) -> dict[str, object] | None:
    fields = ("user", "machine", "pid", "run", "since")
    return {name: getattr(note, name) for name in fields} if note else None


def _advisory(found: Found | None, *, expired: bool) -> dict[str, object] | None:
    if found is None:
        return None
    holder, expires = found.holder, found.expires
    since = holder.since.isoformat() if holder.since else None
    return {"user": holder.user, "machine": holder.machine, "pid": holder.pid, "run": holder.run, "since": since,
            "expires": expires.isoformat() if expires else None, "lapsed": expired}  # fmt: skip
