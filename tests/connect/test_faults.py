"""Faults of the vSphere API in words: what is not there is explained by the object that was looked at."""

from __future__ import annotations

import pytest

from vsphere_ai.connect.soap.faults import error_of

NOT_FOUND = {"_typeName": "ManagedObjectNotFound", "msg": "The object has already been deleted"}


@pytest.mark.parametrize(
    ("ref", "words"),
    [
        ("VirtualMachine:vm-7", ("VirtualMachine:vm-7", "removed")),
        ("DistributedVirtualPortgroup:dvportgroup-7", ("DistributedVirtualPortgroup:dvportgroup-7", "removed")),
        ("Task:task-7", ("this task", "took effect")),
        ("ContainerView:session[52]view-1", ("session", "Run the command again")),
        ("PropertyFilter:session[52]filter-1", ("session", "Run the command again")),
        ("HostGraphicsManager:ha-graphics-manager", ("HostGraphicsManager:ha-graphics-manager", "does not offer")),
        ("", ("does not say which object",)),
    ],
)
def test_what_is_not_there_is_explained_by_what_was_looked_at(ref, words):
    error = error_of({**NOT_FOUND, **({"obj": ref} if ref else {})}, "read the estate")
    assert all(word in error.remedy for word in words), error.remedy
    assert "planning" not in error.remedy, "a command that planned nothing may meet it"
    assert error.rule == "fault.ManagedObjectNotFound"
