"""Crossover as text and JSON: what was measured before and after, and the VM or host that is slow, with its parts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from vsphere_ai.benchmarks.slow_part.crossover import ANSWERS, Answer, Crossover
from vsphere_ai.benchmarks.slow_part.trials import Trial
from vsphere_ai.model.nodes import Node
from vsphere_ai.model.text import escaped, safe

REMEDIES: Mapping[Answer, str] = {
    "vm": "compare its image, driver, NUMA nodes and RDMA settings with those of a fast VM: vsphere-ai health",
    "host": "look at these parts of the host: vsphere-ai health; replace what is worn before VMs run there again",
    "both": "look at the VM and at its host: vsphere-ai health",
    "neither": "measure again; if it is slow again, look at the connection of the VM, its host and the partner's host",
    "not-reproduced": "measure with another partner, or look for the slow part with vsphere-ai bench nccl --bisect",
    "not-measured": "look at what failed, then try again",
}
Measured = Mapping[Trial, float | None]


def verdict_text(test: Crossover, verdict: Answer, before: Measured, after: Measured) -> str:
    """Return the figures and the verdict for a terminal."""
    lines = [f"{'VMs':<40} {'before':>12} {'moved':>12}"]
    for trial in test.trials:
        figures = f"{_figure(before, trial):>12} {_figure(after, trial):>12}"
        lines.append(f"{safe(' + '.join(reversed(trial.vms))):<40} {figures}")
    lines += ["", f"{verdict}: {sentence(test, verdict)}"]
    lines += [f"  {line}" for line in (*_parts(test.suspect, verdict), REMEDIES[verdict])]
    return "\n".join(lines)


def sentence(test: Crossover, verdict: Answer) -> str:
    """Return the verdict as a sentence that names the VM and the host."""
    vm, host = safe(test.suspect.vm), safe(test.suspect.host)
    where = safe(test.healthy.host if test.healthy else test.to)
    said: Mapping[Answer, str] = {
        "vm": f"the slowdown follows {vm}: it is slow on {host} and on {where}",
        "host": f"the slowdown stays with {host}: {vm} is fast on {where}",
        "both": f"{vm} is slow on {where} as well, and {host} is slow for another VM",
        "neither": f"{vm} is fast on {where}, and {host} is fast for another VM",
        "not-reproduced": f"{vm} is not slow on {host}; nothing was moved",
    }
    return said.get(verdict, ANSWERS[verdict])


def _parts(node: Node, verdict: Answer) -> Iterator[str]:
    """Yield the parts of the host behind a VM, any of which may be why the host is slow."""
    if verdict not in ("host", "both"):
        return
    gpus = ", ".join(gpu.host_pci or f"GPU {gpu.index}" for gpu in node.gpus)
    rails = [r for r in node.rails if r.vmnic]
    uplinks = ", ".join(r.vmnic + (f" at {r.switch_port}" if r.switch_port else "") for r in rails)
    named = [f"GPU {gpus}" if gpus else "", f"uplink {uplinks}" if uplinks else ""]
    yield f"{safe(node.vm)} uses there: {safe('; '.join(filter(None, named)) or 'parts that are not known')}"


def _figure(found: Measured, trial: Trial) -> str:
    if trial not in found:
        return "-"
    value = found[trial]
    return f"{value:.2f} GB/s" if value is not None else "not measured"


def verdict_line(test: Crossover, verdict: Answer, before: Measured, after: Measured) -> str:
    """Return the figures and the verdict as a line of JSON; GB/s of bus bandwidth, null: not measured."""
    trials = [{"vms": t.vms, "runs": t.runs, "before": before.get(t), "moved": after.get(t)} for t in test.trials]
    suspect = test.suspect
    found = {
        "type": "verdict",
        "verdict": verdict,
        "message": sentence(test, verdict),
        "vm": suspect.vm,
        "host": suspect.host,
        "to": test.healthy.host if test.healthy else test.to,
        "swapped_with": test.healthy.vm if test.healthy else "",
        "gpus": [gpu.host_pci for gpu in suspect.gpus],
        "vmnics": [rail.vmnic for rail in suspect.rails if rail.vmnic],
        "trials": trials,
    }
    return escaped(json.dumps(found, ensure_ascii=False))
