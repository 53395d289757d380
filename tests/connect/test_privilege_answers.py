"""Answers about privileges: the decoder makes of them what pyVmomi does, or leaves them to it."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyVmomi import SoapAdapter, VmomiSupport

from vsphere_ai.connect import vcenter
from vsphere_ai.connect.tls import Endpoint
from vsphere_ai.connect.vcenter import VCenter
from vsphere_ai.connect.wire.privilege_answers import METHOD, held_of, privileges
from vsphere_ai.connect.wire.wire_types import Unfamiliar

U2 = "vim.version.v7_0_2_0"
ENVELOPE = (
    '<?xml version="1.0" encoding="{encoding}"?>\n<soapenv:Envelope '
    'xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsd="http://www.w3.org/2001/XMLSchema" '
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body><HasPrivilegeOnEntitiesResponse '
    'xmlns="urn:vim25">{inner}</HasPrivilegeOnEntitiesResponse></soapenv:Body></soapenv:Envelope>{behind}'
)
PRIVILEGES = ("VirtualMachine.Config.Settings", "Host.Config.Maintenance", "System.Read")
SHAPES = (
    "<privAvailability><privId>{}</privId><isGranted>{}</isGranted></privAvailability>",
    "<privAvailability><isGranted>{1}</isGranted><privId>{0}</privId></privAvailability>",
    "<privAvailability>\n<privId>{}</privId><isGranted>{}</isGranted></privAvailability>",
    "<privAvailability><privId><![CDATA[{}]]></privId><isGranted>{}</isGranted></privAvailability>",
    "<!-- {0} --><privAvailability><privId>{0}</privId><isGranted>{1}</isGranted></privAvailability>",
)
ENTITIES = (
    '<entity type="VirtualMachine">vm-{}</entity>',
    '<entity type="VirtualMachine" xsi:type="ManagedObjectReference">vm-{}</entity>',
    '<entity type="HostSystem">host-&#52;{}</entity>',
    '<entity type="Folder">group v{}</entity>',
)
WORDS = ("true", "false", "1", "0")
ONE = st.tuples(st.sampled_from(PRIVILEGES), st.sampled_from(WORDS[:2]), st.just(SHAPES[0]))
ANY = st.tuples(st.sampled_from(PRIVILEGES), st.sampled_from(WORDS), st.sampled_from(SHAPES))


def answer(*objects, encoding="UTF-8", behind=""):
    inner = "".join(f"<returnval>{''.join(each)}</returnval>" for each in objects)
    return ENVELOPE.format(encoding=encoding, inner=inner, behind=behind).encode()


def one(entity, *listed):
    return (entity, *(shape.format(name, word) for name, word, shape in listed))


def by_pyvmomi(body):
    stub = SimpleNamespace(version=U2, SupportServerGUIDs=lambda: False)
    parser = SoapAdapter.SoapResponseDeserializer(stub)
    found = parser.Deserialize(io.BytesIO(body), VmomiSupport.GetWsdlMethod("urn:vim25", METHOD).info.result)
    return tuple(map(held_of, found))


def judged(body):
    """Whether the decoder reads an answer; then pyVmomi reads the same."""
    try:
        found = privileges(body)
    except Unfamiliar:
        return False
    assert found == by_pyvmomi(body)
    return True


@given(st.lists(st.lists(ONE, max_size=4), min_size=1, max_size=5))
def test_the_usual_answer_is_read_as_pyvmomi_reads_it(objects):
    assert judged(answer(*(one(ENTITIES[0].format(n), *each) for n, each in enumerate(objects))))


@given(st.lists(st.tuples(st.sampled_from(ENTITIES), st.lists(ANY, max_size=3)), max_size=4))
def test_any_other_shape_is_read_alike_or_left_to_pyvmomi(objects):
    judged(answer(*(one(entity.format(n), *each) for n, (entity, each) in enumerate(objects))))


@given(st.data())
def test_a_damaged_answer_is_read_alike_or_left_to_pyvmomi(data):
    whole = answer(*(one(ENTITIES[0].format(n), (PRIVILEGES[0], "false", SHAPES[0])) for n in range(2)))
    at = data.draw(st.integers(0, len(whole)))
    cut = data.draw(st.integers(0, 3))
    body = whole[:at] + data.draw(st.sampled_from([b"", b"<", b"\xff", b"&#65;", b"<x/>"])) + whole[at + cut :]
    try:
        found = privileges(body)
    except Unfamiliar:
        return
    assert found == by_pyvmomi(body)


@pytest.mark.parametrize("more", [{"encoding": "latin-1"}, {"behind": "<!-- -->"}, {"behind": "<more/>"}], ids=str)
def test_what_is_around_the_answer_has_to_be_known(more):
    assert not judged(answer(one(ENTITIES[0].format(1), (PRIVILEGES[0], "false", SHAPES[0])), **more))


def test_what_the_lab_answers_is_read_without_pyvmomi(make_lab, monkeypatch):
    lab = make_lab(
        "name: small\nclusters: [{name: c}]\nhosts: [{name: esx1, cluster: c}]\n"
        "vms: [{name: 'a[1:3]', host: esx1}]\nprivileges_denied: [VirtualMachine.Config.Settings]\n"
    )
    password = (lab.directory / "password").read_text().strip()
    endpoint = Endpoint("127.0.0.1", lab.port, "administrator@vsphere.local", password, lab.directory / "ca.pem")
    with VCenter.connect(endpoint) as connected:
        monkeypatch.setattr(vcenter, "held_of", None)  # what pyVmomi has read would go there
        refs = sorted(connected.read({"VirtualMachine": ("name",)}))
        asked = ("VirtualMachine.Config.Settings", "VirtualMachine.Interact.PowerOn")
        assert connected.missing_privileges(refs, asked) == dict.fromkeys(refs, asked[:1])
