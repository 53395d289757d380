"""Reader of the JSON report of nccl-tests (`-J FILE`, versions 2 and 3; NVIDIA/nccl-tests src/util.cu).

The writer prints booleans and the root as strings, ``"nan"`` as a string and ``inf`` bare, and leaves the document open
when the program dies: what is complete is read. The environment in it is not kept, since it may hold secrets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from vsphere_ai.benchmarks.nccl.nccl_run import NcclDevice, NcclMeasurement, NcclRow, NcclRun, RoundedNumber
from vsphere_ai.benchmarks.nccl.nccl_text import MAX_DEVICES, MAX_ROWS
from vsphere_ai.model.bounded import json_value

MAX_JSON = 64 * 1024 * 1024
"""Characters of a report that are read."""
_HALF = 5e-7
"""Half a unit of the last of six decimals, as the writer prints."""
_BARE = re.compile(r"(?<=:)\s*-?(?:inf|nan)\b")
_CLOSINGS = ("}", "}}", "]}", "}]}", "}}]}", "}]}}")


def parse_json(text: str) -> NcclRun | None:
    """Return the run of a report; None where the text is none."""
    start = text[:200].lstrip()
    if not start.startswith("{") or '"version"' not in start:
        return None
    document, is_complete = _loaded(text[:MAX_JSON])
    # the version is a number; another release may write a text
    is_report = document is not None and (isinstance(document.get("version"), int) or "results" in document)
    if document is None or not is_report:
        return None
    return _run(document, is_complete=is_complete and "end_time" in document)


def _loaded(text: str) -> tuple[Mapping[str, object] | None, bool]:
    """Return the document, and whether it is complete; one that was cut off ends with its last complete object."""
    plain = _BARE.sub(" null", text)
    try:
        return _object(json_value(plain)), True
    except ValueError:
        cut = plain.rfind("}")
    for closing in _CLOSINGS if cut > 0 else ():
        try:
            return _object(json_value(plain[:cut] + closing)), False
        except ValueError:
            continue
    return None, False


def _run(document: Mapping[str, object], *, is_complete: bool) -> NcclRun:
    args = [str(a) for a in _list(document.get("args"))[:1]]
    config = _object(document.get("config")) or {}
    run = NcclRun(program=args[0].rpartition("/")[2][:80] if args else "", concluded=is_complete)
    version = document.get("nccl_version")
    run.nccl_version = _dotted(int(str(version))) if re.fullmatch(r"\d{4,6}", str(version), re.ASCII) else ""
    names = {"nthreads": "nThread", "ngpus": "nGpus", "minimum_bytes": "minBytes", "maximum_bytes": "maxBytes"}
    names |= {"iterations": "iters", "warmup_iters": "warmup iters", "validation": "validation"}
    run.header = {names[k]: v for k, v in config.items() if k in names and isinstance(v, int)}
    devices = _list(config.get("devices")) or _list(document.get("devices"))
    run.devices = [d for e in devices[:MAX_DEVICES] if (d := _device(_object(e) or {}))]
    results = _list(document.get("results"))
    rows = [_row(_object(each) or {}) for each in results[:MAX_ROWS]]
    run.rows = [r for r in rows if r]
    run.unread, run.dropped = sum(map(_is_unread, results[:MAX_ROWS], rows)), max(0, len(results) - MAX_ROWS)
    halves = ((_object(e) or {}).get(half) for e in results[:1] for half in ("out_of_place", "in_place"))
    run.columns = ("cputime",) if any("cpu_time" in (_object(half) or {}) for half in halves) else ()
    bounds, average = (_object(document.get(k)) or {} for k in ("out_of_bounds", "average_bus_bandwidth"))
    count = bounds.get("count")
    run.out_of_bounds, run.bounds_ok = count if isinstance(count, int) else None, _truth(bounds.get("okay"))
    run.average, run.average_ok = _number(average.get("bandwidth")), _truth(average.get("okay"))
    run.failures = [str(e)[:200] for e in _list(document.get("errors"))[:20] if e]
    return run


def _device(entry: Mapping[str, object]) -> NcclDevice | None:
    rank, group, device = (entry.get(key) for key in ("rank", "group", "device"))
    if not isinstance(rank, int) or not isinstance(device, int) or rank < 0:
        return None
    host, pci, name = (str(entry.get(key) or "")[:200] for key in ("hostname", "device_hex", "device_info"))
    found = NcclDevice(rank, host, device, pci.strip("[]"), name)
    return replace(found, group=group) if isinstance(group, int) else found


def _row(entry: Mapping[str, object]) -> NcclRow | None:
    size, count = entry.get("size"), entry.get("count")
    if not isinstance(size, int) or not isinstance(count, int):
        return None
    out, inside = _measure(entry.get("out_of_place")), _measure(entry.get("in_place"))
    if not out and not inside:
        return None
    root = str(entry.get("root")).strip()
    number = int(root) if re.fullmatch(r"-?\d{1,9}", root) else None
    return NcclRow(size, count, str(entry.get("type"))[:20], str(entry.get("redop") or "")[:20], number, out, inside)


def _is_unread(value: object, row: NcclRow | None) -> bool:
    """Return whether a row cannot be read, or a half of it that is there, such as one with ``"nan"``."""
    entry = _object(value) or {}
    halves = [entry.get(half) for half in ("out_of_place", "in_place")]
    return row is None or len(row.measures) < sum(half is not None for half in halves)


def _measure(value: object) -> NcclMeasurement | None:
    found = _object(value) or {}
    clock = "cpu_time" if "cpu_time" in found else "time"
    time, algbw, busbw = (_number(found.get(key)) for key in (clock, "alg_bw", "bus_bw"))
    if time is None or algbw is None or busbw is None:
        return None
    wrong = _number(found.get("nwrong"))
    return NcclMeasurement(time, algbw, busbw, wrong.value if wrong else None)


def _number(value: object) -> RoundedNumber | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300
    return RoundedNumber(float(cast(float, value)), _HALF) if is_number else None


def _truth(value: object) -> bool | None:
    return {"true": True, "false": False}.get(str(value).lower())


def _dotted(version: int) -> str:
    """Return 23003 as 2.30.3, and 2708 as 2.7.8, as nccl.h makes the numbers."""
    width = 10000 if version >= 10000 else 1000
    return f"{version // width}.{version % width // 100}.{version % 100}"


def _object(value: object) -> Mapping[str, object] | None:
    return value if isinstance(value, dict) else None


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
