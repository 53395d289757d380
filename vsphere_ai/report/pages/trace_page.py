"""Report of `rdma trace -o json`: the paths as a graph, every broken link with its fix, and the pairs of VMs."""

from __future__ import annotations

from collections.abc import Sequence

from vsphere_ai.model.names.name_ranges import listed
from vsphere_ai.model.text import counted
from vsphere_ai.report.layout import grouped
from vsphere_ai.report.pages.pictures.matrix import STATUS
from vsphere_ai.report.pages.pictures.path_graph import USES, path_graph
from vsphere_ai.report.pages.tables import Entry, kept, vcenter_facts
from vsphere_ai.report.pages.values import JunitCase, Report, ReportFigure, ReportSection, Row, SarifResult, Status

_LINK = ("VMs", "link", "state", "seen", "remedy", "fix", "rule")
_HEALTHY: tuple[Row, ...] = (("all", "", "pass", "every link is healthy", "", "", ""),)


def trace_report(trace: Entry) -> Report:
    """Return the report of RDMA paths, given as the JSON values that `rdma trace` prints."""
    traces, pairs = trace["traces"], trace["pairs"]
    drawn = path_graph(traces, pairs)
    bad = _links(traces, ("fail", "unknown", "warn", "info"))
    broken = sum(t["verdict"] == "fail" for t in traces)
    healthy = sum(t["healthy"] for t in traces)
    unknown = len(traces) - broken - healthy
    status: Status = "fail" if broken else "unknown" if unknown else "pass"
    sections = kept(
        ReportSection("Paths", _LINK, bad or _HEALTHY, "", (drawn,) if drawn else ()),
        ReportSection("Between VMs", ("use", "pairs", "why", "VMs", "because of"), _pairs(pairs)),
        ReportSection("Playbook of the fixes", (), (), code=trace["playbook"].rstrip()),
        ReportSection("Not changed", ("what",), tuple((text,) for text in trace.get("unchanged", ()))),
        ReportSection("Healthy links", _LINK, _links(traces, ("pass",)), folded=True),
    )
    counts: tuple[tuple[str, int, Status], ...] = (
        ("healthy", healthy, "pass"),
        ("broken", broken, "fail"),
        ("not known", unknown, "unknown"),
    )
    numbers = tuple(ReportFigure(str(n), words, s) for words, n, s in counts if n)
    verdict = f"{counted(len(traces), 'path')}: " + ", ".join(f"{n} {words}" for words, n, _ in counts if n)
    found = _checked(traces)
    return Report("RDMA paths", verdict, status, vcenter_facts(trace), sections, *found, numbers)


def _links(traces: Sequence[Entry], verdicts: Sequence[str]) -> tuple[Row, ...]:
    same = grouped((_link(h), t["vm"]) for t in traces for h in t["links"] if h["verdict"] in verdicts)
    return tuple((listed(vms), *row) for row, vms in same.items())


def _link(link: Entry) -> Row:
    fix = link.get("fix")
    said = f"in a play for {fix['target']}: {fix['line']}" if fix else ""
    return link["target"]["name"], link["verdict"], link["message"], link["remedy"], said, link["rule"]


def _pairs(pairs: Sequence[Entry]) -> tuple[Row, ...]:
    """Return what pairs use, those with the same causes in one row."""
    same = grouped(((p["use"], _why(p), tuple(dict.fromkeys(c["link"] for c in p["causes"]))), p) for p in pairs)
    rows = []
    for (use, why, links), own in same.items():
        vms = listed(dict.fromkeys(vm for p in own for vm in p["vms"]))
        owners = listed(dict.fromkeys(c["target"] for p in own for c in p["causes"]))
        rows.append((USES[use], str(len(own)), why, vms, f"{', '.join(links)}: {owners}" if links else ""))
    return tuple(rows)


def _why(pair: Entry) -> str:
    return "on the host of both" if pair["use"] == "memory-copy" else str(pair["why"])


def _checked(traces: Sequence[Entry]) -> tuple[tuple[JunitCase, ...], tuple[SarifResult, ...]]:
    cases, results = [], []
    for trace in traces:
        for link in trace["links"]:
            status, said = STATUS[link["verdict"]], "; ".join(filter(None, (link["message"], link["remedy"])))
            name = link["target"]["name"]
            cases.append(JunitCase(trace["vm"], name, status, said))
            if status != "pass":
                message = f"{trace['vm']}: {name}: {said}"
                results.append(SarifResult(link["rule"], status, message, (trace["vm"],)))
    return tuple(cases), tuple(results)
