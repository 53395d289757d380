"""`vsphere-ai plan`: what a playbook would change and disrupt; changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vsphere_ai.cli.options import (
    code_of,
    estate_options,
    format_option,
    login_option,
    open_session,
    pause_status,
    read_playbook,
    width,
)
from vsphere_ai.cli.running import announce
from vsphere_ai.cli.streams import is_screen


@click.command("plan")
@click.argument("playbook", type=click.Path(path_type=Path, dir_okay=False))
@estate_options
@login_option
@format_option("text", "json")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Save the plan, for apply.")
@click.option("--detailed-exitcode", is_flag=True, help="Exit 2 when there is something to do.")
def command(playbook: Path, form: str, output: Path | None, detailed_exitcode: bool, **shared: Any) -> int:
    """Show what PLAYBOOK would change, which hosts reboot and which VMs are switched off. Changes nothing.

    Exits 0, or 1 when the plan has problems, 4 when one of them is that a host refused the SSH login or its key.
    """
    from vsphere_ai.planning import document
    from vsphere_ai.report.plan_text import plan_text

    loaded = read_playbook(playbook)
    if output:
        require_replaceable(output)  # before anything is read: that may take minutes
    with open_session(shared, loaded) as session:
        announce(session)
        plan, estate = session.plan(loaded)
        from vsphere_ai.app.account_privileges import with_privileges
        from vsphere_ai.execution.vcenter_checks import with_answers  # what a wrong playbook does without

        plan = with_answers(plan, session.vcenter, estate, parallel=session.options.parallel)
        plan = with_privileges(session, plan, estate)
        left_out = session.left_out(loaded, estate)
        scope = {"vcenter": session.settings.name, "limit": shared["limit"]}
    pause_status()
    if form == "json":
        click.echo(
            document.dumps(
                {**document.plan_document(plan), "digest": document.digest(plan), "left_out": document.plain(left_out)}
            )
        )
    else:
        click.echo(colour(plan_text(plan, document.digest(plan), width(), left_out=left_out)))
    if plan.problems:
        if output:
            click.echo(f"{output} was not written: a refused plan cannot be applied", err=True)
        return code_of(plan.problems)
    if output:
        _save(output, document.dumps(document.saved_plan(plan, loaded, scope)))
        click.echo(f"Saved. Apply it with: vsphere-ai apply {output}", err=True)
    elif plan.steps and form == "text":
        click.echo(f"Apply it with: vsphere-ai apply {as_given(shared)}{playbook}", err=True)
    return 2 if detailed_exitcode and plan.steps else 0


def as_given(shared: dict[str, Any]) -> str:
    """Return the shared options as they were typed, to be put before a playbook."""
    import shlex

    given = (("-i", shared["inventory"]), ("--vcenter", shared["vcenter"]), ("--limit", shared["limit"]))
    return "".join(f"{option} {shlex.quote(str(value))} " for option, value in given if value)


def require_replaceable(path: Path) -> None:
    """Refuse to put a plan in place of anything but an older plan: `plan X -o X` would delete the playbook."""
    import stat

    from vsphere_ai.errors import UsageError
    from vsphere_ai.planning.document import is_saved

    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISREG(mode) and is_saved(path.read_text(encoding="utf-8", errors="replace")):
        return
    raise UsageError(
        f"{path} exists and is not a saved plan; it is not overwritten",
        "give another name with -o, or remove it first",
        rule="usage.not-overwritten",
    )


def _save(path: Path, text: str) -> None:
    """Write a plan file that only its owner can read: it names hosts, VMs and networks."""
    import os

    require_replaceable(path)  # something else may have been written there since
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text + "\n")


SIGNS = {"+": "green", "~": "yellow", "-": "red", "!": "red", "=": "bright_black"}


def colour(text: str) -> str:
    """Colour lines by their sign; the sign stays, colour is never the only carrier."""
    import os
    import sys

    if os.environ.get("NO_COLOR") or not is_screen(sys.stdout):
        return text
    return "\n".join(_line(line) for line in text.splitlines())


def _line(line: str) -> str:
    sign = line.strip()[:2].strip()
    if sign in SIGNS and line.startswith("  "):
        return click.style(line, fg=SIGNS[sign])
    if line.startswith(("IMPACT", "PROBLEMS")):
        return click.style(line, bold=True)
    return line
