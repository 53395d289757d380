"""A new manager of the lab's hosts: ``python -m tools.new_lab_manager NAME`` writes its files, which work at once.

NAME is that of a field of HostConfigManager, such as ``snmp_system``. What the manager shows, its methods and their
privileges are looked up in pyVmomi. Methods that are not written stay refused as not implemented.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from string import Template
from typing import Any, NamedTuple

from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vim

from tools.scaffolding import NotScaffolded, Scaffold, run
from vsphere_ai.lab import managed
from vsphere_ai.lab.managed import host_managers

MANAGER = '''"""$wsdl: $words of a host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

${vim_import}from vsphere_ai.lab.farm import Farm
$managed_import
from vsphere_ai.lab.store import $from_store


@host_manager("$field")
def start(_farm: Farm, _mo: ManagedObject) -> Mapping[str, Any]:
    """Nothing is set."""  <<< what a host shows from the start
    return {$shown}
$setter'''

SETTER = '''

@changes($type, "$wsdl_method", "$privilege")
def $function(call: Call, $argument: Any) -> None:
    """Set what is given; what is so already is no change."""  <<< what it refuses, by the API reference
    mo, _host = host_of_manager(call)
    present = call.mo["$property"]
    if differs($argument, present):
        lay_over(present, $argument)
        touch(call, mo, "$property")
        call.farm.record(mo, "$wsdl_method")
'''

TEST = '''"""$wsdl of the lab's hosts: what it shows, and what its methods do."""

from __future__ import annotations

import pytest
from pyVmomi import vim$vmodl

pytestmark = pytest.mark.lab


def test_every_host_has_its_own(soap):
    managers = [soap.host(name).configManager.$field for name in ("esx01", "esx02")]
    assert all(isinstance(manager, $type) for manager in managers)
    assert len({manager._moId for manager in managers}) == 2
$tests'''

TEST_OF_SHOWN = """

def test_what_it_shows_from_the_start(soap):
    manager = soap.host("esx01").configManager.$field  <<< the values that it begins with
    assert isinstance(manager.$property, $property_type)
"""

TEST_OF_SETTER = """

def test_what_is_set_is_shown_and_is_set_once(soap):
    host = soap.host("esx01")
    manager = host.configManager.$field
    for _ in range(2):
        manager.$method($property_type($scalar))  <<< a table of values, and those that are refused
    assert manager.$property.$scalar_name $scalar_is
    assert soap.calls() == [(host.name, "$wsdl_method")]
"""

TEST_OF_REFUSED = """

def test_what_is_not_written_is_refused(soap):
    with pytest.raises(vmodl.fault.MethodNotFound):
        soap.host("esx01").configManager.$field.$refused()
"""

OLDEST = "vim.version.v7_0_2_0"
"""The API of vSphere 7.0 U2."""
VALUES_OF_SCALARS = {bool: "True", int: "7", str: '"lab"'}
"""Types of plain values -> one of each, as Python writes it."""


class SetterMethod(NamedTuple):
    """A method whose one argument has the type of a property, and that property."""

    name: str
    method: Any
    property: str


def missing() -> list[str]:
    """Return the fields of HostConfigManager that hosts of the lab do not have."""
    managed.load()
    every = {p.name for p in vim.host.ConfigManager._GetPropertyList(False)}
    return sorted(every - host_managers.names())


def manager_type(name: str) -> tuple[str, Any]:
    """Return the field of HostConfigManager of a name, and the managed type of its object."""
    fields = {p.name.lower(): p for p in vim.host.ConfigManager._GetPropertyList(False)}
    found = fields.get(name.replace("_", ""))
    if found is None:
        raise NotScaffolded(
            f"HostConfigManager has no such field as {name}; not in the lab are: {', '.join(missing())}"
        )
    if found.name not in missing():
        raise NotScaffolded(f"hosts of the lab have the manager {found.name} already")
    return found.name, found.type


def data_properties(typ: Any) -> dict[str, Any]:
    """Return the properties that are data objects and that the oldest supported release has, by name."""
    own = {p.name: p.type for p in typ._GetPropertyList(False) if Vmomi.IsChildVersion(OLDEST, p.version)}
    return {name: kind for name, kind in own.items() if issubclass(kind, Vmomi.DataObject)}


def setter_of(typ: Any) -> SetterMethod | None:
    """Return the first method that sets a property as a whole."""
    for name, method in typ._methodInfo.items():
        for shown, kind in data_properties(typ).items():
            if [p.type for p in method.params] == [kind] and not method.isTask:
                return SetterMethod(name, method, shown)
    return None


def values(name: str) -> Mapping[str, str]:
    """Return what the templates need of a field of HostConfigManager."""
    field, typ = manager_type(name)
    shown, setter = data_properties(typ), setter_of(typ)
    own = {"field": field, "type": typ.__name__, "wsdl": typ._wsdlName, "from_store": "ManagedObject"}
    own["managed_import"] = "from vsphere_ai.lab.managed.host_managers import host_manager"
    own["shown"] = "".join(f'\n        "{n}": {kind.__name__}(),' for n, kind in shown.items()) + "\n    " * bool(shown)
    own["vim_import"] = "from pyVmomi import vim\n\n" if shown else ""
    own["setter"], tests = "", []
    if shown:
        own["property"], own["property_type"] = next((n, kind.__name__) for n, kind in shown.items())
        tests.append(TEST_OF_SHOWN)
    if setter:
        own |= _of_setter(setter, shown[setter.property])
        own["setter"] = Template(SETTER).substitute(own)
        tests += [TEST_OF_SETTER] * bool(own["scalar"])
    refused = [n for n, m in typ._methodInfo.items() if not m.params and not m.isTask]
    if refused:
        own["refused"] = refused[0]
        tests.append(TEST_OF_REFUSED)
    own["vmodl"] = ", vmodl" if refused else ""
    return {**own, "tests": Template("".join(tests)).substitute(own)}


def _of_setter(setter: SetterMethod, kind: Any) -> dict[str, str]:
    (argument,) = setter.method.params
    scalars = [(p.name, VALUES_OF_SCALARS[p.type]) for p in kind._GetPropertyList(False) if p.type in VALUES_OF_SCALARS]
    name, value = scalars[0] if scalars else ("", "")
    managers = "host_manager, host_of_manager, touch"
    return {
        "method": setter.name,
        "wsdl_method": setter.method.wsdlName,
        "privilege": setter.method.privId or "",
        "function": re.sub(r"(?<=[a-z])(?=[A-Z])", "_", setter.name).lower(),
        "argument": argument.name,
        "property": setter.property,
        "property_type": kind.__name__,
        "scalar": f"{name}={value}" if name else "",
        "scalar_name": name,
        "scalar_is": f"is {value}" if value == "True" else f"== {value}",
        "from_store": "ManagedObject, differs, lay_over",
        "managed_import": "from vsphere_ai.lab.managed import Call, changes\n"
        f"from vsphere_ai.lab.managed.host_managers import {managers}",
    }


SCAFFOLD = Scaffold(
    program="new_lab_manager",
    what="a manager of the lab",
    example="snmp_system",
    files={
        "vsphere_ai/lab/managed/hosts/$name.py": MANAGER,
        "tests/lab/test_soap_$name.py": TEST,
    },
    then=(
        "fill in, and add the methods that are needed with `reads` and `changes`; their arguments and privileges are in"
        " $type._methodInfo of pyVmomi, and vsphere_ai/lab/managed/hosts/power_system.py is a short one to read",
        "docs/faults.md where a method can be made to fail; make record where a recorded session shows the manager",
    ),
    values=values,
)

if __name__ == "__main__":
    sys.exit(run(SCAFFOLD, sys.argv[1:]))
