"""Pictures of GPUs: the MIG instances of each GPU before and after, hosts that are alike in one picture."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from vsphere_ai.model.names.name_ranges import listed
from vsphere_ai.model.state import Target
from vsphere_ai.report.folding import names
from vsphere_ai.report.layout import grouped
from vsphere_ai.report.pages.pictures.geometry import SLICES
from vsphere_ai.report.pages.tables import Entry, few, target, text
from vsphere_ai.report.pages.values import GpuPicture, GpuRow

MOST = 300
"""GPUs that are drawn; the table of changes has all of them."""
_INSTANCE = re.compile(r"([1-7])g\.[0-9]+gb[^:]*(?::([0-7]))?")


def gpu_pictures(items: Sequence[Entry]) -> tuple[GpuPicture, ...]:
    """Return the GPUs whose MIG mode or layout a plan changes, as pictures of hosts that are alike."""
    hosts: list[tuple[tuple[GpuRow, ...], Target]] = []
    for item in items:
        host, rows = target(item["target"]), _rows(item) if item["kind"] == "mig" else ()
        if rows and host:
            hosts.append((rows, host))
    found, left = [], MOST
    for rows, targets in grouped(hosts).items():
        if len(rows) <= left:
            found.append(GpuPicture(few(names(targets), len(targets), "host"), rows))
            left -= len(rows)
    return tuple(found)


def gpus_now(hosts: Sequence[Entry]) -> tuple[GpuPicture, ...]:
    """Return the GPUs of `capacity` that are divided by MIG, as pictures of hosts that are alike."""
    divided = ((_now(host["gpus"]), host["host"]) for host in hosts)
    found, left = [], MOST
    for rows, own in grouped((rows, name) for rows, name in divided if rows).items():
        if len(rows) <= left:
            found.append(GpuPicture(few(listed(own), len(own), "host"), rows, now=True))
            left -= len(rows)
    return tuple(found)


def _now(gpus: Sequence[Entry]) -> tuple[GpuRow, ...]:
    alike = grouped((_instances(gpu["instances"]), gpu["pci"]) for gpu in gpus if gpu.get("slices"))
    return tuple(GpuRow(_called(own), _said(idle), _said(used), (idle, used)) for (idle, used), own in alike.items())


def _instances(found: Sequence[Entry]) -> tuple[tuple[tuple[int, int, str], ...], tuple[tuple[int, int, str], ...]]:
    """Return instances that no VM has, and those in use."""
    names = {used: [f"{i['profile']}:{i['start']}" for i in found if i["in_use"] is used] for used in (False, True)}
    return _slices(names[False]), _slices(names[True])


def _said(found: Sequence[tuple[int, int, str]]) -> str:
    return ", ".join(f"{name}:{first}" for first, _, name in found)


def _called(gpus: Sequence[str]) -> str:
    return f"{len(gpus)} GPUs: {', '.join(gpus)}" if gpus[1:] else gpus[0]


def _rows(item: Entry) -> tuple[GpuRow, ...]:
    gpus: dict[str, dict[str, tuple[object, object]]] = {}
    for change in item.get("changes", ()):
        gpu, _, name = change["field"].partition(" ")
        if name in ("mode", "layout"):
            gpus.setdefault(gpu, {})[name] = (change.get("before"), change.get("after"))
    alike = grouped((_row("", fields), gpu) for gpu, fields in gpus.items())
    return tuple(replace(row, gpu=_called(own)) for row, own in alike.items())


def _row(gpu: str, fields: dict[str, tuple[object, object]]) -> GpuRow:
    said = []
    for which in (0, 1):
        mode, layout = (fields[n][which] if n in fields else None for n in ("mode", "layout"))
        words = [f"MIG {text(mode)}"] if mode is not None else []
        words += [text(layout) or "no instances"] if "layout" in fields else []
        said.append(", ".join(words))
    layouts = fields.get("layout", ((), ()))
    return GpuRow(gpu, said[0], said[1], (_slices(layouts[0]), _slices(layouts[1])))


def _slices(layout: object) -> tuple[tuple[int, int, str], ...]:
    """Return where instances begin, their compute slices and names; those without a place follow each other."""
    found, free = [], 0
    for name in layout if isinstance(layout, list | tuple) else ():
        match = _INSTANCE.match(str(name))
        if match:
            first = int(match[2]) if match[2] else free
            width = min(int(match[1]), SLICES - first)
            found.append((first, width, str(name).partition(":")[0]))
            free = min(first + width, SLICES - 1)
    return tuple(found)
