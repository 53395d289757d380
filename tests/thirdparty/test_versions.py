"""Every API version a client may negotiate: all properties of all objects arrive, in that version's shape."""

from __future__ import annotations

import ssl

import pytest
from pyVmomi import SoapStubAdapter, VmomiSupport, vim, vmodl

PC = vmodl.query.PropertyCollector
OLDER = (
    "vim.version.version10",
    "vim.version.version13",
    "vim.version.version15",
    "vim.version.v7_0",
    "vim.version.v7_0_1_1",
)
NEWER = ("vim.version.v7_0_3_0", "vim.version.v8_0_0_0", "vim.version.v8_0_1_0", "vim.version.v8_0_2_0")
SERVED = "vim.version.v7_0_2_0"


def connect(lab, version):
    context = ssl.create_default_context(cafile=str(lab.directory / "ca.pem"))
    stub = SoapStubAdapter(host="127.0.0.1", port=lab.port, sslContext=context, version=version)
    content = vim.ServiceInstance("ServiceInstance", stub).RetrieveContent()
    password = (lab.directory / "password").read_text(encoding="utf-8").strip()
    content.sessionManager.Login("administrator@vsphere.local", password)
    return content, stub


def read_all(content):
    """All properties of all inventory objects: {object: {property: value}}."""
    view = content.viewManager.CreateContainerView(content.rootFolder, [], True)
    step = PC.TraversalSpec(type=vim.view.ContainerView, path="view", skip=False)
    spec = PC.FilterSpec(
        objectSet=[PC.ObjectSpec(obj=view, skip=True, selectSet=[step])],
        propSet=[PC.PropertySpec(type=vim.ManagedEntity, all=True)],
    )
    found = content.propertyCollector.RetrievePropertiesEx([spec], PC.RetrieveOptions()).objects
    assert not any(o.missingSet for o in found)
    return {o.obj._GetMoId(): {p.name: p.val for p in o.propSet} for o in found}


def unset(value, version, path=""):
    """Paths of required fields that a data object lacks in a version."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from unset(item, version, f"{path}[{index}]")
    elif isinstance(value, VmomiSupport.DataObject):
        for info in value._GetPropertyList():
            held = getattr(value, info.name)
            if held is not None:
                yield from unset(held, version, f"{path}.{info.name}")
            elif not info.flags & VmomiSupport.F_OPTIONAL and VmomiSupport.IsChildVersion(version, info.version):
                yield f"{path}.{info.name}"


def newer_fields(value, version):
    """Names of fields with a value that a version does not have; pyVmomi itself gives numbers it did not read 0."""
    if isinstance(value, list):
        for item in value:
            yield from newer_fields(item, version)
    elif isinstance(value, VmomiSupport.DataObject):
        for info in value._GetPropertyList():
            held = getattr(value, info.name)
            if held and not VmomiSupport.IsChildVersion(version, info.version):
                yield f"{type(value).__name__}.{info.name}"
            yield from newer_fields(held, version)


def stable(objects):
    """What does not change between two reads, as text."""
    changing = {"recentTask", "storage"}  # which says when it was read
    return {moid: {n: str(v) for n, v in props.items() if n not in changing} for moid, props in objects.items()}


@pytest.fixture(scope="module")
def served(session_lab):
    """What a client of the served version reads."""
    session_lab.post("/lab/reset")
    content, stub = connect(session_lab, SERVED)
    yield read_all(content)
    stub.DropConnections()


def test_the_served_version_is_complete(served):
    assert len(served) > 20
    gaps = [(moid, gap) for moid, props in served.items() for n, v in props.items() for gap in unset(v, SERVED, n)]
    assert gaps == []


@pytest.mark.parametrize("version", NEWER)
def test_a_newer_client_is_answered_at_the_served_level(session_lab, served, version):
    content, stub = connect(session_lab, version)
    assert content.about.apiVersion == "7.0.2.0"
    assert stable(read_all(content)) == stable(served)
    stub.DropConnections()


@pytest.mark.parametrize("version", OLDER)
def test_an_older_client_sees_what_its_version_has_and_no_more(session_lab, served, version):
    content, stub = connect(session_lab, version)
    seen = read_all(content)
    assert set(seen) == set(served)
    for moid, props in seen.items():
        assert set(props) <= set(served[moid])
        for name, value in props.items():
            assert list(newer_fields(value, version)) == [], (moid, name)
            assert list(unset(value, version)) == [], (moid, name)
    stub.DropConnections()


LATER = ("7.0.3.0", "8.0.0.1", "8.0.2.0", "8.0.3.0", "9.0.0.0", "9.1.0.0")


@pytest.mark.parametrize("api", [a for a in LATER if a in VmomiSupport.versionIdMap.values()])
def test_a_farm_of_a_later_release_is_complete_too(make_lab, quick_scenario, api):
    text = quick_scenario.read_text(encoding="utf-8").replace("api: 7.0.2.0", f"api: {api}")
    lab = make_lab(text)
    version = "vim.version.v" + api.replace(".", "_")
    content, stub = connect(lab, version)
    assert content.about.apiVersion == api
    seen = read_all(content)
    gaps = [(moid, gap) for moid, props in seen.items() for n, v in props.items() for gap in unset(v, version, n)]
    assert gaps == []
    stub.DropConnections()
