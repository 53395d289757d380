"""The lab's shorter ways take and refuse what pyVmomi and http.client take and refuse."""

from __future__ import annotations

import http.client
import io
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsphere_ai.lab.front import shortcuts
from vsphere_ai.lab.front.shortcuts import headers

NAME = st.text("abcXYZ-_ :\t\x00é", max_size=6)
VALUE = st.text('ab 0;,="\t:\x00é\x7f', max_size=8)
LINE = st.one_of(
    st.tuples(NAME, st.sampled_from([":", ": ", " : ", "", ":\t"]), VALUE).map("".join),
    st.sampled_from(["Content-Type: text/xml; charset=utf-8", "Content-Length: 12", "From a b", " folded", "X:", ":x"]),
)


def read(how, raw):
    """What a parser makes of headers, and what it leaves unread."""
    stream = io.BytesIO(raw)
    try:
        found = how(stream)
    except (http.client.HTTPException, ValueError) as error:
        return repr(error)
    return found.items(), found.get_payload(), found.get_all("content-length"), stream.read()


@given(st.lists(LINE, max_size=6), st.sampled_from(["\r\n", "\n"]), st.sampled_from(["\r\n\r\n", "\n\n", "", "\r\n"]))
def test_headers_are_read_as_http_client_reads_them(lines, between, end):
    raw = f"{between.join(lines)}{end}body".encode("latin-1")
    assert read(headers, raw) == read(shortcuts._parse_headers, raw)


@pytest.mark.parametrize("number", [99, 101, 102])
def test_too_many_headers_are_refused_alike(number):
    raw = b"A: b\r\n" * number + b"\r\n"
    assert read(headers, raw) == read(shortcuts._parse_headers, raw)


CHECKED = """
import itertools, json, sys
from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vim
if sys.argv[1] == "short":
    from vsphere_ai.lab.front.shortcuts import take
    take()
spec, host = vim.vm.ConfigSpec, vim.HostSystem("host-1")
long, byte = Vmomi.GetVmodlType("long"), Vmomi.GetVmodlType("byte")
texts, numbers = Vmomi.GetVmodlType("string[]"), Vmomi.GetVmodlType("int[]")
port = vim.dvs.PortConnection(switchUuid="u")
values = [None, 1, -1, 2**40, 1.5, True, "a", "sharedDirect", b"a", [], ["a"], [1], [None], [1, "a"], [port], host,
          [host], long(5), byte(1), texts(), texts(["a"]), numbers([1]), port, spec, type(host), vim.HostSystem,
          vim.host.GraphicsConfig.GraphicsType.sharedDirect, ["sharedDirect"], ..., (1,), {"a": 1},
          vim.vm.device.VirtualVmxnet3(key=1), [vim.vm.device.VirtualVmxnet3(key=1)], vim.fault.NoPermission()]
kinds = [vim.vm.ConfigSpec, vim.host.GraphicsConfig, vim.option.OptionValue, vim.vm.device.VirtualDeviceSpec,
         vim.host.DateTimeInfo, vim.dvs.PortConnection, vim.vm.device.VirtualVmxnet3, vim.event.VmFailedToPowerOnEvent,
         vim.host.PortGroup, vim.vm.FileLayoutEx, vim.host.NetworkConfig]
found = []
def tried(what, do):
    try:
        made = do()
    except Exception as error:
        found.append([what, f"{type(error).__name__} {error}"])
    else:
        found.append([what, str(made)])
for kind in kinds:
    for info, (n, value) in itertools.product(kind._GetPropertyList(), enumerate(values)):
        what = f"{kind.__name__} {info.name} {n}"
        tried(what, lambda: kind(**{info.name: value}))
        def put():
            made = kind()
            setattr(made, info.name, value)
            return type(getattr(made, info.name)), made
        tried(f"{what} later", put)
    tried(kind.__name__, lambda: kind(nonsense=1))
    tried(kind.__name__, lambda: setattr(kind(), "nonsense", 1))
print(json.dumps(found))
"""


def test_values_are_taken_and_refused_as_pyvmomi_does():
    """In processes of their own: the shorter ways stay once they are taken."""
    one, other = (
        json.loads(subprocess.run([sys.executable, "-c", CHECKED, way], capture_output=True, check=True).stdout)
        for way in ("short", "long")
    )
    assert len(one) > 8_000
    assert sum("TypeError" in said for _, said in one) > 3_000
    assert [pair for pair in zip(one, other, strict=True) if pair[0] != pair[1]] == []
