"""`vsphere-ai check`: the compatibility rules, with evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vsphere_ai.cli.options import estate_options, format_option, open_session, pause_status, read_playbook


@click.command("check")
@click.argument("playbook", required=False, type=click.Path(path_type=Path, dir_okay=False))
@estate_options
@format_option("text", "json")
@click.option("--failures", is_flag=True, help="Leave out what passed.")
def command(playbook: Path | None, form: str, failures: bool, **shared: Any) -> int:
    """Check hosts and VMs, or only what PLAYBOOK is about; exits 1 when a rule fails.

    A verdict is pass, warn, fail, or unknown when the evidence cannot be read; unknown is never pass.
    """
    from vsphere_ai.planning.document import SCHEMA_VERSION, FindingDocument, dumps, plain
    from vsphere_ai.report.findings_text import findings_text

    loaded = read_playbook(playbook) if playbook else None
    with open_session(shared, loaded) as session:
        findings = session.check(loaded) if loaded else session.check_all()
        about = session.vcenter.about
    pause_status()
    if form == "json":
        found = [FindingDocument.of(f).as_json() for f in findings if not failures or f.verdict != "pass"]
        click.echo(dumps({"schema_version": SCHEMA_VERSION, "vcenter": plain(about), "findings": found}))
    else:
        click.echo(findings_text(findings, f"vCenter {about.name} {about.version}", passes=not failures))
    return 1 if any(f.verdict == "fail" for f in findings) else 0
