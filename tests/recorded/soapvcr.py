"""vcrpy for pyVmomi: where connections are made, what a cassette keeps, and when two requests are the same."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import pyVim.connect
import pyVmomi.SoapAdapter
import vcr
import yaml
from recorded.scrub import Scrubber
from vcr.stubs import VCRConnection, VCRFakeSocket, VCRHTTPConnection, VCRHTTPSConnection

CASSETTES = Path(__file__).parent / "cassettes"
LARGEST = 300 << 10
"""Bytes of a cassette: what all resource types read of four hosts and six VMs."""
# These modules bind the connection classes by name, so that vcrpy's own patch of http.client does not reach them;
# vsphere_ai.connect.soap.versions asks http.client each time, and is reached.
PATCHES = tuple(
    (module, name, stub)
    for module in (pyVmomi.SoapAdapter, pyVim.connect)
    for name, stub in (("HTTPSConnection", VCRHTTPSConnection), ("HTTPConnection", VCRHTTPConnection))
)


class LongLines:
    """YAML as vcrpy writes it, without breaks in lines: an answer of a server has its own, and is read as it came."""

    @staticmethod
    def serialize(cassette: Mapping[str, object]) -> str:
        return yaml.dump(cassette, Dumper=yaml.CSafeDumper, width=1 << 20)

    @staticmethod
    def deserialize(text: str) -> object:
        return yaml.load(text, Loader=yaml.CSafeLoader)


_connect = VCRConnection.connect


def _connect_with_socket(self, *args, **kwargs) -> None:
    """Connect as vcrpy does, which waits for the first request; the limit of a socket can be set before that."""
    _connect(self, *args, **kwargs)
    if self.sock is None:
        self._sock = VCRFakeSocket()


VCRConnection.connect = _connect_with_socket

Tree = tuple[str, str, tuple[tuple[str, str], ...], tuple["Tree", ...]]


@lru_cache(maxsize=4096)
def call_of(body: bytes | str | None) -> Tree | None:
    """Return method and arguments of a SOAP request as a tree: no prefixes, no header, no order of attributes.

    One of the Automation API is its JSON.
    """
    if not body:
        return None
    if body[:1] in ("{", b"{"):
        return "JSON", json.dumps(json.loads(body), sort_keys=True), (), ()
    root = ET.fromstring(body)
    element = next(e for e in root if e.tag.endswith("}Body"))
    return _tree(element[0])


def _tree(element: ET.Element) -> Tree:
    attributes = ((k.rpartition("}")[2], v) for k, v in element.attrib.items() if k != "versionId")
    text = (element.text or "").strip()
    return element.tag.rpartition("}")[2], text, tuple(sorted(attributes)), tuple(_tree(below) for below in element)


def same_call(one, other) -> None:
    """Matcher of vcrpy: the same method on the same object with the same arguments."""
    first, second = call_of(one.body), call_of(other.body)
    assert first == second, f"another call: {_described(first)} / {_described(second)}"


def _described(call: Tree | None) -> str:
    return f"{call[0]} on {call[3][0][1] if call[3] else 'nothing'}" if call else "no call"


def cassette(name: str, mode: str = "none", *, folder: Path = CASSETTES, known: Mapping[str, str] | None = None):
    """Return a context manager that replays (``none``) or records (``all``) ``NAME.yaml`` in a folder."""
    scrubber = Scrubber(known)
    recorder = vcr.VCR(
        cassette_library_dir=str(folder),
        serializer="long lines",
        custom_patches=PATCHES,
        record_mode=mode,
        decode_compressed_response=True,
        before_record_request=scrubber.request,
        before_record_response=scrubber.response,
        match_on=("method", "path", "query", "call"),
    )
    recorder.register_serializer("long lines", LongLines)
    recorder.register_matcher("call", same_call)
    return recorder.use_cassette(f"{name}.yaml")
