"""Pairs of VMs on different switches, of which the hardware version is known, or is not."""

from __future__ import annotations

import pytest

from vsphere_ai.fabric.pairs import pairs
from vsphere_ai.fabric.trace import Trace
from vsphere_ai.model.state import Target


def trace(name, switch, version):
    vm = Target(kind="vm", name=name, ref=f"VirtualMachine:{name}")
    return Trace(vm, f"esx-{name}", "adapter", "rdma", (), str(switch), "rocev2", 4096, version)


@pytest.mark.parametrize(
    ("first", "second", "use"),
    [(18, 18, "roce"), (17, 18, "none"), (None, 17, "none"), (None, 18, "unknown"), (None, None, "unknown")],
)
def test_a_version_that_is_not_known_is_no_old_one(first, second, use):
    (pair,) = pairs((trace("a", "one", first), trace("b", "two", second)))
    assert pair.use == use


def test_on_one_switch_the_version_does_not_matter():
    (pair,) = pairs((trace("a", "one", None), trace("b", "one", None)))
    assert pair.use == "roce"
