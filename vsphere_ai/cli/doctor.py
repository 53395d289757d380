"""`vsphere-ai doctor`: whether everything a run needs is there, and which privileges a playbook takes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vsphere_ai.cli.options import estate_options, format_option, open_session, pause_status, read_playbook

if TYPE_CHECKING:
    from vsphere_ai.app.doctor import Check
    from vsphere_ai.planning.privileges import Need


@click.command("doctor")
@estate_options
@format_option("text", "json")
@click.option(
    "--permissions",
    "playbook",
    metavar="PLAYBOOK",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Only: which privileges PLAYBOOK takes, and which of them the account lacks.",
)
def command(form: str, playbook: Path | None, **shared: Any) -> int:
    """Look at libraries, files, names, certificate, login, clocks, SSH, drivers and DRS; changes nothing.

    Exits 1 when something fails. With --permissions, exits 4 when the account lacks a privilege, and 1
    when the plan has problems, so that nobody knows all it takes.
    """
    if playbook is not None:
        return _permissions(playbook, form, shared)
    from vsphere_ai.app.doctor import examine
    from vsphere_ai.planning.document import SCHEMA_VERSION, dumps, plain

    with open_session(shared) as session:
        checks = list(examine(session))
    pause_status()
    if form == "json":
        click.echo(dumps({"schema_version": SCHEMA_VERSION, "checks": [plain(c) for c in checks]}))
    else:
        click.echo(_text(checks))
    return 1 if any(c.verdict == "fail" for c in checks) else 0


def _text(checks: Iterable[Check]) -> str:
    from vsphere_ai.model.text import safe

    lines: list[str] = []
    seen = list(checks)
    for area, own in groupby(seen, key=lambda c: c.area):
        lines.append(safe(area))
        for check in own:
            lines.append(f"  {check.verdict:<5} {safe(check.message)}")
            lines += [f"        {safe(check.remedy)}"] if check.remedy else []
    counts = ((v, sum(c.verdict == v for c in seen)) for v in ("fail", "warn", "ok"))
    lines.append(", ".join(f"{n} {v}" for v, n in counts if n))
    return "\n".join(lines)


def _permissions(path: Path, form: str, shared: dict[str, Any]) -> int:
    from vsphere_ai.app.plan_playbook import make_plan
    from vsphere_ai.connect.privileges import privilege_of
    from vsphere_ai.connect.vcenter_lock import place
    from vsphere_ai.planning.document import SCHEMA_VERSION, dumps, plain
    from vsphere_ai.planning.privileges import for_lock, lacking, needed, unplanned

    loaded = read_playbook(path)
    with open_session(shared, loaded) as session:
        plan, estate = make_plan(session, loaded)
        needs = needed(plan, estate, privilege_of)
        needs = (*needs, *unplanned(plan, session.desired(loaded, estate), estate, privilege_of))
        if session.settings.lock == "vcenter":
            needs = (*needs, *for_lock(*place(session.vcenter), privilege_of))
        missing = lacking(needs, session.vcenter.missing_privileges)
        account = session.settings.username
    pause_status()
    if form == "json":
        found = [{**plain(n), "granted": n not in missing} for n in needs]
        told = {"account": account, "complete": not plan.problems, "privileges": found}
        click.echo(dumps({"schema_version": SCHEMA_VERSION, **told}))
    else:
        click.echo(_needs_text(sorted(needs), missing, account, complete=not plan.problems))
    if plan.problems:
        click.echo("The plan has problems, so this list may not be all of it: see vsphere-ai plan", err=True)
    return 4 if missing else int(bool(plan.problems))


def _needs_text(needs: Iterable[Need], missing: frozenset[Need], account: str, *, complete: bool) -> str:
    from vsphere_ai.model.text import safe

    lines: list[str] = []
    for (name, _), own in groupby(needs, key=lambda n: (n.name, n.ref)):
        lines.append(safe(name))
        for need in own:
            lines.append(f"  {'lacks' if need in missing else 'has':<6} {need.privilege}  ({safe(need.reason)})")
    if not lines:
        return "The playbook is about nothing that is here."
    objects = len({n.ref for n in missing})
    granted = "All granted." if complete else "All of these are granted; not everything could be planned."
    lines.append(f"{safe(account)} lacks {len(missing)} privileges on {objects} objects" if missing else granted)
    return "\n".join(lines)
