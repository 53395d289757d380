"""A conflict about a setting that may hold a secret names it, and shows neither the old value nor the new one."""

from __future__ import annotations

import pytest

from vsphere_ai.errors import Conflict
from vsphere_ai.execution.actions import conflicts
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Reconfigure

VM = Target("vm", "train-01", "VirtualMachine:vm-1")


def refused(key, before, after):
    """What the refusal says of a setting that somebody else has changed, or removed, or added."""
    planned, now = (
        Facts(VM.ref, {"config.extraConfig": [{"key": key, "value": value}] if value else []})
        for value in (before, after)
    )
    step = Reconfigure(target=VM, summary="", extra_config=((key, "wanted-value"),))
    with pytest.raises(Conflict) as caught:
        conflicts.refuse(VM.name, conflicts.differences(step, planned, now))
    return caught.value.message


@pytest.mark.parametrize("values", [("old-value", "new-value"), ("", "new-value"), ("old-value", "")])
@pytest.mark.parametrize("key", ["guestinfo.userdata", "GUESTINFO.vendordata", "RemoteDisplay.vnc.key", "app.api_key"])
def test_a_setting_that_may_hold_a_secret(key, values):
    message = refused(key, *values)
    assert f"{key} differs (not shown: it may hold secrets)" in message
    assert "value" not in message.replace("(not shown", "")


def test_a_long_value_is_packed_by_somebody():
    message = refused("some.blob", "x" * 300, "y" * 4)
    assert "some.blob differs (not shown" in message
    assert "xxx" not in message
    assert "yyy" not in message


def test_a_plain_setting_is_shown():
    assert "svga.present is FALSE, was TRUE" in refused("svga.present", "TRUE", "FALSE")
