"""Readers of a vCenter, each in a process of its own: ``python bench/readers.py NAME PORT CA [USER PASSWORD COUNT]``.

They print wall and CPU seconds without what it takes to import, and what they have read, as JSON. With COUNT they read
a few facts of so many VMs, else every object that is served to them.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from replay import FIRST, NEXT

FACTS = ("name", "runtime.powerState", "runtime.host", "config.hardware.device", "config.extraConfig")


def context(ca: Path) -> ssl.SSLContext:
    """Trust one certificate."""
    return ssl.create_default_context(cafile=str(ca))


# -- every object, of replayed answers


def wire(port: int, ca: Path) -> int:
    """Read the bytes of every page, and parse nothing; return how many bytes."""
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context(ca))
    total, token = 0, ""
    while True:
        inner = f"<{NEXT}><token>{token}</token></{NEXT}>" if token else f"<{FIRST}/>"
        connection.request("POST", "/sdk", f"<Envelope><Body>{inner}</Body></Envelope>")
        body = connection.getresponse().read()
        total += len(body)
        said = re.search(rb"<token>([^<]+)</token>", body[:2000] + body[-2000:])
        if said is None:
            return total
        token = said[1].decode()


def pyvmomi(port: int, ca: Path) -> int:
    """Read every page with pyVmomi, as its documentation advises, and keep the objects."""
    from pyVmomi import vim, vmodl

    content = _connected(port, ca, "u", "p")
    collector = vmodl.query.PropertyCollector
    asked = collector.FilterSpec(
        objectSet=[collector.ObjectSpec(obj=content.rootFolder)], propSet=[collector.PropertySpec(type=vim.Folder)]
    )  # the answers are those that were recorded, whatever is asked for
    return len(list(_pages(content, asked)))


def _connected(port: int, ca: Path, user: str, password: str) -> object:
    from pyVim.connect import SmartConnect

    return SmartConnect(host="127.0.0.1", port=port, user=user, pwd=password, sslContext=context(ca)).RetrieveContent()


def _pages(content: object, asked: object) -> Iterator[object]:
    from pyVmomi import vmodl

    page = content.propertyCollector.RetrievePropertiesEx([asked], vmodl.query.PropertyCollector.RetrieveOptions())
    while page:
        yield from page.objects
        page = content.propertyCollector.ContinueRetrievePropertiesEx(page.token) if page.token else None


def ours(port: int, ca: Path) -> int:
    """Read with this project's reader, and keep the facts."""
    from vsphere_ai.connect.tls import Endpoint
    from vsphere_ai.connect.vcenter import VCenter

    with VCenter.connect(Endpoint("127.0.0.1", port, "u", "p", ca_file=ca)) as vcenter:
        found = read_bulk(vcenter)
        if vcenter._session.stub.left:
            raise SystemExit("pages were left to pyVmomi")
        return len(found)


def read_bulk(vcenter: object) -> dict[str, object]:
    """Read every object, hosts and VMs with all that kinds and rules ask for: in bulk, with no call of its own."""
    from vsphere_ai.reading.collector import LIGHT
    from vsphere_ai.reading.requirements import wanted_paths

    wanted = wanted_paths()
    paths = {k: (*LIGHT.get(k, ()), *(p for p in wanted.get(k, ()) if p != "software" and ":" not in p))
             for k in dict.fromkeys((*LIGHT, *wanted))}  # fmt: skip
    return vcenter.read(paths)


# -- a few facts of some VMs, of a vCenter that answers


def some_by_properties(content: object, count: int) -> int:
    """Read as scripts do that are written without the PropertyCollector: property by property."""
    from pyVmomi import vim

    view = content.viewManager.CreateContainerView(content.rootFolder, [vim.VirtualMachine], True)
    found = []
    for vm in list(view.view)[:count]:
        found.append((vm.name, vm.runtime.powerState, vm.runtime.host.name, vm.config.hardware.device,
                      {option.key: option.value for option in vm.config.extraConfig}))  # fmt: skip
    return len(found)


def some_by_collector(content: object, count: int) -> int:
    """Read as pyVmomi's documentation advises: a view, and one filter over it with the paths that are wanted."""
    from pyVmomi import vim, vmodl

    view = content.viewManager.CreateContainerView(content.rootFolder, [vim.VirtualMachine], True)
    collector = vmodl.query.PropertyCollector
    asked = collector.FilterSpec(
        objectSet=[collector.ObjectSpec(obj=vm) for vm in list(view.view)[:count]],
        propSet=[collector.PropertySpec(type=vim.VirtualMachine, pathSet=list(FACTS))],
    )
    return len(list(_pages(content, asked)))


def some_ours(port: int, ca: Path, user: str, password: str, count: int) -> int:
    """Read the same with this project's reader."""
    from vsphere_ai.connect.tls import Endpoint
    from vsphere_ai.connect.vcenter import VCenter

    with VCenter.connect(Endpoint("127.0.0.1", port, user, password, ca_file=ca), minimum="6.5") as vcenter:
        chosen = sorted(vcenter.read({"VirtualMachine": ("name",)}))[:count]
        return len(vcenter.read_objects(chosen, {"VirtualMachine": FACTS}))


def _some_pyvmomi(read: Callable[[object, int], int]) -> Callable[..., int]:
    return lambda port, ca, user, password, count: read(_connected(port, ca, user, password), count)


EVERY = {"wire": wire, "pyvmomi": pyvmomi, "ours": ours}
SOME = {
    "pyvmomi": _some_pyvmomi(some_by_collector),
    "properties": _some_pyvmomi(some_by_properties),
    "ours": some_ours,
}


def main(name: str, port: str, ca: str, *rest: str) -> None:
    """Read once, and print what it took."""
    if name == "ours":
        from vsphere_ai.connect import vcenter  # noqa: F401 - what is imported counts for none of them
        from vsphere_ai.reading.requirements import wanted_paths

        wanted_paths()  # imports every kind
    if name in ("pyvmomi", "properties", "ours"):
        import pyVim.connect  # noqa: F401
        import pyVmomi

        dir(pyVmomi.vim)
    began, cpu = time.perf_counter(), time.process_time()
    if rest:
        user, password, count = rest
        found = SOME[name](int(port), Path(ca), user, password, int(count))
    else:
        found = EVERY[name](int(port), Path(ca))
    print(json.dumps({"wall": time.perf_counter() - began, "cpu": time.process_time() - cpu, "read": found}))


if __name__ == "__main__":
    main(*sys.argv[1:])
