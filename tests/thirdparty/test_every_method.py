"""Every method of every object with arguments made up by their types: an answer or a fault, never a bug of the lab."""

from __future__ import annotations

import copy

import pytest
from pyVmomi import VmomiSupport, vim, vmodl
from thirdparty.test_lifecycle import BUGS, fill, neutral

WAITS_OR_ENDS = {"WaitForUpdates", "WaitForUpdatesEx", "Logout", "TerminateSession"}
LAST = ("Destroy", "Unregister", "Reboot", "EnterMaintenance", "PowerOff", "Remove", "Mark")


@pytest.fixture(autouse=True)
def faults_are_copied_as_in_any_client(monkeypatch):
    """Undo what `distributed`, once another test has imported it, does to this process.

    It registers a way to copy each exception (`tblib.pickling_support.install`), which faults of pyVmomi do not take;
    and pyVmomi copies those that are arguments.
    """
    others = {kind: way for kind, way in copy.dispatch_table.items() if not issubclass(kind, vmodl.MethodFault)}
    monkeypatch.setattr(copy, "dispatch_table", others)


def objects_of(soap):
    """One object of every type there is: the inventory, the managers, a view, a snapshot, a task."""
    content, found = soap.content, {}
    snapshot = soap.wait(soap.vm("train-04").CreateSnapshot_Task("s", "", False, False))
    view = content.viewManager.CreateContainerView(content.rootFolder, [], True)
    host, vm = soap.host("esx03"), soap.vm("train-04")
    managers = [*vars(content).values(), *vars(host.configManager).values()]
    known = [soap.instance, view, snapshot, vm.recentTask[-1], host, vm, *view.view, *managers]
    for mo in (mo for mo in known if isinstance(mo, VmomiSupport.ManagedObject)):
        found.setdefault(type(mo), mo)
    return found


def argument(typ, objects):
    """A value for a parameter: an object of the farm for a reference, else what its type makes up."""
    item = typ.Item if issubclass(typ, list) else typ
    if issubclass(item, VmomiSupport.ManagedObject):
        made = next((mo for kind, mo in objects.items() if issubclass(kind, item)), None)
    elif item is type:
        made = vim.VirtualMachine
    elif issubclass(item, VmomiSupport.DataObject):
        made = fill(item())
    else:
        made = neutral(item)
    return made if item is typ or made is None else [made]


def calls_of(soap, objects):
    for typ, mo in objects.items():
        for name in sorted(dir(typ)):
            method = getattr(typ, name, None)
            info = getattr(method, "info", None)
            if info is None or name != info.name or info.wsdlName in WAITS_OR_ENDS:
                continue
            if VmomiSupport.IsChildVersion(soap.stub.version, info.version):
                yield mo, info


def test_every_method_is_answered(make_lab, new_client, quick_scenario):
    soap = new_client(make_lab(quick_scenario.read_text(encoding="utf-8")))
    objects = objects_of(soap)
    assert len(objects) > 50
    calls = sorted(calls_of(soap, objects), key=lambda c: c[1].wsdlName.startswith(LAST))
    answered, bugs = 0, {}
    for mo, info in calls:
        arguments = {}
        for p in info.params:
            value = argument(p.type, objects)
            if value is not None and not (p.flags & VmomiSupport.F_OPTIONAL and "time" in p.name.lower()):
                arguments[p.name] = value
        try:
            result = getattr(mo, info.name)(**arguments)
            if isinstance(result, vim.Task):
                soap.wait(result, seconds=2.0)
            answered += 1
        except vmodl.MethodFault as fault:
            if type(fault) in BUGS:  # MethodNotFound is an InvalidRequest
                bugs[f"{type(mo).__name__}.{info.wsdlName}"] = fault.msg
        except (TypeError, AssertionError):
            continue  # an argument this pyVmomi cannot send; a task that waits for something
    assert bugs == {}
    assert answered > 40
    assert soap.instance.CurrentTime(), "the lab goes on"
