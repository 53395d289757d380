"""Health of VMs in words, as JSON, and a profile as YAML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from vsphere_ai.health.checks import VmHealth
from vsphere_ai.health.finding import Finding, VmUse, worst
from vsphere_ai.health.profile import MEASURES, Learned
from vsphere_ai.health.registry import WORDS, step, who
from vsphere_ai.model.text import counted, safe


def health_text(vms: Sequence[VmHealth], estate: Sequence[Finding] = ()) -> str:
    """Return findings about the estate, and a line per VM with its verdict, and what was found, the worst first."""
    return "\n".join(_lines(vms, estate))


def _lines(vms: Sequence[VmHealth], estate: Sequence[Finding]) -> Iterator[str]:
    for each in estate:
        yield f"{WORDS[each.verdict].upper()}  {safe(each.message)}"
        yield f"  -> {safe(each.remedy)}"
    names = max([2, *(len(vm.node.vm) for vm in vms)])
    hosts = max([4, *(len(vm.node.host) for vm in vms)])
    yield f"{'VM':<{names}}  {'HOST':<{hosts}}  VERDICT"
    for vm in vms:
        yield f"{safe(vm.node.vm):<{names}}  {safe(vm.node.host):<{hosts}}  {WORDS[vm.verdict].upper()}"
        for each in vm.findings:
            if each.common:
                continue  # said of the estate
            yield f"  {WORDS[each.verdict]:<8}  {_sentence(each)}"
            if each.remedy:
                yield f"            -> {safe(each.remedy)}"
    bad = sum(vm.verdict not in ("ok", "info") for vm in vms)
    yield (f"{counted(len(vms), 'VM')}, {bad} with problems" if bad else f"{counted(len(vms), 'VM')}, all healthy")


def _sentence(finding: Finding) -> str:
    part = f", {safe(finding.part)}" if finding.part else ""
    side = " (seen by the host)" if finding.witness == "host" else ""
    trial = " (on trial: it does not count)" if finding.shadow else ""
    return f"{finding.check}{part}: {safe(finding.message)}{side}{trial}"


def health_document(vcenter: str, vms: Sequence[VmHealth], estate: Sequence[Finding] = ()) -> dict[str, object]:
    """Return the same as values for JSON."""
    rows = [
        {
            "vm": vm.node.vm,
            "host": vm.node.host,
            "verdict": WORDS[vm.verdict],
            "gpus": [
                {"index": g.index, "host_pci": g.host_pci, "uuid": g.uuid, "profile": g.profile} for g in vm.node.gpus
            ],
            "findings": [_row(f) for f in vm.findings],
        }
        for vm in vms
    ]
    verdict = worst((*estate, *(f for vm in vms for f in vm.findings)))
    return {"vcenter": vcenter, "verdict": WORDS[verdict], "estate": [_row(f) for f in estate], "vms": rows}


def _row(found: Finding) -> dict[str, object]:
    return {
        "check": found.check,
        "verdict": WORDS[found.verdict],
        "witness": found.witness,
        "part": found.part,
        "message": found.message,
        "remedy": found.remedy,
        "who": list(who(found)),
        "step": step(found),
        "shadow": found.shadow,
        "common": found.common,
    }


def use_text(rows: Sequence[VmUse], now: datetime) -> str:
    """Return a table of VMs that hold GPUs, with whether they use them."""
    cells = [("VM", "HOST", "GPU", "USE")]
    cells += [(r.vm, r.host, ", ".join(r.gpus), _use(r, now)) for r in rows]
    widths = [max(len(row[n]) for row in cells) for n in range(3)]
    lines = ["  ".join((*(safe(row[n]).ljust(widths[n]) for n in range(3)), row[3])) for row in cells]
    idle = sum(r.state == "idle" for r in rows)
    return "\n".join([*lines, f"{counted(len(rows), 'VM')} with GPUs, {idle} idle"])


def _use(row: VmUse, now: datetime) -> str:
    if row.since is None:
        return row.state
    minutes = int((now - row.since).total_seconds() / 60)
    return f"idle for {minutes // 60} h {minutes % 60} min or more" if minutes else "idle"


def use_document(vcenter: str, rows: Sequence[VmUse]) -> dict[str, object]:
    """Return the same as values for JSON."""
    found = [
        {"vm": r.vm, "host": r.host, "gpus": list(r.gpus), "state": r.state, "since": r.since and r.since.isoformat()}
        for r in rows
    ]
    return {"vcenter": vcenter, "vms": found}


def profile_text(found: Learned) -> str:
    """Return a profile as YAML, with what was learned only, and what its numbers can show."""
    import yaml

    said = found.profile.model_dump(exclude_defaults=True)
    head = [f"# learned from {', '.join(map(safe, found.vms))}"]
    head += [f"# left out: {safe(why)}" for why in found.left_out.values()]
    for name, number in found.profile.numbers.items():
        measure = MEASURES[name]
        share = abs(measure.limit(number) - number.typical) / number.typical if number.typical else 0.0
        head.append(f"# {name}: smallest visible difference {share:.1%} ({measure.limit(number):g} {measure.unit})")
    return "\n".join(head) + "\n" + (yaml.safe_dump(said, sort_keys=False, width=120) if said else "{}\n")
