"""``vsphere-ai lab faults``, ``mark`` and ``judge``: inject faults into the lab, and validate the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vsphere_ai.cli.console.forms import output_option, show_document
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import changes_nothing, dry_run_option, is_dry_run
from vsphere_ai.errors import UsageError
from vsphere_ai.model.text import counted
from vsphere_ai.report.layout import table
from vsphere_ai.security.files import MIB, read_text

if TYPE_CHECKING:
    from vsphere_ai.documents.lab import LabFaultsTriedDocument
    from vsphere_ai.documents.printed import PrintedDocument

Find = Callable[[], Any]
"""Returns the running lab, or says that there is none."""
SEED = click.option("--seed", type=click.IntRange(0), help="Let faults of some probability strike as they did before.")


@click.group()
def faults() -> None:
    """Inject faults into calls, commands, hosts and connections of the lab."""


@faults.command("set")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@SEED
@output_option()
@dry_run_option
@click.pass_obj
@example("lab faults set faults.yml --seed 7", needs="faults.yml, a file with rules (docs/faults.md)")
def set_(find: Find, file: Path, seed: int | None, form: str) -> None:
    """Replace the faults by those of a file.

    Exits 0, and 64 where no lab runs.
    """
    lab, text = find(), _text(file)
    if not _tried(form, lab.count_rules, text, str(file), "replace those of the lab"):
        now = lab.set_faults(text, file=str(file), seed=seed)
        _show_rules(form, now, armed(now))


@faults.command()
@click.argument("rule")
@output_option()
@dry_run_option
@click.pass_obj
@example("lab faults add '{on: ReconfigVM_Task, nth: 1, do: lost-reply}'")
def add(find: Find, rule: str, form: str) -> None:
    """Add a rule, such as '{on: PowerOnVM_Task, nth: 2, do: lost-reply}'.

    Exits 0, and 64 where no lab runs.
    """
    lab = find()
    if not _tried(form, lab.count_rules, rule, "rule", "be added to those of the lab"):
        now = lab.add_faults(rule, file="rule")
        _show_rules(form, now, armed(now))


@faults.command()
@click.argument("number", type=click.IntRange(1), metavar="NO")
@output_option()
@dry_run_option
@click.pass_obj
@example("lab faults release 1", needs="a rule that holds something up")
def release(find: Find, number: int, form: str) -> None:
    """Let go of what one rule holds up (NO in `list`); it does not strike again.

    Exits 0, and 64 where no lab runs.
    """
    found = find().get("/lab/faults")["rules"]
    if number > len(found):
        raise UsageError(f"there is no rule {number}", "vsphere-ai lab faults list shows them")
    rule = found[number - 1]["rule"]
    if is_dry_run():
        show_document(form, _tried_rules(1), f"Rule {number} would be released: {rule}. Nothing was changed.")
        return
    find().release_fault(number)
    _show_rules(form, find().get("/lab/faults"), f"Rule {number} is released: {rule}")


@faults.command("list")
@output_option()
@click.pass_obj
@changes_nothing
@example("lab faults list")
def list_(find: Find, form: str) -> None:
    """Show the rules, how often each was met and fired, and every fault that fired.

    Exits 0, and 64 where no lab runs.
    """
    found = find().get("/lab/faults")
    if form == "json":
        from vsphere_ai.documents.lab import LabFaultsDocument

        print_document(LabFaultsDocument, found)
        return
    if not found["rules"] and not found["fired"]:
        click.echo("There are no faults.")
        return
    click.echo(f"seed {found['seed']}")
    if found["rules"]:
        rows = [(r["number"], r["rule"], r["met"], r["fired"]) for r in found["rules"]]
        click.echo(table(("no", "rule", "met", "fired"), rows))
    if found["fired"]:
        fired = [
            (f["number"], f["time"][11:19], f["rule"], f["do"], f["when"], f["event"], f["object"] or "-", f["ledger"])
            for f in found["fired"]
        ]
        click.echo()
        click.echo(table(("fired", "time", "rule", "fault", "when", "on", "object", "changes before"), fired))


@faults.command()
@output_option()
@dry_run_option
@click.pass_obj
@example("lab faults clear")
def clear(find: Find, form: str) -> None:
    """Remove every rule; what hangs is let go.

    Exits 0, and 64 where no lab runs.
    """
    lab = find()
    if is_dry_run():
        count = len(lab.get("/lab/faults")["rules"])
        show_document(form, _tried_rules(count), f"{counted(count, 'rule')} would be removed. Nothing was changed.")
        return
    lab.clear_faults()
    _show_rules(form, lab.get("/lab/faults"), "There are no faults any more.")


@click.command()
@output_option()
@dry_run_option
@click.pass_obj
@example("lab mark")
def mark(find: Find, form: str) -> None:
    """Let `lab judge` judge from here.

    Exits 0, and 64 where no lab runs.
    """
    from vsphere_ai.documents.lab import LabMarkDocument

    lab = find()
    since = lab.get("/lab/farm")["ledger"] if is_dry_run() else lab.mark()
    line = f"Judging starts after change {since}."
    if is_dry_run():
        line = f"Judging would start after change {since}. Nothing was changed."
    show_document(form, LabMarkDocument(since=since, marked=not is_dry_run()), line)


@click.command()
@click.option("--since", type=click.IntRange(0), help="Validate what came after this entry of the ledger.")
@click.option("--max-down", type=click.IntRange(0), default=1, show_default=True, help="Hosts of a cluster at once.")
@click.option("--skip", multiple=True, metavar="NAME", help="Leave an invariant out; may be given several times.")
@output_option()
@click.pass_obj
@changes_nothing
@example("lab judge")
def judge(find: Find, since: int | None, max_down: int, skip: tuple[str, ...], form: str) -> int:
    """Validate the run: nothing done twice, nothing left behind. Ends with 1 when something was."""
    found = find().check(since=since, max_down=max_down)
    names = [v["name"] for v in found["invariants"]]
    unknown = [name for name in skip if name not in names]
    if unknown:
        raise UsageError(f"there is no invariant '{unknown[0]}'", f"there are: {', '.join(names)}")
    verdicts = [v for v in found["invariants"] if v["name"] not in skip]
    sound = all(v["ok"] for v in verdicts)
    if form == "json":
        from vsphere_ai.documents.lab import LabVerdictDocument

        print_document(LabVerdictDocument, {**found, "invariants": verdicts, "ok": sound})
        return int(not sound)
    rows = []
    for verdict in verdicts:
        rows.append((verdict["name"], "ok" if verdict["ok"] else "VIOLATED", verdict["seen"] or verdict["demands"]))
        rows += [("", "", f"! {finding}") for finding in verdict["findings"]]
    click.echo(f"{found['entries']} changes after change {found['since']}")
    click.echo(table(("invariant", "result", "detail"), rows))
    return int(not sound)


def _tried(form: str, count: Callable[[str, str], int], text: str, file: str, what: str) -> bool:
    """Show in a dry run how many rules a text has, and what they would do; return whether it is one."""
    if is_dry_run():
        rules = count(text, file)
        line = f"{counted(rules, 'rule')} for faults would {what}. Nothing was changed."
        show_document(form, _tried_rules(rules), line)
    return is_dry_run()


def _tried_rules(count: int) -> LabFaultsTriedDocument:
    from vsphere_ai.documents.lab import LabFaultsTriedDocument

    return LabFaultsTriedDocument(rules=count, dry_run=True)


def _show_rules(form: str, found: Mapping[str, object], line: str) -> None:
    """Print the rules that a lab has now, or a line of text on them."""
    if form == "json":
        from vsphere_ai.documents.lab import LabFaultsDocument

        print_document(LabFaultsDocument, found)
    else:
        click.echo(line)


def print_document(model: type[PrintedDocument], values: Mapping[str, object]) -> None:
    """Print what a lab has answered, as a document of this version; `UsageError` where it is of another one."""
    from pydantic import ValidationError

    from vsphere_ai.documents.stored import first_fault
    from vsphere_ai.report.json_text import json_text

    try:
        document = model.model_validate(values)
    except ValidationError as error:
        text = f"the lab that runs is of another version of vsphere-ai: {first_fault(error)}"
        raise UsageError(text, "start it again: vsphere-ai lab down, then vsphere-ai lab up") from None
    click.echo(json_text(document))


def armed(found: dict[str, Any]) -> str:
    """Return one line on the faults that wait, with the seed that makes them happen again."""
    count = len(found["rules"])
    return f"{count} {'rule' if count == 1 else 'rules'} for faults, seed {found['seed']}."


def _text(file: Path) -> str:
    try:
        return read_text(file, 4 * MIB)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", "give the path of a YAML file") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not UTF-8 text", "save it as UTF-8") from None
