"""Capacity as text: what runs on each GPU, what still fits, and whether VMs find room."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from vsphere_ai.capacity.document import Verdict
from vsphere_ai.model.text import counted, safe
from vsphere_ai.report.layout import grouped

WIDTH = 80
ROOM = ("capacity.", "vgpu.")
_ASSUMED = "where running VMs stand could not be read, and is assumed"


def capacity_text(hosts: list[dict[str, Any]], verdict: Verdict | None) -> str:
    """Return what is on each GPU of hosts, and whether the VMs fit. Lines of at most 80 columns."""
    return "\n".join(safe(line) for line in _lines(hosts, verdict))


def _lines(hosts: list[dict[str, Any]], verdict: Verdict | None) -> Iterator[str]:
    without = [h["host"] for h in hosts if not h["gpus"]]
    for host in hosts:
        if host["gpus"]:
            vms = {r["vm"] for gpu in host["gpus"] for r in gpu["running"]}
            yield f"{host['host']}  {counted(len(host['gpus']), 'GPU')}, {counted(len(vms), 'VM')}"
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
        cost = f", {counted(busy, 'VM')} off and on" if busy else ""
        yield from _wrapped("    move    ", [f"{move}: room for one more {gain['profile']}{cost}"])


def _guest_lines(running: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Group running vGPUs by what their guests report; nothing where nvidia-smi reports nothing."""
    asked = [r for r in running if any(r[key] is not None for key in ("gpu_instance", "guest_driver", "licence"))]
    for reported, vms in grouped(map(_guest, asked)).items():
        yield from _wrapped(f"    guests  {reported}: ", vms)


def _guest(one: Mapping[str, Any]) -> tuple[str, str]:
    """Return what a guest reports of driver and licence, and its VM."""
    driver = f"driver {one['guest_driver']}" if one["guest_driver"] else "no driver loaded"
    licence = (one["licence"] or "licence not shown").partition(" (")[0].lower()
    where = f" (GPU instance {one['gpu_instance']})" if one["gpu_instance"] is not None else ""
    return f"{driver}, {licence}", f"{one['vm']}{where}"


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
    spare = f" after the loss of any {counted(verdict.spare_hosts, 'host')}" if verdict.spare_hosts else ""
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
    """Return what distinguishes the profiles of one GPU: ``3-20c`` of ``grid_a100-3-20c``."""
    return profile.partition("-")[2] or profile


def _wrapped(head: str, words: Iterable[str], separator: str = ", ") -> list[str]:
    indent = " " * min(len(head), 12)
    text = separator.join(w.replace(" ", "\0") if len(w) < WIDTH // 2 else w for w in words)  # keep short ones whole
    lines = textwrap.wrap(text, WIDTH, initial_indent=head, subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]
