"""Reads that are kept while VMware's own simulator reports no change: they are what another session reads."""

from __future__ import annotations

import pytest

from vsphere_ai.connect.vcenter import VCenter

pytestmark = pytest.mark.vcsim
LIST = {"VirtualMachine": ("name", "runtime.powerState"), "HostSystem": ("name",), "Folder": ("name", "parent")}
CLOSELY = {"VirtualMachine": ("config.extraConfig", "config.hardware.memoryMB")}


@pytest.fixture
def other(vcsim, limits):
    """Another session, which changes things."""
    with VCenter.connect(vcsim.endpoint(), limits=limits) as connected:
        yield connected


def read(vcenter):
    listed = vcenter.read(LIST)
    return listed, vcenter.read_objects([ref for ref in listed if ref.startswith("VirtualMachine:")], CLOSELY)


def test_what_another_session_changes_is_read_again(vcsim, limits, other):
    with VCenter.connect(vcsim.endpoint(), limits=limits) as vcenter:
        live = vcenter.live()
        first = read(vcenter)
        assert first == read(other)
        assert live.refresh() == frozenset()
        assert all(one is kept for one, kept in zip(read(vcenter)[1].values(), first[1].values(), strict=True))
        vm, gone, *_ = sorted(first[1])
        other.run_task(vm, "ReconfigVM_Task", {"spec": {"memoryMB": 64}}, timeout=20)
        assert vm in live.refresh()
        second = read(vcenter)
        assert second == read(other)
        assert second[1][vm].get("config.hardware.memoryMB") == 64
        other.run_task(gone, "PowerOffVM_Task", timeout=20)
        other.run_task(gone, "Destroy_Task", timeout=20)
        changed = live.refresh()
        assert changed is None or gone in changed, "this simulator ends the collector where an object is destroyed"
        third = read(vcenter)
        assert third == read(other)
        assert gone not in third[0]


def test_nothing_is_known_after_a_session_has_ended(vcsim, limits, other):
    with VCenter.connect(vcsim.endpoint(), limits=limits) as vcenter:
        live = vcenter.live()
        assert read(vcenter) == read(other)
        manager = vcenter.service("sessionManager")
        own = vcenter.read_objects([manager], {"SessionManager": ("currentSession",)})[manager].get("currentSession")
        other.call(other.service("sessionManager"), "TerminateSession", {"sessionId": (own["key"],)})
        assert live.refresh() is None
        assert read(vcenter) == read(other)
        assert live.refresh() == frozenset()
