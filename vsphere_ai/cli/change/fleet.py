"""`vsphere-ai fleet`: one playbook in several vCenters, as one plan and one run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.change.fleet_certificates import certificates
from vsphere_ai.cli.change.fleet_options import plan_place, run_place, vcenters_option
from vsphere_ai.cli.change.fleet_progress import FleetProgress, listener
from vsphere_ai.cli.change.fleet_worker import worker
from vsphere_ai.cli.console import signals, streams
from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import (
    FILE,
    agreed,
    changes_nothing,
    destroy_option,
    destroyed,
    dry_run_option,
    fleet_options,
    full_option,
    is_dry_run,
    lock_option,
    login_option,
    moved_inventory_option,
    number_options,
    quiet_option,
    reboot_option,
    rebooted,
    to_option,
    verbose_option,
    width,
    yes_option,
    yes_to,
)
from vsphere_ai.errors import Conflict, UsageError
from vsphere_ai.model.names.name_ranges import quoted, shell_word
from vsphere_ai.model.text import counted, safe

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest, FleetPlan, FleetRun, ShardOutcome
    from vsphere_ai.app.runs.approval import ConfirmedCounts
    from vsphere_ai.fleet.place import PlaceRequest, PlanningPlace
    from vsphere_ai.runs.locks import Mode

HELP_ENTRY = "Change the environment", 30, "Carry out one playbook in several vCenters."
budget_option = click.option(
    "--budget", type=click.IntRange(1), metavar="N", help="Hosts out of service at once, in all vCenters together."
)


@click.group("fleet")
def command() -> None:
    """Carry out one playbook in several vCenters of an inventory, each as a run of its own."""


command.add_command(worker)
command.add_command(certificates)


@command.command("plan")
@click.argument("playbook", type=FILE)
@fleet_options
@vcenters_option
@budget_option
@plan_place
@login_option
@output_option()
@full_option
@quiet_option
@to_option("Save the plan, for fleet apply.")
@changes_nothing
@example("fleet plan playbooks/time.yml --to fleet.json")
def plan(playbook: Path, estate: EstateRequest, form: str, to: Path | None, **chosen: object) -> int:
    """Show what PLAYBOOK would change in each vCenter, and in all together. Changes nothing.

    A play without `vcenter` is for all of them; it is left out where its pattern matches no object.

    Exits 0, else with the most serious code of a vCenter: 1 when a plan has problems.
    """
    from vsphere_ai import app

    if to:
        app.require_absent([to])
    vcenters: tuple[str, ...] = chosen["vcenters"]  # type: ignore[assignment]
    budget: int | None = chosen["budget"]  # type: ignore[assignment]
    place: PlaceRequest = chosen["place"]  # type: ignore[assignment]
    with _opened(place) as at:
        found = app.plan_fleet(app.FleetPlanRequest(playbook, estate, vcenters, budget), listener, at.sites)
    _show_plan(found, form, full=bool(chosen["full"]))
    if found.exit_code:
        return found.exit_code
    if to:
        app.save_fleet_plan(found, to)
        streams.note(f"Saved. Apply it with: vsphere-ai fleet apply {shell_word(str(to))}")
    return 0


@command.command("apply")
@click.argument("what", metavar="PLAYBOOK|PLAN.json", type=FILE)
@fleet_options
@vcenters_option
@budget_option
@run_place
@login_option
@output_option()
@full_option
@verbose_option
@quiet_option
@lock_option
@yes_option
@dry_run_option
@number_options(destroy_option, reboot_option)
@click.option("--halt-on-failure", is_flag=True, help="Where one vCenter fails, start nothing more in the others.")
@example("fleet apply fleet.json --yes")
def apply(
    what: Path,
    estate: EstateRequest,
    vcenters: tuple[str, ...],
    budget: int | None,
    form: str,
    **more: object,
) -> int:
    """Carry out a playbook, or a plan saved with `fleet plan --to`, in all its vCenters side by side.

    Every vCenter is planned again and compared first: where one is not as planned, nothing is changed in any. Ctrl-C
    finishes what is in flight in all of them. What is left is brought to its end with `fleet resume`.

    Exits 0 when all is done, else with the most serious code of a vCenter.
    """
    from dataclasses import replace

    from vsphere_ai import app

    saved = what.suffix == ".json"
    chosen = {"--vcenter": vcenters, "--limit": estate.limit, "--kind": estate.only_kinds, "--budget": budget}
    if saved and (given := next((option for option, value in chosen.items() if value), "")):
        text = f"{what} is a saved plan, which is carried out as it was shown, without {given}"
        raise UsageError(text, f"give {given} to fleet plan, and save that one", rule="usage.saved-plan")
    place: PlaceRequest = more["place"]  # type: ignore[assignment]
    with _opened(place) as at:
        found = (
            app.open_fleet_plan(what)
            if saved
            else app.plan_fleet(app.FleetPlanRequest(what, estate, vcenters, budget), listener, at.sites)
        )
        _show_plan(found, form, full=bool(more["full"]), err=form == "json" and not is_dry_run())
        if found.exit_code:
            return found.exit_code
        if not found.totals.steps or is_dry_run():
            return 0
        numbers: ConfirmedCounts = more["numbers"]  # type: ignore[assignment]
        if not _confirmed(found, numbers, yes=bool(more["yes"]), saved=saved):
            click.echo("Nothing was changed.", err=True)
            return 0
        lock: Mode | None = more["lock"]  # type: ignore[assignment]
        whole = replace(estate, limit="", only_kinds=())  # the plan is of these only, and carried out as a whole
        options = app.FleetOptions(whole, lock, bool(more["halt_on_failure"]), at.name)
        app.compare_fleet(found, options, listener, at.compare)
        return _carry_out(at, app.begin_fleet(found, options), form, full=bool(more["verbose"] or more["full"]))


@command.command("resume")
@click.argument("fleet", metavar="[FLEET]", required=False, default="")
@moved_inventory_option
@run_place
@output_option()
@verbose_option
@quiet_option
@yes_to("Approve additional changes.")
@dry_run_option
@example("fleet resume", needs="a fleet run that is not at its end")
def resume(fleet: str, inventory: Path | None, place: PlaceRequest, form: str, **more: bool) -> int:
    """Bring FLEET, or the latest unfinished fleet run, to its end: resume its open runs, start those never started.

    Without --executor where it began. --dry-run shows how its runs stand.

    Exits 0 when all is done, else with the most serious code of a vCenter.
    """
    from dataclasses import replace

    from vsphere_ai import app

    run = app.open_fleet(fleet)
    if is_dry_run():
        return _show_fleets([run], form)
    where = str(inventory.absolute()) if inventory else None
    shards = tuple(s.model_copy(update={"yes": more["yes"], "inventory": where or s.inventory}) for s in run.shards)
    with _opened(replace(place, executor=place.executor or run.executor)) as at:
        return _carry_out(at, run.model_copy(update={"shards": shards}), form, full=more["verbose"])


@command.command("status")
@click.argument("fleet", metavar="[FLEET]", required=False, default="")
@output_option(names="fleets.fleet")
@changes_nothing
@example("fleet status")
def status(fleet: str, form: str) -> int:
    """List the fleet runs of this machine, or how the runs of FLEET stand. Asks no vCenter.

    Exits 0 whatever it shows.
    """
    from vsphere_ai import app

    return _show_fleets((app.open_fleet(fleet),) if fleet else app.list_fleets(), form)


def _show_fleets(runs: Sequence[FleetRun], form: str) -> int:
    """Print how the runs of fleets stand."""
    from vsphere_ai import app
    from vsphere_ai.documents.fleets import FleetStatusDocument, FleetStatusesDocument
    from vsphere_ai.report.fleets.fleet_text import outcomes_text
    from vsphere_ai.report.json_text import json_text

    found = [(run, app.fleet_outcomes(run)) for run in runs]
    if form == "json":
        fleets = tuple(
            FleetStatusDocument(fleet=r.fleet, started=r.started, playbook=r.playbook, shards=o) for r, o in found
        )
        click.echo(json_text(FleetStatusesDocument(fleets=fleets)))
        return 0
    for run, outcomes in found:
        click.echo(safe(f"Fleet {run.fleet}  {run.started}  {run.playbook}"))
        click.echo(outcomes_text(outcomes, width()))
    if not found:
        click.echo("no fleet was run here yet")
    return 0


@contextmanager
def _opened(request: PlaceRequest) -> Iterator[PlanningPlace]:
    """Open the place of a fleet; say so where its certificate is about to expire."""
    from vsphere_ai.fleet.certificates import RENEW, date, expires_soon
    from vsphere_ai.fleet.place import open_place

    with open_place(request) as at:
        if at.until is not None and expires_soon(at.until):
            streams.note(f"the certificate of this fleet expires {date(at.until)}; {RENEW}", "fleet.certificate")
        yield at


def _show_plan(plan: FleetPlan, form: str, *, full: bool, err: bool = False) -> None:
    from vsphere_ai.cli.console.colour import colour
    from vsphere_ai.report.fleets.fleet_plan_text import fleet_plan_text, fleet_result_text
    from vsphere_ai.report.json_text import json_text

    for name in plan.without:
        streams.note(safe(f"{quoted(name)}: left out, {plan.playbook} matches nothing in it"), "fleet.nothing")
    if form == "json" and not err:
        click.echo(json_text(plan.document))
    elif streams.is_quiet():
        click.echo(fleet_result_text(plan.shards, width()), err=err)
    else:
        click.echo(colour(fleet_plan_text(plan.shards, plan.totals, plan.budget, width(), full=full)), err=err)


def _confirmed(plan: FleetPlan, numbers: ConfirmedCounts, *, yes: bool, saved: bool) -> bool:
    """Ask for the numbers of VMs that go and hosts that reboot in all vCenters, else for a yes."""
    totals, where = plan.totals, f"in {counted(len(plan.shards), 'vCenter')}"
    for option, given, number, what in (
        ("destroy", numbers.destroy, totals.destroyed, "VMs that are destroyed"),
        ("reboot", numbers.reboot, totals.reboots, "hosts that reboot"),
    ):
        if given is not None and given != number:
            text = f"the number of {what} is {number}, and --{option} is for {given}; nothing was changed"
            raise Conflict(
                text, f"look at those that are named; then give --{option} {number}", rule=f"{option}.other-number"
            )
    if totals.destroyed and numbers.destroy is None and (yes or saved):
        text = f"the plan destroys {counted(totals.destroyed, 'VM')} with all disks, which --yes alone does not confirm"
        raise UsageError(text, f"give --yes --destroy {totals.destroyed}", rule="usage.destroy")
    if yes or saved:
        return True
    asked = [
        (n, w)
        for n, w in ((totals.destroyed, destroyed(totals.destroyed)), (totals.reboots, rebooted(totals.reboots)))
        if n > 1 or (n and "VM" in w)
    ]
    for number, what in asked:
        if not agreed(f"Apply {where}? {what}. Type {number} to confirm", yes=False, wanted=str(number)):
            return False
    return bool(asked) or agreed(f"Apply {where}? Type yes to confirm", yes=False)


def _carry_out(at: PlanningPlace, run: FleetRun, form: str, *, full: bool) -> int:
    from vsphere_ai import app
    from vsphere_ai.documents.fleets import FleetAppliedDocument
    from vsphere_ai.report.fleets.fleet_text import outcomes_text
    from vsphere_ai.report.json_text import json_text

    if not streams.is_quiet():
        click.echo(f"Fleet run {run.fleet}", err=True)
    stop, quiet = app.FleetStop(), form == "json" or streams.is_quiet()
    with (
        signals.first(stop, f"vsphere-ai fleet resume {run.fleet}"),
        FleetProgress(run, stop, quiet=quiet, full=full) as progress,
    ):
        outcomes = app.carry_out_fleet(run, at.executor(run, stop), progress)
    code = app.fleet_exit_code(outcomes, stop.number)
    if form == "json":
        click.echo(json_text(FleetAppliedDocument(fleet=run.fleet, exit_code=code, shards=outcomes)))
    else:
        click.echo(outcomes_text(outcomes, width()))
    for line in _way_on(run, outcomes):
        click.echo(line, err=True)
    return code


def _way_on(run: FleetRun, outcomes: Sequence[ShardOutcome]) -> Iterator[str]:
    """Yield how to go on: a vCenter that is not as planned any more is planned again, all others are resumed."""
    other = [o.vcenter for o in outcomes if o.state == "refused" and o.rule == "plan.stale"]
    if not all(o.over or o.vcenter in other for o in outcomes):
        yield f"Continue from what is there: vsphere-ai fleet resume {run.fleet}"
    if other:
        names, playbook = shell_word(",".join(other)), shell_word(run.playbook)
        scopes = (s.plan["scope"] for s in run.shards if s.vcenter in other)
        limits = {str(scope.get("limit") or "") for scope in scopes if isinstance(scope, dict)}
        limit = "".join(f" --limit {shell_word(text)}" for text in sorted(limits) if text)
        yield f"Not as planned any more, so plan it again: vsphere-ai fleet plan {playbook} --vcenter {names}{limit}"


@command.command("report")
@click.argument("fleet", metavar="[FLEET]", required=False, default="")
@to_option(
    "Folder of a page per vCenter beside that of the fleet, or a file; standard output without it.",
    click.Path(path_type=Path),
    metavar="FOLDER|FILE",
)
@output_option("html", "markdown", "junit", "sarif", "ctrf")
@changes_nothing
@example("fleet report --to result")
def report(fleet: str, to: Path | None, form: str) -> int:
    """Write a report of FLEET, or of the latest fleet run: totals, and how each vCenter stands. Asks no vCenter.

    With `--to FOLDER` the page of the fleet is its index.html, and leads to a page of each run.

    Exits 0 whatever it reports.
    """
    from vsphere_ai import app
    from vsphere_ai.fleet.run import fleet_records, latest_fleet
    from vsphere_ai.report.fleets.fleet_documents import fleet_pages

    if to is not None and form != "html" and not to.suffix:
        raise UsageError(f"-o {form} is one file", "give a file with --to", rule="usage.report")
    run = app.open_fleet(fleet) if fleet else latest_fleet()
    folder = to is not None and not to.suffix
    pages = fleet_pages(vars(run), app.fleet_outcomes(run), fleet_records(run), form, folder=folder)
    if to is None:
        click.echo(pages["index.html"], nl=False)
    elif folder:
        app.save_pages(to, pages)
    else:
        app.save_report(to, pages["index.html"])
    return 0
