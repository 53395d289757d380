"""The wire format against recorded traffic of a real vCenter (origin: fixtures_soap/README.md)."""

import json
import xml.etree.ElementTree as ElementTree
from io import BytesIO
from pathlib import Path

import pytest
from pyVmomi import SoapAdapter

from vsphere_ai.lab import wire

RECORDED = [
    json.loads(line)
    for line in (Path(__file__).parent / "fixtures_soap" / "recorded.jsonl").read_text(encoding="utf-8").splitlines()
]
VERSION = "vim.version.v8_0_2_0"
TYPE = "{http://www.w3.org/2001/XMLSchema-instance}type"


def tree(element):
    """An element as comparable values, with the types it and its parts say they are of."""
    return (
        element.tag,
        (element.text or "").strip(),
        element.attrib.get(TYPE, "").rpartition(":")[2],
        sorted((k, v) for k, v in element.attrib.items() if k != TYPE),
        [tree(child) for child in element],
    )


def test_there_is_enough_of_it():
    assert len(RECORDED) > 100


@pytest.mark.parametrize("pair", RECORDED, ids=lambda p: p["request"].partition("<soapenv:Body>")[2][1:40])
def test_requests_are_read_and_answers_written_as_recorded(pair):
    request = wire.RequestParser().parse(pair["request"].encode())
    kind = request.info.result
    answer = SoapAdapter.SoapResponseDeserializer(None).Deserialize(BytesIO(pair["response"].encode()), kind)
    written = wire.response(request, answer, kind, VERSION)
    assert tree(ElementTree.fromstring(written)) == tree(ElementTree.fromstring(pair["response"]))


@pytest.mark.parametrize("cut", [30, 200, 400])
def test_a_request_cut_short_is_refused(cut):
    with pytest.raises(wire.MalformedCall):
        wire.RequestParser().parse(RECORDED[0]["request"].encode()[:cut])
