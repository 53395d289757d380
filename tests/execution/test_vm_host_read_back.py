"""Host of a new VM after its power-on: read back, and said where it is not that of the plan."""

from __future__ import annotations

import pytest
from support.acting import Server, Shells, lifecycle

from vsphere_ai.execution.actions.context import Context
from vsphere_ai.execution.actions.executor import StepExecutor
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.vm_sets import instance_uuid, planned_ref

NEW = Target("vm", "train-01", planned_ref(instance_uuid("vcenter", "train", 1, 1)))
HOSTS = {"HostSystem:host-1": {"name": "esx01"}, "HostSystem:host-2": {"name": "esx02"}}


class Estate(Server):
    """The VM is on host-1 until it is powered on, then on another one."""

    def __init__(self, then):
        super().__init__()
        self.then = then

    def read_objects(self, refs, paths):
        on = bool(self.calls)
        at = self.then if on else "HostSystem:host-1"
        vm = {"runtime.host": at, "runtime.powerState": "poweredOn" if on else "poweredOff"}
        return {ref: Facts(ref, HOSTS.get(ref, vm)) for ref in refs}


@pytest.mark.parametrize(("then", "said"), [("HostSystem:host-1", []), ("HostSystem:host-2", ["esx02", "esx01"])])
def test_a_vm_that_drs_moved_is_named_with_both_hosts(then, said):
    server, notices = Estate(then), []
    context = Context(server, Shells(), lambda *_: (), {}, {NEW.ref: "HostSystem:host-1"}, notice=notices.append)
    StepExecutor(context).do(lifecycle("power-on", NEW), lambda _line: None)
    assert [call[1] for call in server.calls] == ["PowerOnVM_Task"]
    assert len(notices) == bool(said)
    assert all(name in notices[0] for name in said)
