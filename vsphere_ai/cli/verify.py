"""`vsphere-ai verify`: whether the estate still is as a playbook says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vsphere_ai.cli.options import code_of, estate_options, format_option, open_session, pause_status, read_playbook


@click.command("verify")
@click.argument("playbook", type=click.Path(path_type=Path, dir_okay=False))
@estate_options
@format_option("text", "json")
def command(playbook: Path, form: str, **shared: Any) -> int:
    """Compare the estate with PLAYBOOK; exits 0 when it is as wanted, 2 when it drifted, 1 when it cannot be told.

    Changes nothing.
    """
    from vsphere_ai.model.text import safe, shown
    from vsphere_ai.planning.document import SCHEMA_VERSION, dumps, plan_document

    loaded = read_playbook(playbook)
    with open_session(shared, loaded) as session:
        plan, _ = session.plan(loaded)
    pause_status()
    drifted = plan.changed()
    if form == "json":
        document = plan_document(plan)
        kept = {k: document[k] for k in ("vcenter", "playbook", "items", "problems")}
        click.echo(dumps({"schema_version": SCHEMA_VERSION, "as_wanted": not drifted and not plan.problems, **kept}))
    else:
        for item in drifted:
            for field in item.fields:
                name = field.name.replace("_", " ")
                words = f"is {shown(field.before)}, wanted {shown(field.after)}"
                click.echo(f"  ~ {safe(item.target.name)}  {item.kind} {safe(name)} {words}")
        for problem in plan.problems:
            click.echo(f"  ! {safe(problem.target.name)}  {safe(problem.message)}  [{problem.rule}]")
        same = len(plan.items) - len(drifted)
        click.echo(
            f"{same} of {len(plan.items)} settings as wanted, {len(drifted)} drifted, {len(plan.problems)} problems"
        )
    if drifted and code_of(plan.problems) == 1:
        return 2
    return code_of(plan.problems) if plan.problems else 0
