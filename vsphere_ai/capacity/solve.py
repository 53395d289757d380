"""Capacity verdict: which VM goes to which GPUs and in which order, or why they do not fit. Pure.

A VM's vGPUs all come from one host. vGPUs that run stay where they are. A GPU is in MIG mode or time-sliced, never
both. Under MIG vSphere makes an instance at the driver's default start when a VM powers on, so what counts as
fitting is what some power-on order reaches, not what explicit starts would.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from vsphere_ai.capacity.place import fits_with_layouts, place
from vsphere_ai.capacity.spare_hosts import with_spare
from vsphere_ai.capacity.verdict import Answer, Fit, GpuHosts, NoFit, VmDemand

WITH_LAYOUTS = (
    "they would with explicit starts, which the driver does not choose by itself: state a MIG layout for these GPUs"
)


def solve(farm: GpuHosts, demands: Iterable[VmDemand], *, spare_hosts: int = 0) -> Answer:
    """Place all VMs that do not run yet; with `spare_hosts`, all still fit after the loss of any so many hosts.

    Exact for VMs that share up to 64 GPUs. VMs that run are only moved by a failure of their host.
    """
    wanted = tuple(demands)
    new = [d for d in wanted if d.running_on is None]
    answer = place(farm, new)
    if isinstance(answer, Fit):
        return with_spare(farm, wanted, answer, spare_hosts) if spare_hosts else answer
    if isinstance(answer, NoFit) and not answer.assumed and not answer.no_order and fits_with_layouts(farm, new):
        return replace(answer, explanation=f"{answer.explanation}; {WITH_LAYOUTS}")
    return answer
