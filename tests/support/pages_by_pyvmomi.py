"""What pyVmomi makes of a page of objects: the judge of the decoder that reads pages in its place."""

from __future__ import annotations

import io
from types import SimpleNamespace

from pyVmomi import SoapAdapter, VmomiSupport, vmodl

from vsphere_ai.connect.wire.page import from_vim
from vsphere_ai.connect.wire.plain import supports, type_named

METHODS = ("RetrievePropertiesEx", "ContinueRetrievePropertiesEx")
KINDS = ("VirtualMachine", "HostSystem", "ClusterComputeResource", "Datacenter", "Folder", "ResourcePool", "Network",
         "DistributedVirtualSwitch", "DistributedVirtualPortgroup", "Datastore")  # fmt: skip


def by_pyvmomi(body, version):
    """The page in an answer; None when it holds none. Raises what pyVmomi raises."""
    stub = SimpleNamespace(version=version, SupportServerGUIDs=lambda: False)
    parser = SoapAdapter.SoapResponseDeserializer(stub)
    found = parser.Deserialize(io.BytesIO(body), vmodl.query.PropertyCollector.RetrieveResult)
    return found and from_vim(found)


def everything(version):
    """Every property that the types of an inventory have, by type: to be read."""
    names = {kind: [c for c in type_named(kind).__mro__ if issubclass(c, VmomiSupport.ManagedObject)] for kind in KINDS}
    paths = {
        kind: dict.fromkeys(p for c in classes for p in vars(c).get("_propInfo", {})) for kind, classes in names.items()
    }
    return {kind: [p for p in found if supports(kind, p, version)] for kind, found in paths.items()}


class Heard:
    """Keeps the bodies of the pages that a session reads, before they are decoded."""

    def __init__(self, monkeypatch):
        from vsphere_ai.connect.soap import stub

        self.pages = []
        decode = stub.decode

        def heard(body, version, *more):
            self.pages.append((body, version))
            return decode(body, version, *more)

        monkeypatch.setattr(stub, "decode", heard)
