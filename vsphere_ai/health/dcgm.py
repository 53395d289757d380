"""DCGM diagnostics: where they apply, what `dcgmi diag` says in its JSON of version 3 and 4 or as a table, as findings.

Sources: NVIDIA DCGM 4.6.0, nvvs/include/NvvsJsonStrings.h, dcgmlib/dcgm_errors.h (severities), and its user guide
(supported: bare metal, and VMs with whole passthrough GPUs). Tests that are skipped are no success: levels from 2 on
skip GPUs that are not in DCGM's list (https://github.com/NVIDIA/DCGM/issues/55). Exit codes are an own reading of
dcgmi/main_dcgmi.cpp, unverified.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from vsphere_ai.health.answers import PROCESSES, SMI, GuestFacts
from vsphere_ai.health.finding import VmFinding, VmJudge
from vsphere_ai.health.kernel.xids import WORDS
from vsphere_ai.health.preflight import MEMORY_IN_USE
from vsphere_ai.model.bounded import json_value
from vsphere_ai.model.finding import Verdict
from vsphere_ai.model.guest_probes import CommandAnswer, GuestCommand
from vsphere_ai.model.nodes import Node

TIMEOUTS: Mapping[int, float] = {1: 180, 2: 1200, 3: 3600, 4: 4 * 3600}
"""Seconds that a level may take: measured are 0.5, 2.5 to 10.5, 15 and 45 to 135 minutes."""
MINUTES: Mapping[int, str] = {1: "half a minute", 2: "2 to 10 minutes", 3: "15 minutes or more", 4: "1 to 2 hours"}
EXCLUSIVE = 2
"""The level from which GPUs are put under load, so that they have to be free."""
LONG = 3
DEPLOYMENT = ("deployment", "software")
ISOLATE_CODE = 205
SEVERITIES: Mapping[int, tuple[Verdict, str]] = {
    0: ("warn", "look at the message"),
    1: ("warn", "watch it"),
    2: ("fail", WORDS["isolate"]),
    3: ("fail", "look at the message: DCGM does not know how severe it is"),
    4: ("fail", "find the cause, with NVIDIA's support where needed"),
    5: ("fail", "correct the configuration of the guest"),
    6: ("fail", WORDS["reset_gpu"]),
}
"""DCGM's severity of an error -> verdict and what to do (none, monitor, isolate, unknown, triage, config, reset)."""
_STATUS = {"pass": "pass", "skip": "skip", "fail": "fail", "warn": "warn", "not run": "skip", "notrun": "skip"}
_HEADING = re.compile(r"\|-+\s+(?P<name>.+?)\s+-+\+")
_ROW = re.compile(r"\|\s*(?P<name>[^|]*?)\s*\|\s*(?P<result>[^|]*?)\s*\|")


def command(level: int) -> GuestCommand:
    """Return the command of a level, 1 to 4."""
    return GuestCommand("dcgm", ("dcgmi", "diag", "-r", str(level), "-j"), TIMEOUTS[level])


@dataclass(frozen=True)
class DcgmResult:
    """What a test found of one GPU (`gpu`: index of DCGM, None: of all or none).

    `status` is `pass`, `skip`, `warn` or `fail`; `severity` DCGM's, None where it gives none.
    """

    test: str
    status: str
    gpu: int | None = None
    text: str = ""
    severity: int | None = None
    category: str = ""

    @property
    def is_deployment(self) -> bool:
        """Whether it is one of level 1, which looks at software and settings only."""
        return self.category.lower() in DEPLOYMENT or self.test.lower() in DEPLOYMENT


def results_in(out: str) -> tuple[DcgmResult, ...]:
    """Return the results of an output, JSON or a table; `ValueError` where it is neither."""
    start = out.find("{")
    if start >= 0:
        try:
            return tuple(_of_json(json_value(out[start : out.rfind("}") + 1])))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass
    found = tuple(_of_table(out))
    if not found:
        raise ValueError("this is no answer of dcgmi diag")
    return found


def _of_json(document: Mapping[str, object]) -> Iterator[DcgmResult]:
    body = next((document[k] for k in ("DCGM Diagnostic", "DCGM GPU Diagnostic") if k in document), document)
    if not isinstance(body, dict):
        raise TypeError
    if body.get("runtime_error"):
        yield DcgmResult("dcgmi", "fail", text=str(body["runtime_error"]))
    for category in body.get("test_categories", ()):
        for test in category["tests"]:
            for result in test.get("results", ()):
                yield from _of_result(str(test["name"]), str(category["category"]), result)


def _of_result(test: str, category: str, result: Mapping[str, object]) -> Iterator[DcgmResult]:
    status = _STATUS.get(str(result["status"]).lower(), "fail")
    group = str(result.get("entity_group", "GPU"))
    number = result.get("entity_id", result.get("gpu_id", result.get("gpu_ids"))) if group == "GPU" else None
    gpus: list[int | None] = [int(n) for n in re.findall(r"\d+", str(number))] if number is not None else []
    said = result.get("warnings") or ()
    warnings = said if isinstance(said, list) else [said]
    texts = [str(w.get("warning", "")) if isinstance(w, dict) else str(w) for w in warnings]
    ranks = [int(w["error_severity"]) for w in warnings if isinstance(w, dict) and "error_severity" in w]
    severity = max(ranks, key=lambda rank: rank in (2, 6), default=None)
    for gpu in gpus or [None]:
        yield DcgmResult(test, status, gpu, "; ".join(texts), severity, category)


def _of_table(out: str) -> Iterator[DcgmResult]:
    found: list[DcgmResult] = []
    category = ""
    for line in out.splitlines():
        heading, row = _HEADING.match(line), _ROW.match(line)
        if heading:
            category = heading["name"]
        elif row and found and row["name"] in ("Warning", ""):
            found[-1] = replace(found[-1], text=f"{found[-1].text} {row['result']}".strip())
        elif row and (status := _STATUS.get(row["result"].partition(" - ")[0].lower())):
            gpus = re.findall(r"\d+", row["result"]) if "GPU" in row["result"] else []
            found += [DcgmResult(row["name"], status, gpu, category=category) for gpu in map(int, gpus)]
            found += [] if gpus else [DcgmResult(row["name"], status, category=category)]
    yield from found


def not_applicable(node: Node, guest: GuestFacts, *, passthrough: bool) -> str:
    """Return why DCGM diagnostics do not apply to a VM, "" where they do."""
    if not node.gpus or not guest.gpus:
        return "the VM has no GPU" if not node.gpus else "the guest shows no GPU"
    if not passthrough:
        return "vGPU; DCGM is for whole GPUs in passthrough mode"
    if any(gpu.mig for gpu in guest.gpus):
        return "MIG; DCGM's diagnostics need whole GPUs"
    return ""


def in_use(guest: GuestFacts) -> str:
    """Return by what GPUs of a guest are in use, "" where they are free; not being able to say is no proof."""
    for asked in (SMI, PROCESSES):
        if asked.name in guest.failures:
            return f"it cannot be seen whether they are free: {guest.failures[asked.name]}"
    if guest.processes:
        return f"process {', '.join(str(pid) for pid in sorted({pid for pid, _ in guest.processes})[:5])}"
    full = next((gpu for gpu in guest.gpus if gpu.memory_used is not None and gpu.memory_used >= MEMORY_IN_USE), None)
    return f"{full.memory_used} MiB of GPU {full.index}" if full else ""


def dcgm_findings(node: Node, guest: GuestFacts, answer: CommandAnswer, level: int) -> Iterator[VmFinding]:
    """Yield what a run of a level says against a VM; a test that was skipped or is missing was not passed."""

    def found(verdict: Verdict, message: str, remedy: str, gpu: int | None = None) -> VmFinding:
        known = next((g for g in node.gpus if g.index == gpu), None)
        part = f"GPU {known.host_pci}" if known and known.host_pci else f"GPU {gpu}" if gpu is not None else ""
        return VmJudge(node, part)("dcgm", verdict, message, remedy)

    if answer.failure:
        late = "did not end in time" in answer.failure
        yield found("fail" if late else "unknown", answer.failure, "look at the guest: its driver may hang")
        return
    if answer.code == 127:
        yield found("unknown", "dcgmi is not installed", "install datacenter-gpu-manager in the guest")
        return
    try:
        results = results_in(answer.out)
    except ValueError:
        last = (answer.out.strip().splitlines() or ["no output"])[-1][:200]
        remedy = "look whether nv-hostengine runs: `systemctl status nvidia-dcgm`"
        yield found("unknown", f"dcgmi ended with {answer.code}: {last}", remedy)
        return
    bad = [r for r in results if r.status in ("fail", "warn")]
    for each in bad:
        verdict, remedy = SEVERITIES.get(3 if each.severity is None else each.severity, SEVERITIES[3])
        verdict = "warn" if each.status == "warn" else verdict
        yield found(verdict, f"test {each.test}: {each.text or each.status}", remedy, each.gpu)
    yield from (found(*words) for words in _not_run(results, guest, level))
    if answer.code and not bad:
        remedy = WORDS["isolate"] if answer.code == ISOLATE_CODE else "run `dcgmi diag` in the guest"
        message = f"dcgmi ended with {answer.code}, and names no failed test"
        yield found("fail" if answer.code == ISOLATE_CODE else "unknown", message, remedy)


def _not_run(results: Sequence[DcgmResult], guest: GuestFacts, level: int) -> Iterator[tuple[Verdict, str, str, int]]:
    """Yield the GPUs with tests that were skipped, or with none; skipped tests of software are for information."""
    for gpu in guest.gpus:
        own = [r for r in results if r.gpu in (gpu.index, None)]
        skipped = [r.test for r in own if r.status == "skip" and not r.is_deployment]
        ran = [r for r in own if r.status != "skip" and (level == 1 or not r.is_deployment)]
        if skipped:
            message = f"skipped: {', '.join(dict.fromkeys(skipped))}; what was skipped has not passed"
            yield "unknown", message, "update DCGM: it skips GPUs and tests that it does not list", gpu.index
        elif not ran:
            yield "unknown", f"no test of level {level} was made", "update DCGM, or choose level 1", gpu.index
