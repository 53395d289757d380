"""VMware's own simulator and the lab name the same managers."""

from __future__ import annotations

import ssl

from pyVmomi import SoapStubAdapter, vim


def managers(port, ca):
    stub = SoapStubAdapter(
        "127.0.0.1", port, sslContext=ssl.create_default_context(cafile=str(ca)), version="vim.version.version11"
    )
    content = vim.ServiceInstance("ServiceInstance", stub).RetrieveContent()
    stub.DropConnections()
    found = {p.name: getattr(content, p.name) for p in type(content)._GetPropertyList()}
    return {name: type(mo)._wsdlName for name, mo in found.items() if hasattr(mo, "_moId")}


def test_the_lab_names_every_manager_that_vcsim_names(vcsim, session_lab):
    theirs, ours = managers(vcsim.port, vcsim.ca_file), managers(session_lab.port, session_lab.directory / "ca.pem")
    assert len(theirs) > 20
    assert {name: kind for name, kind in theirs.items() if ours.get(name) != kind} == {}
