"""`vsphere-ai runs`: what was run, how it ended, and what it still owes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from vsphere_ai.cli.options import format_option

if TYPE_CHECKING:
    from vsphere_ai.journal import Journal

OWES = {
    "maintenance": "is in maintenance mode because of this run",
    "ssh": "has SSH running because of this run",
    "ssh-on": "had SSH running before this run rebooted it",
    "off": "was switched off by this run",
    "reboot": "was told to reboot and not seen back",
}


@click.command("runs")
@click.argument("run", required=False, default="")
@format_option("text", "json")
def command(run: str, form: str) -> int:
    """List the runs on this machine, or say what RUN did and what it still owes. Asks no vCenter."""
    from vsphere_ai import journal
    from vsphere_ai.report.plan_json import SCHEMA_VERSION, dumps

    chosen = [journal.open_run(run)] if run else list(journal.every())
    documents = [_document(each, whole=bool(run)) for each in chosen]
    if form == "json":
        click.echo(dumps({"schema_version": SCHEMA_VERSION, "runs": documents}))
    elif run:
        click.echo("\n".join(_lines(documents[0])))
    else:
        from vsphere_ai.report.values import safe

        for each in documents:
            line = f"{each['run']}  {each['state']:<11} {each['vcenter']}  {each['what']}  ({each['user']})"
            click.echo(safe(line))
        if not documents:
            click.echo("nothing was run here yet")
    return 0


def _document(book: Journal, *, whole: bool) -> dict[str, Any]:
    debts = book.debts()
    document = {
        "run": book.id,
        "state": "finished" if book.finished else "failed" if book.ended else "unfinished",
        "started": book.get("started"),
        "user": f"{book.get('user')}@{book.get('machine')}",
        "vcenter": (book.get("approved") or {}).get("vcenter", {}).get("name", ""),
        "what": book.get("what"),
        "exit_code": book.get("exit_code"),
        "owes": [{"kind": d.kind, "name": d.target.name} for d in debts],
    }
    if whole:
        document["steps"] = [vars(s) for s in book.steps()]
    return document


def _lines(document: dict[str, Any]) -> Iterator[str]:
    from vsphere_ai.report.values import safe

    yield f"Run {document['run']}: {document['state']}, {safe(document['what'])} on {safe(document['vcenter'])}"
    yield f"started {document['started']} by {safe(document['user'])}"
    for step in document["steps"]:
        error = f": {safe(step['error'])}" if step["error"] else ""
        yield f"  {step['id']}  {safe(step['target']):<20} {safe(step['summary'])} — {step['state']}{error}"
    for debt in document["owes"]:
        yield f"  ! {safe(debt['name'])} {OWES[debt['kind']]}"
    if document["state"] != "finished":
        yield f"Finish it with: vsphere-ai resume {document['run']}"
