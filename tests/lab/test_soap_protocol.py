"""The protocol itself: what any vSphere client may send, and that every object can be sent back."""

import gzip
import http.client
import re
import threading
import time

import pytest
from pyVmomi import SoapStubAdapter, VmomiSupport, vim, vmodl

PC = vmodl.query.PropertyCollector
VERSIONS = ("vim.version.v7_0_2_0", VmomiSupport.GetServiceVersions("vim25")[0])


def post(lab, body, *, headers=None, chunks=0, path="/sdk", version="7.0.2.0"):
    """Send a raw request as another client would; return (status, text, headers)."""
    import ssl

    context = ssl.create_default_context(cafile=str(lab.directory / "ca.pem"))
    connection = http.client.HTTPSConnection("127.0.0.1", lab.port, context=context, timeout=10)
    heads = {"SOAPAction": f'"urn:vim25/{version}"', "Content-Type": "text/xml", **(headers or {})}
    if chunks:
        data = [body[i : i + chunks] for i in range(0, len(body), chunks)]
        connection.request("POST", path, body=iter(data), headers=heads, encode_chunked=True)
    else:
        connection.request("POST", path, body=body, headers=heads)
    reply = connection.getresponse()
    raw = reply.read()
    if reply.headers.get("Content-Encoding") == "gzip":
        raw = gzip.decompress(raw)
    connection.close()
    return reply.status, raw.decode(), reply.headers


def envelope(method):
    return (
        '<?xml version="1.0"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" '
        'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xsd="http://www.w3.org/2001/XMLSchema">'
        f"<soapenv:Header><operationID>test-1</operationID></soapenv:Header><soapenv:Body>{method}</soapenv:Body>"
        "</soapenv:Envelope>"
    ).encode()


CONTENT = (
    '<RetrieveServiceContent xmlns="urn:vim25"><_this type="ServiceInstance">ServiceInstance</_this>'
    "</RetrieveServiceContent>"
)


def cookie(lab):
    password = (lab.directory / "password").read_text(encoding="utf-8").strip()
    login = (
        '<Login xmlns="urn:vim25"><_this type="SessionManager">SessionManager</_this>'
        f"<userName>administrator@vsphere.local</userName><password>{password}</password></Login>"
    )
    status, _, headers = post(lab, envelope(login))
    assert status == 200
    return headers["Set-Cookie"].split(";")[0]


def everything(soap, types, paths=None, **options):
    """Every object of some types through one view, with paging."""
    view = soap.content.viewManager.CreateContainerView(soap.content.rootFolder, types, True)
    traversal = PC.TraversalSpec(type=vim.view.ContainerView, path="view", skip=False)
    spec = PC.FilterSpec(
        objectSet=[PC.ObjectSpec(obj=view, skip=True, selectSet=[traversal])],
        propSet=[PC.PropertySpec(type=t, pathSet=paths or [], all=not paths) for t in types],
    )
    collector, pages = soap.content.propertyCollector, 0
    result = collector.RetrievePropertiesEx([spec], PC.RetrieveOptions(**options))
    objects = []
    while result:
        pages += 1
        objects += result.objects
        result = collector.ContinueRetrievePropertiesEx(result.token) if result.token else None
    view.DestroyView()
    return objects, pages


@pytest.mark.parametrize("version", VERSIONS)
def test_every_property_of_every_object_can_be_serialised(version):
    from vsphere_ai.lab import wire
    from vsphere_ai.lab.build import build
    from vsphere_ai.lab.scenario_file import load
    from vsphere_ai.lab.store import read

    farm = build(load(), "x")
    sent = 0
    for mo in farm.store.objects.values():
        for prop in mo.props:
            value = read(mo, prop, None)
            if value is not None:
                assert wire.element(value, "val", object, version).startswith("<val")
                sent += 1
    farm.close()
    assert sent > 300


def test_every_property_of_every_object_can_be_fetched(soap):
    types = [vim.ManagedEntity]
    objects, _ = everything(soap, types)
    assert len(objects) > 20
    assert not any(o.missingSet for o in objects)
    vm = next(o for o in objects if isinstance(o.obj, vim.VirtualMachine))
    assert {"config", "runtime", "guest", "summary", "capability", "network"} <= {p.name for p in vm.propSet}
    host = soap.host("esx01")
    for manager in ("graphicsManager", "serviceSystem", "firewallSystem", "advancedOption", "pciPassthruSystem"):
        found = getattr(host.configManager, manager)
        for prop in type(found)._GetPropertyList():
            if VmomiSupport.IsChildVersion("vim.version.v7_0_2_0", prop.version):
                getattr(found, prop.name)


def test_paging_reads_everything_once_and_a_token_is_good_once(soap):
    names = ["name"]
    whole, pages = everything(soap, [vim.ManagedEntity], names)
    assert pages == 1
    paged, pages = everything(soap, [vim.ManagedEntity], names, maxObjects=5)
    assert pages == -(-len(whole) // 5)
    assert [o.obj for o in paged] == [o.obj for o in whole]
    collector = soap.content.propertyCollector
    for bad in ("1", "x"):
        with pytest.raises(vmodl.fault.InvalidArgument):
            collector.ContinueRetrievePropertiesEx(bad)
    with pytest.raises(vmodl.fault.InvalidArgument):
        everything(soap, [vim.VirtualMachine], names, maxObjects=0)


@pytest.mark.parametrize("path", ["nope", "config.nope", "name.x", "guest.customizationInfo.nope"])
def test_an_unknown_property_fails_the_whole_read(soap, path):
    with pytest.raises(vmodl.query.InvalidProperty) as caught:
        everything(soap, [vim.VirtualMachine], ["name", path])
    assert caught.value.name == path


def test_a_property_newer_than_the_negotiated_version_is_unknown(lab, new_client):
    old = new_client(lab, version="vim.version.version12")
    with pytest.raises(vmodl.query.InvalidProperty):
        everything(old, [vim.HostSystem], ["config.network.rdmaDevice"])
    now = new_client(lab)
    objects, _ = everything(now, [vim.HostSystem], ["config.network.rdmaDevice"])
    assert len(objects) == 4


def test_a_client_newer_than_the_server_is_answered_at_the_servers_level(lab, new_client):
    newest = new_client(lab, version=VERSIONS[1])
    assert newest.vm("train-01").config.version == "vmx-17"
    with pytest.raises(vmodl.query.InvalidProperty):
        everything(newest, [vim.VirtualMachine], ["config.deviceGroups"])


def test_old_and_empty_reads(soap):
    spec = PC.FilterSpec(
        objectSet=[PC.ObjectSpec(obj=soap.content.rootFolder)],
        propSet=[PC.PropertySpec(type=vim.Folder, pathSet=["name"])],
    )
    assert soap.content.propertyCollector.RetrieveProperties([spec])[0].propSet[0].val == "Datacenters"
    spec.propSet[0].type = vim.VirtualMachine
    assert soap.content.propertyCollector.RetrievePropertiesEx([spec], PC.RetrieveOptions()) is None


def test_named_recursive_traversal_walks_the_folders(soap):
    again = PC.SelectionSpec(name="folders")
    folders = PC.TraversalSpec(name="folders", type=vim.Folder, path="childEntity", selectSet=[again])
    centre = PC.TraversalSpec(type=vim.Datacenter, path="vmFolder", selectSet=[again])
    folders.selectSet.append(centre)
    spec = PC.FilterSpec(
        objectSet=[PC.ObjectSpec(obj=soap.content.rootFolder, selectSet=[folders])],
        propSet=[PC.PropertySpec(type=vim.VirtualMachine, pathSet=["name"])],
    )
    found = soap.content.propertyCollector.RetrievePropertiesEx([spec], PC.RetrieveOptions())
    assert {o.propSet[0].val for o in found.objects} >= {"train-01", "odd-01"}


def test_updates_arrive_when_something_changes_and_not_otherwise(soap, lab, new_client):
    vm = soap.vm("train-04")
    collector = soap.content.propertyCollector.CreatePropertyCollector()
    collector.CreateFilter(
        PC.FilterSpec(
            objectSet=[PC.ObjectSpec(obj=vm)],
            propSet=[PC.PropertySpec(type=vim.VirtualMachine, pathSet=["runtime.powerState", "name"])],
        ),
        True,
    )
    first = collector.WaitForUpdatesEx("", PC.WaitOptions(maxWaitSeconds=1))
    assert first.filterSet[0].objectSet[0].kind == "enter"
    began = time.monotonic()
    assert collector.WaitForUpdatesEx(first.version, PC.WaitOptions(maxWaitSeconds=1)) is None
    assert time.monotonic() - began > 0.9
    other = new_client(lab)
    timer = threading.Timer(0.2, lambda: other.vm("train-04").PowerOnVM_Task())
    timer.start()
    second = collector.WaitForUpdatesEx(first.version, PC.WaitOptions(maxWaitSeconds=10))
    timer.join()
    change = second.filterSet[0].objectSet[0]
    assert (change.kind, [(c.name, c.val) for c in change.changeSet]) == (
        "modify",
        [("runtime.powerState", "poweredOn")],
    )
    with pytest.raises(vmodl.query.InvalidCollectorVersion):
        collector.WaitForUpdatesEx("99", PC.WaitOptions(maxWaitSeconds=1))
    collector.Destroy()
    with pytest.raises(vmodl.fault.ManagedObjectNotFound):
        collector.CheckForUpdates("")


def test_a_waiting_call_can_be_cancelled(soap):
    collector = soap.content.propertyCollector
    spec = PC.FilterSpec(
        objectSet=[PC.ObjectSpec(obj=soap.vm("train-04"))],
        propSet=[PC.PropertySpec(type=vim.VirtualMachine, pathSet=["name"])],
    )
    made = collector.CreateFilter(spec, False)
    version = collector.WaitForUpdates("").version
    threading.Timer(0.2, collector.CancelWaitForUpdates).start()
    with pytest.raises(vmodl.fault.RequestCanceled):
        collector.WaitForUpdatesEx(version, PC.WaitOptions(maxWaitSeconds=10))
    made.Destroy()


def test_updates_can_be_truncated(soap):
    collector = soap.content.propertyCollector.CreatePropertyCollector()
    view = soap.content.viewManager.CreateContainerView(soap.content.rootFolder, [vim.VirtualMachine], True)
    traversal = PC.TraversalSpec(type=vim.view.ContainerView, path="view")
    spec = PC.FilterSpec(
        objectSet=[PC.ObjectSpec(obj=view, skip=True, selectSet=[traversal])],
        propSet=[PC.PropertySpec(type=vim.VirtualMachine, pathSet=["name"])],
    )
    collector.CreateFilter(spec, True)
    seen, version, truncated = [], "", True
    while truncated:
        update = collector.WaitForUpdatesEx(version, PC.WaitOptions(maxWaitSeconds=0, maxObjectUpdates=4))
        if update is None:
            break
        seen += [o.obj for o in update.filterSet[0].objectSet]
        version, truncated = update.version, update.truncated
    assert len(seen) == len(set(map(str, seen))) == 6


def test_changes_over_ssh_show_in_the_api_at_once(soap, lab):
    """Both protocols work on one machine model."""
    import paramiko

    host = soap.host("esx01")
    address = next(h["ssh"]["address"] for h in lab.get("/lab/farm")["hosts"] if h["name"] == host.name)
    client = paramiko.SSHClient()
    client.load_host_keys(str(lab.directory / "known_hosts"))
    password = (lab.directory / "ssh_password").read_text(encoding="utf-8").strip()
    client.connect(
        "127.0.0.1", int(address.rpartition(":")[2]), "root", password, look_for_keys=False, allow_agent=False
    )
    _, out, _ = client.exec_command("esxcli network firewall ruleset set -r pvrdma -e true")
    assert out.channel.recv_exit_status() == 0
    client.close()
    assert {r.key: r.enabled for r in host.config.firewall.ruleset}["pvrdma"]
    assert [e["channel"] for e in lab.get("/lab/ledger")["entries"]] == ["ssh"]


# --- raw HTTP


def test_chunked_and_compressed_requests(lab):
    for options in (
        {},
        {"chunks": 7},
        {"chunks": 100000},
        {"headers": {"Accept-Encoding": "gzip"}},
    ):
        status, text, _ = post(lab, envelope(CONTENT), **options)
        assert status == 200
        assert "<apiVersion>7.0.2.0</apiVersion>" in text
    squeezed = gzip.compress(envelope(CONTENT))
    assert post(lab, squeezed, headers={"Content-Encoding": "gzip"})[0] == 200


def test_a_connection_serves_many_calls(lab):
    import ssl

    context = ssl.create_default_context(cafile=str(lab.directory / "ca.pem"))
    connection = http.client.HTTPSConnection("127.0.0.1", lab.port, context=context, timeout=10)
    for _ in range(3):
        connection.request("POST", "/sdk", body=envelope(CONTENT), headers={"SOAPAction": "urn:vim25/7.0.2.0"})
        reply = connection.getresponse()
        assert reply.status == 200
        reply.read()
    connection.close()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<a>",
        b"\x00\xff",
        envelope(""),
        envelope('<NoSuchMethod xmlns="urn:vim25"><_this type="Folder">group-d1</_this></NoSuchMethod>'),
        envelope('<CurrentTime xmlns="urn:vim25"><_this type="Nonsense">x</_this></CurrentTime>'),
        envelope('<CurrentTime xmlns="urn:vim25"></CurrentTime>'),
        envelope(
            '<CurrentTime xmlns="urn:vim25"><_this type="ServiceInstance">ServiceInstance</_this><x/></CurrentTime>'
        ),
    ],
)
def test_nonsense_gets_a_fault_and_never_a_traceback(lab, body):
    status, text, _ = post(lab, body)
    assert status == 500
    assert "<faultcode>" in text
    assert "InvalidRequest" in text
    assert "Traceback" not in text


def test_a_missing_argument_is_invalid_argument(lab):
    body = envelope(
        '<Login xmlns="urn:vim25"><_this type="SessionManager">SessionManager</_this><userName>x</userName></Login>'
    )
    status, text, _ = post(lab, body)
    assert (status, "InvalidArgumentFault" in text) == (500, True)


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Content-Length": "x"}, 400), ({"Content-Length": "99999999999"}, 413), ({"Content-Encoding": "gzip"}, 400)],
)
def test_a_broken_http_body_is_refused(lab, headers, status):
    assert post(lab, b"abc", headers=headers)[0] == status


def test_fetch_over_raw_soap(lab):
    jar = cookie(lab)
    fetch = '<Fetch xmlns="urn:vim25"><_this type="Folder">group-d1</_this><prop>name</prop></Fetch>'
    status, text, _ = post(lab, envelope(fetch), headers={"Cookie": jar})
    assert status == 200
    assert re.search(r"<returnval[^>]*>Datacenters</returnval>", text)
    bad = fetch.replace("<prop>name", "<prop>nope")
    assert "InvalidPropertyFault" in post(lab, envelope(bad), headers={"Cookie": jar})[1]
    assert "NotAuthenticatedFault" in post(lab, envelope(fetch))[1]
    gone = fetch.replace("group-d1", "group-d9")
    assert "ManagedObjectNotFoundFault" in post(lab, envelope(gone), headers={"Cookie": jar})[1]


def test_before_login_reads_show_nothing_but_the_door(lab, new_client):
    client = new_client(lab, login=False)
    objects = client.content.propertyCollector.RetrievePropertiesEx(
        [
            PC.FilterSpec(
                objectSet=[PC.ObjectSpec(obj=client.content.rootFolder)],
                propSet=[PC.PropertySpec(type=vim.Folder, pathSet=["name"])],
            )
        ],
        PC.RetrieveOptions(),
    ).objects
    assert objects[0].propSet == []
    assert isinstance(objects[0].missingSet[0].fault, vim.fault.NotAuthenticated)


def test_versions_document(lab):
    import ssl

    context = ssl.create_default_context(cafile=str(lab.directory / "ca.pem"))
    connection = http.client.HTTPSConnection("127.0.0.1", lab.port, context=context, timeout=10)
    connection.request("GET", "/sdk/vimServiceVersions.xml")
    text = connection.getresponse().read().decode()
    connection.close()
    assert text.index("<version>7.0.2.0</version>") < text.index("<priorVersions>")
    assert "<version>6.7</version>" in text
    assert "8.0" not in text


def test_the_control_endpoint_needs_its_token(lab):
    assert post(lab, b"", path="/lab/reset")[0] == 403
    assert post(lab, b"", path="/lab/reset", headers={"X-Lab-Token": "guess"})[0] == 403
    assert post(lab, b"", path="/elsewhere")[0] == 404


def test_tls_is_verified_on_loopback(lab):
    """The certificate is self-signed: a client that does not trust it must not get through."""
    import ssl

    stub = SoapStubAdapter(host="127.0.0.1", port=lab.port, sslContext=ssl.create_default_context())
    with pytest.raises(ssl.SSLError):
        vim.ServiceInstance("ServiceInstance", stub).RetrieveContent()


def test_reset_brings_everything_back(soap, lab, new_client):
    ports = {h["name"]: h["ssh"]["address"] for h in lab.get("/lab/farm")["hosts"]}
    soap.wait(soap.vm("train-04").PowerOnVM_Task())
    lab.post("/lab/reset")
    with pytest.raises(vim.fault.NotAuthenticated):
        _ = soap.content.rootFolder.name
    fresh = new_client(lab)
    assert fresh.vm("train-04").runtime.powerState == "poweredOff"
    assert fresh.calls() == []
    assert {h["name"]: h["ssh"]["address"] for h in lab.get("/lab/farm")["hosts"]} == ports
