"""Latency sensitivity "high": all CPU and all memory reserved, and a core for each virtual CPU alone.

vSphere Resource Management 8.0: a virtual CPU needs the clock of a core; with two simultaneous threads two of them
share one. The faults are those of the monitor; that a host keeps one core for itself is from knowledge, unverified.
"""

from __future__ import annotations

from typing import Any

from vsphere_ai.lab.admission import RUNS, CheckTests, Faults, LabCase, Occasion, requirement
from vsphere_ai.lab.managed.refusals import power_on_failed
from vsphere_ai.lab.managed.running_vms import powered_on

KEPT_CORES = 1


@requirement(56, RUNS | {Occasion.START}, CheckTests.HOST)
def latency(case: LabCase) -> Faults:
    """Yield a fault where a latency-sensitive VM reserves too little, or finds too few cores."""
    config, board = case.config, case.farm.host(case.host).mainboard
    if not _is_high(config):
        return
    least = _cores(config) * board.mhz
    if int(config.cpuAllocation.reservation or 0) < least:
        yield power_on_failed(
            f"Invalid CPU reservation for the latency-sensitive VM, (sched.cpu.min) should be at least {least} MHz."
        )
    if int(config.memoryAllocation.reservation or 0) < config.hardware.memoryMB:
        yield power_on_failed(
            "Invalid memory setting: memory reservation (sched.mem.min) should be equal to memsize "
            f"({config.hardware.memoryMB})."
        )
    others = (vm["config"] for vm in powered_on(case.farm, case.host) if vm is not case.vm)
    free = board.cores - KEPT_CORES - sum(_cores(other) for other in others if _is_high(other))
    if _cores(config) > free:
        yield power_on_failed(
            f"The latency-sensitive VM needs {_cores(config)} cores of its own, the host has {max(0, free)} left."
        )


def _is_high(config: Any) -> bool:
    return bool(config.latencySensitivity is not None and config.latencySensitivity.level == "high")


def _cores(config: Any) -> int:
    """Return the cores that the virtual CPUs need: one each, or one for a pair of simultaneous threads."""
    threads = config.hardware.simultaneousThreads or 1
    return -(-int(config.hardware.numCPU) // int(threads))
