"""``vsphere-ai lab``: a simulated environment on this machine, to try things on."""

from __future__ import annotations

import getpass
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vsphere_ai.cli.console.forms import output_option, show_document
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import changes_nothing, dry_run_option, gathering, is_dry_run
from vsphere_ai.cli.console.streams import doing
from vsphere_ai.cli.setup import lab_defects, lab_faults
from vsphere_ai.errors import UsageError
from vsphere_ai.model.names.name_ranges import shell_word
from vsphere_ai.model.text import counted
from vsphere_ai.report.layout import table
from vsphere_ai.security.state_dir import lab_dir, own_state_dir, state_dir

if TYPE_CHECKING:
    from vsphere_ai.documents.lab import LabProcessDocument, ProcessResult
    from vsphere_ai.lab.front.process import LabSettings, RunningLab

HELP_ENTRY = "Set up", 10, "Start and stop the simulated environment."


@dataclass(frozen=True)
class PlannedFaults:
    """A file with faults from the start of a lab on, and the seed of those of some probability."""

    faults: Path | None = None
    seed: int | None = None


@click.group("lab")
@click.pass_context
def command(context: click.Context) -> None:
    """Run a simulated vCenter with ESXi hosts and GPUs on this machine."""
    context.obj = _running


for _each in (lab_faults.faults, lab_faults.judge, lab_faults.mark, lab_defects.plant):
    command.add_command(_each)


def _scenario(_context: click.Context, _param: click.Parameter, given: str | None) -> Path | None:
    """Return the scenario file that is named: a file, or one that comes with the package."""
    from vsphere_ai.lab.scenario_file import shipped

    if given is None or Path(given).is_file():
        return Path(given) if given else None
    if given not in (known := shipped()):
        raise UsageError(f"there is no file '{given}', and no such scenario", f"there are: {', '.join(known)}")
    return known[given]


def _settings() -> type[LabSettings]:
    from vsphere_ai.lab.front.process import LabSettings

    return LabSettings


@command.command()
@click.option(
    "--scenario",
    metavar="FILE|NAME",
    callback=_scenario,
    help="An environment described in YAML, or the name of one that comes with vsphere-ai, e.g. training.",
)
@gathering(
    "settings",
    _settings,
    click.option(
        "--port", type=click.IntRange(0, 65535), default=0, help="HTTPS port of the vCenter; free one by default."
    ),
    click.option(
        "--run-jobs", is_flag=True, help="Guests run jobs: commands in them are processes on this machine, as you."
    ),
)
@gathering(
    "planned",
    lambda: PlannedFaults,
    click.option(
        "--faults", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="What is to go wrong, in YAML."
    ),
    lab_faults.SEED,
)
@click.option(
    "--timeout",
    type=click.FloatRange(1),
    metavar="SECONDS",
    help="Give up after so long, even while the lab makes progress; no limit by default.",
)
@output_option()
@dry_run_option
@example("lab up --scenario training", needs="no other lab that runs")
def up(scenario: Path | None, settings: LabSettings, planned: PlannedFaults, timeout: float | None, form: str) -> None:
    """Start the lab and say how to use it.

    It is waited for while it makes progress.

    Exits 0 when it is up, 64 when another one runs, 65 when scenario or faults are wrong.
    """
    from vsphere_ai.lab.front import process
    from vsphere_ai.lab.front.starting import Patience

    directory, faults = lab_dir(), planned.faults
    if directory.parent == state_dir() and not is_dry_run():
        own_state_dir()  # whatever the umask is: journals will be kept in it too
    rules = process.check_faults(faults) if faults is not None else ""
    running = process.find(directory)
    if running is not None:
        _require_same(running, process.check_scenario(scenario), faults, settings)
        line = f"The lab is already running: https://127.0.0.1:{running.port}/sdk (process {running.pid})."
        show_document(form, _process(running, "running"), line)
        return
    if scenario is not None:
        process.check_scenario(scenario)
    if is_dry_run():
        line = f"A lab with the scenario {scenario or 'of the package'} would start. Nothing was changed."
        show_document(form, _process(None, "would-start", str(scenario) if scenario else None), line)
        return
    running = process.start(directory, scenario, settings, patience=Patience(timeout, report=doing))
    doing("reading the environment")
    farm = running.get("/lab/farm")
    lines = [f"The lab is up: vCenter {farm['vcenter']['version']} at https://127.0.0.1:{running.port}/sdk\n"]
    lines.append(overview(farm))
    if faults is not None:
        given = {"rules": rules, "file": str(faults), "seed": planned.seed, "from_start": True}
        now = running.post("/lab/faults", given)
        lines.append(f"\n{lab_faults.armed(now)}")
    if running.run_jobs:
        lines.append(f"\n{_warned(directory)}")
    lines.append(f"\nConnection data, certificate and passwords: {directory}")
    lines.append("An inventory with the line `lab: true` uses this environment. Look at it with: vsphere-ai lab status")
    show_document(form, _process(running, "started"), *lines)


def _require_same(running: RunningLab, digest: str, faults: Path | None, settings: LabSettings) -> None:
    """Refuse a lab that runs and is another one than that which was to be started."""
    if running.scenario_digest != digest:
        text = f"a lab with another scenario ({running.scenario}) is running"
        raise UsageError(text, "stop it with: vsphere-ai lab down")
    if faults is not None:
        raise UsageError(
            f"a lab is running already, on port {running.port}",
            f"change its faults with: vsphere-ai lab faults set {shell_word(str(faults))}",
        )
    if settings.run_jobs and not running.run_jobs:
        raise UsageError("a lab without --run-jobs is running", "stop it with: vsphere-ai lab down")


def _process(lab: RunningLab | None, result: ProcessResult, scenario: str | None = None) -> LabProcessDocument:
    from vsphere_ai.documents.lab import LabProcessDocument

    if lab is None:
        return LabProcessDocument(result=result, scenario=scenario)
    return LabProcessDocument(
        result=result,
        scenario=lab.scenario,
        pid=lab.pid,
        url=f"https://127.0.0.1:{lab.port}/sdk",
        folder=str(lab.directory),
        run_jobs=lab.run_jobs,
    )


@command.command()
@output_option()
@dry_run_option
@example("lab down")
def down(form: str) -> None:
    """Stop the lab; what happened in it is forgotten.

    Exits 0, also where none runs.
    """
    from vsphere_ai.lab.front import process

    active = process.find(lab_dir())
    if is_dry_run() and active is not None:
        line = f"The lab with the scenario {active.scenario} (process {active.pid}) would stop. Nothing was changed."
        show_document(form, _process(active, "would-stop"), line)
    elif is_dry_run() or not process.stop(lab_dir()):
        show_document(form, _process(None, "not-running"), "No lab is running.")
    else:
        show_document(form, _process(active, "stopped"), "The lab is down.")


@command.command()
@output_option()
@click.option("--ledger", is_flag=True, help="Show every change that took effect.")
@changes_nothing
@example("lab status")
def status(form: str, ledger: bool) -> None:
    """Show the environment as it is: hosts, GPUs, VMs, and how many changes it has seen.

    Exits 0, and 64 where no lab runs.
    """
    running = _running()
    farm = running.get("/lab/farm")
    entries = running.get("/lab/ledger")["entries"] if ledger else []
    if form == "json":
        from vsphere_ai.documents.lab import LabStatusDocument

        lab_faults.print_document(LabStatusDocument, {**farm, **({"ledger_entries": entries} if ledger else {})})
        return
    click.echo(overview(farm))
    click.echo(f"\nledger: {farm['ledger']} changes")
    if ledger and entries:
        rows = [
            (e["number"], e["time"][11:23], e["channel"], e["object"], e["call"], _detail(e["detail"])) for e in entries
        ]
        click.echo(table(("no", "time", "via", "object", "call", "detail"), rows))


@command.command()
@output_option()
@dry_run_option
@example("lab reset")
def reset(form: str) -> None:
    """Put the environment back to what its scenario says, without a restart.

    Exits 0, and 64 where no lab runs.
    """
    from vsphere_ai.documents.lab import LabResetDocument

    running = _running()
    changes, line = running.get("/lab/farm")["ledger"], f"The lab is back at the start of scenario {running.scenario}."
    if is_dry_run():
        line = (
            f"The lab would go back to the start of scenario {running.scenario}: {counted(changes, 'change')} would be "
            "forgotten. Nothing was changed."
        )
    else:
        running.post("/lab/reset")
    show_document(form, LabResetDocument(scenario=running.scenario, reset=not is_dry_run(), changes=changes), line)


def overview(farm: dict[str, Any]) -> str:
    """Return the hosts, GPUs and VMs of an environment as text."""
    hosts = [
        (
            h["name"],
            h["cluster"] or "-",
            h["version"],
            h["state"] + (", maintenance" if h["maintenance"] else ""),
            "yes" if h["reboot_required"] else "no",
            "on" if h["ssh"]["running"] else "off",
            h["pvrdma"]["vmknic"] or "-",
        )
        for h in farm["hosts"]
    ]
    gpus = [
        (h["name"], g["pci"], g["name"], _change(g["configured"], g["active"]), _mig(g), ", ".join(g["vms"]) or "-")
        for h in farm["hosts"]
        for g in h["gpus"]
    ]
    vms = [
        (
            v["name"],
            v["host"],
            v["power"].removeprefix("powered").lower(),
            v["hardware"],
            ", ".join(v["vgpu"]) or "-",
            ", ".join(f"{p['port_group']} {p['protocol'] or ''}".strip() for p in v["pvrdma"]) or "-",
        )
        for v in farm["vms"]
    ]
    parts = [table(("host", "cluster", "esxi", "state", "reboot needed", "ssh", "pvrdma vmknic"), hosts)]
    if gpus:
        parts.append(table(("host", "gpu", "model", "graphics", "mig", "used by"), gpus))
    if vms:
        more = [("...", f"{len(vms) - 40} more", "", "", "", "")] if len(vms) > 40 else []
        parts.append(table(("vm", "host", "power", "hardware", "vgpu", "pvrdma"), [*vms[:40], *more]))
    return "\n\n".join(parts)


def _warned(directory: Path) -> str:
    """Return what a user has to know of a lab whose guests run jobs."""
    return (
        f"WARNING: guests run jobs: commands in them are processes on this machine, as {getpass.getuser()}.\n"
        f"/shared of all guests: {directory / 'shared'}"
    )


def _change(configured: str, active: str) -> str:
    return active if configured == active else f"{active} (configured {configured})"


def _mig(gpu: dict[str, Any]) -> str:
    mig = gpu["mig"]
    if not mig["capable"]:
        return "n/a"
    state = "enabled" if mig["current"] else "disabled"
    if mig["current"] != mig["pending"]:
        state += f" (pending {'enabled' if mig['pending'] else 'disabled'})"
    instances = " ".join(f"{i['profile']}@{i['start']}" for i in gpu["instances"])
    return f"{state}: {instances}" if instances else state


def _detail(detail: dict[str, object]) -> str:
    return json.dumps(detail, separators=(", ", ": ")) if detail else ""


def _running() -> RunningLab:
    from vsphere_ai.lab.front import process

    running = process.find(lab_dir())
    if running is None:
        raise UsageError("no lab is running", "start it with: vsphere-ai lab up", rule="lab.not-running")
    return running
