"""`dcgmi diag` in a guest, in the JSON of DCGM 4 (nvvs/include/NvvsJsonStrings.h): whole GPUs only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise

from vsphere_ai.lab.guest.machine import GuestGpu, GuestMachine
from vsphere_ai.lab.shell.result import ShellResult

TESTS = ("software", "memory", "pcie", "diagnostic", "nvbandwidth", "targeted_power", "memtest", "pulse_test")
"""Tests in the order of the levels that begin to make them."""
LEVELS = {"1": 1, "2": 3, "3": 6, "4": 8}
NO_GPUS = "Error: No supported GPUs were found for the diagnostic.\n"


def main(machine: GuestMachine, argv: Sequence[str]) -> ShellResult:
    """Answer `dcgmi diag -r LEVEL -j`."""
    planted = machine.defects.of("dcgm", vm=machine.name, host=machine.host.name, gpu="*")
    if not machine.driver or any(each.text("result") == "missing" for each in planted):
        return ShellResult(127, "", "bash: dcgmi: command not found\n")
    options = dict(pairwise(argv))
    if argv[:1] != ["diag"] or options.get("-r") not in LEVELS:
        return ShellResult(1, "", "PARSE ERROR: usage: dcgmi diag -r LEVEL\n")
    whole = [gpu for gpu in machine.gpus if not gpu.is_vgpu]
    if not whole:
        return ShellResult(226, "", NO_GPUS)
    tests = [_test(machine, whole, name) for name in TESTS[: LEVELS[options["-r"]]]]
    failed = [r for test in tests for r in test["results"] if r["status"] == "Fail"]  # type: ignore[attr-defined]
    first = {"category": "Deployment", "tests": tests[:1]}
    rest = [{"category": "Hardware", "tests": tests[1:]}] if tests[1:] else []
    body = {"test_categories": [first, *rest]}
    severe = any(w["error_severity"] == 2 for r in failed for w in r["warnings"])
    return ShellResult(205 if severe else 226 if failed else 0, json.dumps({"DCGM Diagnostic": body}, indent=2) + "\n")


def _test(machine: GuestMachine, gpus: Sequence[GuestGpu], name: str) -> dict[str, object]:
    results = [_result(machine, gpu, name) for gpu in gpus]
    statuses = [str(r["status"]) for r in results]
    summary = next((s for s in ("Fail", "Warn", "Pass") if s in statuses), "Skip")
    return {"name": name, "results": results, "test_summary": {"status": summary}}


def _result(machine: GuestMachine, gpu: GuestGpu, name: str) -> dict[str, object]:
    row: dict[str, object] = {"entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu.index, "status": "Pass"}
    for each in _planted(machine, gpu, name):
        status = each[0].capitalize()
        row["status"] = status
        if status in ("Fail", "Warn"):
            text = f"GPU {gpu.index}: the test {name} found an error"
            row["warnings"] = [{"error_category": 7, "error_id": 95, "error_severity": each[1], "warning": text}]
    return row


def _planted(machine: GuestMachine, gpu: GuestGpu, name: str) -> Iterator[tuple[str, int]]:
    for each in machine.defects.of("dcgm", **machine.at(gpu)):
        if each.text("test", "memory") == name:
            yield each.text("result", "fail"), round(each.number("severity", 2))
