"""`vsphere-ai capacity`: what runs on the GPUs, what still fits, and whether a playbook's VMs all find room."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vsphere_ai.cli.options import (
    estate_options,
    format_option,
    open_session,
    pause_status,
    read_playbook,
    say_left_out,
)

if TYPE_CHECKING:
    from vsphere_ai.app.session import Session
    from vsphere_ai.capacity.document import Verdict
    from vsphere_ai.language.play import TargetPlan
    from vsphere_ai.language.playbook import Playbook
    from vsphere_ai.model.facts import Estate
    from vsphere_ai.model.state import Problem, Target
    from vsphere_ai.model.view import View
    from vsphere_ai.planning.planner import Plan
    from vsphere_ai.reading.collector import Depth

WIDTH = 80
ROOM = ("capacity.", "vgpu.")
_ASSUMED = "where running VMs stand could not be read, and is assumed"


@click.command("capacity")
@click.argument("playbook", required=False, type=click.Path(path_type=Path, dir_okay=False))
@estate_options
@click.option("--spare-hosts", type=click.IntRange(0, 4),
              help="All VMs must still fit after the loss of any so many hosts (default: the playbook's).")  # fmt: skip
@format_option("text", "json")
def command(playbook: Path | None, spare_hosts: int | None, form: str, **shared: Any) -> int:
    """Show per GPU what runs, which slices are free and what still fits; changes nothing.

    With PLAYBOOK, tell whether its VMs all fit once its changes are made, where each goes, or what stands in the way.
    Exits 1 when they do not fit where they are registered, or when `plan` refuses PLAYBOOK.
    """
    from vsphere_ai.model.malformed import evaluate

    loaded = read_playbook(playbook) if playbook else None
    with open_session(shared, loaded) as session:
        plan, estate = _planned(session, loaded) if loaded else (None, _read(session))

        def answered(estate: Estate) -> tuple[list[dict[str, Any]], Verdict | None]:
            return _answer(session, estate, loaded, plan, spare_hosts)

        (hosts, verdict), estate = evaluate(estate, answered)
        about = session.vcenter.about
    pause_status()
    say_left_out(estate)
    if form == "json":
        from vsphere_ai.planning.document import dumps, plain

        document = {"schema_version": 1, "vcenter": plain(about), "hosts": hosts}
        click.echo(dumps({**document, "verdict": verdict.document()} if verdict else document))
    else:
        from vsphere_ai.model.text import safe

        click.echo("\n".join(safe(line) for line in _text(hosts, verdict)))
    return 1 if verdict is not None and verdict.refused else 0


# -- reading


def _read(session: Session) -> Estate:
    """Read the hosts that `--limit` names, or all."""
    from vsphere_ai.planning.observing import readable
    from vsphere_ai.resources import kinds

    chosen_of = partial(_limited, session)
    return readable(session.read(lambda e: _depth(e, chosen_of(e))), kinds())


def _limited(session: Session, estate: Estate) -> tuple[Target, ...]:
    """Return the hosts `--limit` names, and those that the VMs it names are on."""
    named = session.limited(estate, (*estate.hosts, *estate.vms))
    refs = {t.ref for t in named if t.kind == "host"}
    refs |= {host.ref for t in named if t.kind == "vm" and (host := estate.host_of(t.ref))}
    return tuple(h for h in estate.hosts if h.ref in refs)


def _planned(session: Session, loaded: Playbook) -> tuple[Plan, Estate]:
    """Plan a playbook, having read the hosts its VMs can run on with every VM there."""
    estate = session.read_for(loaded, lambda e: _depth(e, _concerned(e, session.desired(loaded, e))))
    return session.plan_of(loaded, estate)


def _depth(estate: Estate, hosts: Iterable[Target]) -> Depth:
    """Ask for hosts with every VM on them: what is not in the playbook takes room as well."""
    from vsphere_ai.reading.collector import Depth

    refs = frozenset(h.ref for h in hosts)
    vms = frozenset(v.ref for ref in refs for v in estate.vms_on(ref))
    connected = frozenset(r for r in refs if estate[r].get("runtime.connectionState") == "connected")
    return Depth(refs, vms, connected)


# -- the question


def _answer(
    session: Session, estate: Estate, loaded: Playbook | None, plan: Plan | None, spare_hosts: int | None
) -> tuple[list[dict[str, Any]], Verdict | None]:
    """Return what is on each GPU, and whether all fit: the VMs of a playbook, or those that run now."""
    from vsphere_ai.planning.capacity import NO_SPARE
    from vsphere_ai.planning.planner import view_as_planned, will_run
    from vsphere_ai.resources import kinds

    problems: tuple[Problem, ...] = ()
    asked = 0
    if loaded is None or plan is None:
        view, wanted, chosen = _as_it_is(estate), _running(estate), _limited(session, estate)
    else:
        desired = session.desired(loaded, estate)
        problems = tuple(p for p in plan.problems if spare_hosts is None or p.rule != NO_SPARE)
        view, wanted = view_as_planned(desired, estate, kinds()), will_run(estate, desired)
        chosen = _concerned(estate, desired)
        asked = max((p.spare_hosts for p in desired.values()), default=0)
    spare = asked if spare_hosts is None else spare_hosts
    verdict = replace(_verdict(view, chosen, wanted, spare), problems=problems) if loaded or spare else None
    return _host_documents(view, chosen, wanted), verdict


def _as_it_is(estate: Estate) -> View:
    from vsphere_ai.model.view import View
    from vsphere_ai.planning.observing import observe
    from vsphere_ai.resources import kinds

    return View(estate, observe(estate, kinds()))


def _running(estate: Estate) -> frozenset[str]:
    on = ("poweredOn", "suspended")
    return frozenset(v.ref for v in estate.vms if estate[v.ref].get("runtime.powerState") in on)


def _concerned(estate: Estate, desired: Mapping[Target, TargetPlan]) -> tuple[Target, ...]:
    """Return the hosts the playbook is about, and those its VMs can run on."""
    refs = {t.ref for t in desired if t.kind == "host"}
    refs |= {h.ref for t in desired if t.kind == "vm" for h in estate.hosts_for(t.ref)}
    return tuple(h for h in estate.hosts if h.ref in refs)


def _host_documents(view: View, hosts: Iterable[Target], wanted: frozenset[str]) -> list[dict[str, Any]]:
    from vsphere_ai.capacity.document import gpu_document
    from vsphere_ai.planning.capacity import question_of

    chosen = tuple(hosts)
    slots = question_of(view, wanted, chosen).farm.hosts
    names = {v.ref: v.name for v in view.estate.vms}
    gpus = {h: [gpu_document(s, names) for s in slots.get(h.name, ())] for h in chosen}
    for host, documents in gpus.items():
        _add_guests(documents, view, host)
    return [{"host": host.name, "gpus": documents} for host, documents in gpus.items()]


def _add_guests(gpus: Iterable[dict[str, Any]], view: View, host: Target) -> None:
    """Add to every running vGPU what nvidia-smi on the host tells of it: GPU instance, guest driver, licence state.

    Null where it does not tell; VMs of one name on one host cannot be told apart.
    """
    from vsphere_ai.gpu import live

    names = [v.name for v in view.estate.vms_on(host.ref)]
    listed = [v for v in live.running(view.facts(host.ref)) or () if names.count(v.vm_name) == 1]
    for gpu in gpus:
        for one in gpu["running"]:
            same = (v for v in listed if (v.pci, v.vm_name, v.profile) == (gpu["pci"], one["vm"], one["profile"]))
            found = next(same, None)
            if found is not None:
                listed.remove(found)
            one["gpu_instance"] = found.gi if found else None
            one["guest_driver"] = found.guest_driver if found else None
            one["licence"] = found.licence if found else None


def _verdict(view: View, hosts: Iterable[Target], wanted: frozenset[str], spare_hosts: int) -> Verdict:
    """Ask for the VMs' own hosts first, where they power on; then for every host of their clusters."""
    from vsphere_ai.capacity.document import Verdict
    from vsphere_ai.capacity.solve import Fit, solve
    from vsphere_ai.planning.capacity import question_of

    question = question_of(view, wanted, hosts)
    own = {d.name: view.estate.host_of(d.name) for d in question.demands}
    homes = {ref: host.name for ref, host in own.items() if host is not None}
    answer = solve(question.farm, question.of_hosts(homes).demands)
    at_home = isinstance(answer, Fit)
    if not at_home or spare_hosts:
        answer = solve(question.farm, question.demands, spare_hosts=spare_hosts)
    return Verdict(answer, at_home, question.targets, homes, spare_hosts)


# -- the text


def _text(hosts: list[dict[str, Any]], verdict: Verdict | None) -> Iterator[str]:
    without = [h["host"] for h in hosts if not h["gpus"]]
    for host in hosts:
        if host["gpus"]:
            vms = {r["vm"] for gpu in host["gpus"] for r in gpu["running"]}
            yield f"{host['host']}  {_counted(len(host['gpus']), 'GPU')}, {_counted(len(vms), 'VM')}"
            for gpu in host["gpus"]:
                yield from _gpu_lines(gpu)
            yield ""
    if without:
        yield from _wrapped("No GPU that gives vGPUs: ", without)
    if verdict is not None:
        yield from _verdict_lines(verdict)


def _gpu_lines(gpu: Mapping[str, Any]) -> Iterator[str]:
    mode = "MIG" if gpu["mode"] == "mig" else f"time-sliced, {gpu['sizes']} sizes"
    yield f"  {gpu['pci']}  {gpu['title'].partition(',')[0].partition(' (')[0]}  {mode}"
    if gpu["mode"] == "mig":
        yield from _slice_lines(gpu)
    if gpu["running"]:
        yield from _wrapped("    runs    ", [f"{r['vm']} ({_short(r['profile'])})" for r in gpu["running"]])
        yield from _guest_lines(gpu["running"])
    room = [f"{count} x {_short(name)}" for name, count in gpu["room"].items() if count]
    yield from _wrapped("    fits    ", room or ["nothing more"], " or ")
    for gain in gpu.get("defragment", ()):
        move = " and ".join(f"{i['profile']} at {i['start']}" for i in gain["move_for_one_more"])
        busy = sum(i["in_use"] for i in gain["move_for_one_more"])
        cost = f", {_counted(busy, 'VM')} off and on" if busy else ""
        yield from _wrapped("    move    ", [f"{move}: room for one more {gain['profile']}{cost}"])


def _guest_lines(running: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Group running vGPUs by what their guests report; nothing where nvidia-smi told nothing."""
    alike: dict[str, list[str]] = {}
    for one in running:
        known = [one[key] is not None for key in ("gpu_instance", "guest_driver", "licence")]
        if any(known):
            driver = f"driver {one['guest_driver']}" if one["guest_driver"] else "no driver loaded"
            licence = (one["licence"] or "licence not shown").partition(" (")[0].lower()
            where = f" (GPU instance {one['gpu_instance']})" if one["gpu_instance"] is not None else ""
            alike.setdefault(f"{driver}, {licence}", []).append(f"{one['vm']}{where}")
    for reported, vms in alike.items():
        yield from _wrapped(f"    guests  {reported}: ", vms)


def _slice_lines(gpu: Mapping[str, Any]) -> Iterator[str]:
    for line in gpu["picture"]:
        yield f"    {line}"
    free, stranded = len(gpu["free_slices"]), gpu["stranded_slices"]
    lost = f", {', '.join(map(str, stranded))} stranded: no profile can use it as things stand" if stranded else ""
    yield f"    slices  {free} of {gpu['slices']} free{lost}"
    if not gpu["placement_known"]:
        yield f"            {_ASSUMED}"


def _verdict_lines(verdict: Verdict) -> Iterator[str]:
    document = verdict.document()
    sure = "exact" if document["exact"] else "not certain"
    spare = f" after the loss of any {_counted(verdict.spare_hosts, 'host')}" if verdict.spare_hosts else ""
    if not verdict.fits and "explanation" not in document:
        yield f"DOES NOT FIT{spare} where the VMs are ({sure})"
        yield from _problem_lines(verdict, ROOM)
        return
    if "explanation" in document:
        yield f"DOES NOT FIT{spare} ({sure})" if document["decided"] else f"NOT DECIDED{spare}"
        yield from _wrapped("  ", [document["explanation"]])
        if document["left_over"]:
            yield from _wrapped("  left over: ", document["left_over"])
        room = [f"{count or 'no'} more {name}" for name, count in document["room"].items()]
        yield from _wrapped("  room now:  ", room)
        return
    yield f"{'FITS' if verdict.fits else 'DOES NOT FIT'}{spare} ({sure})"
    if not document["power_on_order"]:
        yield "  No VM has to power on."
    else:
        yield "  Power on in this order:"
    for place in document["power_on_order"]:
        yield from _place_lines(place)
    for warning in document["warnings"]:
        yield from _wrapped("  ! ", [warning])
    others = sorted({p.rule for p in verdict.problems})
    if others:
        yield from _wrapped("  ! ", [f"vsphere-ai plan refuses this playbook: {', '.join(others)}"])


def _problem_lines(verdict: Verdict, rules: tuple[str, ...]) -> Iterator[str]:
    for problem in verdict.problems:
        if problem.rule.startswith(rules):
            yield from _wrapped("  ! ", [f"{problem.target.name}: {problem.message}  [{problem.rule}]"])
            yield from _wrapped("    ", [problem.help])


def _place_lines(place: Mapping[str, Any]) -> Iterator[str]:
    moved = "" if place["host"] == place["registered_on"] else f" (now on {place['registered_on']})"
    yield f"  {place['vm']} on {place['host']}{moved}"
    for vgpu in place["vgpus"]:
        at = "" if vgpu["start"] is None else f" at slice {vgpu['start']}"
        yield f"      {vgpu['gpu']}  {vgpu['profile']}{at}"


def _short(profile: str) -> str:
    """Return what tells the profiles of one GPU apart: ``3-20c`` of ``grid_a100-3-20c``."""
    return profile.partition("-")[2] or profile


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _wrapped(head: str, words: Iterable[str], separator: str = ", ") -> list[str]:
    indent = " " * min(len(head), 12)
    text = separator.join(w.replace(" ", "\0") if len(w) < WIDTH // 2 else w for w in words)  # keep short ones whole
    lines = textwrap.wrap(text, WIDTH, initial_indent=head, subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]
