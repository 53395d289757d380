"""Report of `capacity -o json`: GPUs with their instances, the VMs on them, what fits, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence

from vsphere_ai.model.names.name_ranges import listed
from vsphere_ai.model.text import counted
from vsphere_ai.report.layout import grouped
from vsphere_ai.report.pages.pictures.gpu_pictures import gpus_now
from vsphere_ai.report.pages.pictures.host_map import MapVm, map_section, profiles
from vsphere_ai.report.pages.tables import Entry, kept, text, vcenter_facts
from vsphere_ai.report.pages.values import JunitCase, Report, ReportFigure, ReportSection, Row, SarifResult, Status

_GPU = ("hosts", "GPU", "board", "mode", "running", "free slices", "unusable slices", "room")


def capacity_report(capacity: Entry) -> Report:
    """Return the report of GPUs and what fits on them, given as the JSON values that `capacity` prints."""
    hosts, verdict = capacity["hosts"], capacity.get("verdict")
    gpus = [gpu for host in hosts for gpu in host["gpus"]]
    free = sum(len(gpu.get("free_slices", ())) for gpu in gpus)
    stranded = sum(len(gpu.get("stranded_slices", ())) for gpu in gpus)
    running = sum(len(gpu["running"]) for gpu in gpus)
    sections = kept(
        *(_verdict(verdict) if verdict else ()),
        ReportSection("GPUs", _GPU, _gpus(hosts), "", gpus_now(hosts)),
        map_section({h["host"]: vms for h in hosts if (vms := _vms(h))}, "VMs that run on GPUs."),
        ReportSection(
            "Moves that make room", ("host", "GPU", "profile", "now", "after", "move"), _moves(hosts), folded=True
        ),
    )
    said = f"{counted(len(gpus), 'GPU')} of {counted(len(hosts), 'host')}, {counted(running, 'vGPU')} running"
    status: Status = "pass"
    if verdict:
        said = f"{'every VM fits' if verdict['fits'] else 'not every VM fits'}; {said}"
        status = "pass" if verdict["fits"] and not verdict["problems"] else "fail"
    numbers = (
        ReportFigure(str(len(gpus)), "GPUs"),
        ReportFigure(str(running), "vGPUs running"),
        ReportFigure(str(free), "memory slices free"),
        ReportFigure(str(stranded), "unusable slices", "warn" if stranded else ""),
    )
    problems = verdict["problems"] if verdict else ()
    cases = tuple(JunitCase("capacity", f"{p['rule']} [{p['target']['name']}]", "fail", p["message"]) for p in problems)
    results = tuple(
        SarifResult(p["rule"], "fail", f"{p['target']['name']}: {p['message']}", (p["target"]["name"],))
        for p in problems
    )
    return Report("Capacity of GPUs", said, status, vcenter_facts(capacity), sections, cases, results, numbers)


def _verdict(verdict: Entry) -> tuple[ReportSection, ...]:
    heads = ("target", "rule", "message", "remedy")
    problems = tuple((p["target"]["name"], p["rule"], p["message"], p["remedy"]) for p in verdict["problems"])
    said = [
        ("explanation", text(verdict.get("explanation"))),
        ("VMs that find no room", text(verdict.get("left_over"))),
    ]
    said += [("room left", text(verdict.get("room"))), ("warnings", text(verdict.get("warnings")))]
    said.append(("spare hosts", text(verdict["spare_hosts"])))
    order = tuple(
        (str(n), p["vm"], p["host"], p["registered_on"], ", ".join(f"{g['profile']} on {g['gpu']}" for g in p["vgpus"]))
        for n, p in enumerate(verdict.get("power_on_order", ()), 1)
    )
    places = ("order", "VM", "host", "registered on", "vGPUs")
    return (
        ReportSection("Problems", heads, problems, wrong=True),
        ReportSection("Verdict", ("what", "value"), tuple((k, v) for k, v in said if v and v != "0")),
        ReportSection("Order in which VMs power on", places, order, folded=True),
    )


def _gpus(hosts: Sequence[Entry]) -> tuple[Row, ...]:
    same = grouped((_gpu(gpu), (host["host"], gpu["pci"])) for host in hosts for gpu in host["gpus"])
    return tuple(
        (listed(dict.fromkeys(h for h, _ in own)), text(list(dict.fromkeys(p for _, p in own))), *row)
        for row, own in same.items()
    )


def _gpu(gpu: Entry) -> Row:
    running = profiles(each["profile"] for each in gpu["running"])
    slices = (text(gpu.get(key)) for key in ("free_slices", "stranded_slices"))
    room = ", ".join(f"{n} × {name}" for name, n in gpu["room"].items() if n)
    return gpu["title"], gpu["mode"], running, *slices, room


def _vms(host: Entry) -> list[MapVm]:
    own = grouped((each["vm"], each["profile"]) for gpu in host["gpus"] for each in gpu["running"])
    return [MapVm(name, profiles(found), profiles(found)) for name, found in own.items()]


def _moves(hosts: Sequence[Entry]) -> tuple[Row, ...]:
    return tuple(
        (host["host"], gpu["pci"], m["profile"], str(m["now"]), str(m["after"]), text(m["move_for_one_more"]))
        for host in hosts
        for gpu in host["gpus"]
        for m in gpu.get("defragment", ())
    )
