"""Use of the GPUs of VMs as a table and as JSON, and a profile of health as YAML."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from vsphere_ai.documents.health import GpuUseDocument, IdleDocument
from vsphere_ai.health.finding import VmUse
from vsphere_ai.health.profile import MEASURES, Learned
from vsphere_ai.model.text import counted, safe


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


def use_document(vcenter: str, rows: Sequence[VmUse]) -> IdleDocument:
    """Return the same as a document."""
    vms = (GpuUseDocument(vm=r.vm, host=r.host, gpus=r.gpus, state=r.state, since=r.since) for r in rows)
    return IdleDocument(vcenter=vcenter, vms=tuple(vms))


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
