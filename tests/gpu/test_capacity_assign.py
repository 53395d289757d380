"""VMs with several vGPUs when there is not enough time to try every host."""

from __future__ import annotations

import pytest
from support.capacity_judges import pci

from vsphere_ai.gpu import capacity_assign
from vsphere_ai.gpu.capacity import Fit, GpuHosts, NoFit, VmDemand, solve
from vsphere_ai.gpu.capacity_gpu import GpuSlot
from vsphere_ai.gpu.catalog import board

TWO = frozenset({"esx1", "esx2"})


@pytest.mark.parametrize(("steps", "kind"), [(100_000, Fit), (1, NoFit)])
def test_a_search_that_is_cut_short_is_not_called_certain(monkeypatch, steps, kind):
    monkeypatch.setattr(capacity_assign, "SEARCH_STEPS", steps)
    slots = tuple(GpuSlot(h, pci(n), board("a100-40gb"), "mig") for h in ("esx1", "esx2") for n in range(2))
    pair = ("grid_a100-7-40c",) * 2
    answer = solve(GpuHosts(slots), [VmDemand(name, pair, TWO) for name in ("one", "two")])
    assert type(answer) is kind
    assert answer.exact == (kind is Fit)
