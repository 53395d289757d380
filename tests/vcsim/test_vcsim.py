"""Our adapter before VMware's own simulator (govmomi 0.24): only what that simulator really implements.

It does not judge paging (it ignores maxObjects), graphics, services, reboots, maintenance mode, stale change versions,
hardware upgrades, or which devices fit: it accepts almost everything there, or has no such object.
"""

from __future__ import annotations

import pytest

from vsphere_ai.connect.vcenter import VCenter
from vsphere_ai.errors import Denied, Refused, VimFault
from vsphere_ai.reading.collector import CollectorRequest, Depth, collect

pytestmark = pytest.mark.vcsim

VM_PATHS = {"VirtualMachine": ("name", "runtime.host", "runtime.powerState", "config.extraConfig")}
VGPU = {
    "_typeName": "VirtualPCIPassthrough",
    "key": -1,
    "backing": {"_typeName": "VirtualPCIPassthroughVmiopBackingInfo", "vgpu": "grid_a100-3-20c"},
}


@pytest.fixture
def vcenter(vcsim, limits):
    with VCenter.connect(vcsim.endpoint(), limits=limits) as connected:
        yield connected


@pytest.fixture
def vm(vcenter):
    """A VM that is switched off."""
    found = vcenter.read({"VirtualMachine": ("name",)})
    ref = min(found)
    vcenter.run_task(ref, "PowerOffVM_Task", timeout=20)
    return ref


def reconfigure(vcenter, vm, **spec):
    return vcenter.run_task(vm, "ReconfigVM_Task", {"spec": spec}, timeout=20)


def read(vcenter, ref, path):
    return vcenter.read_objects([ref], {ref.partition(":")[0]: (path,)})[ref].get(path)


def test_the_version_is_agreed_on_and_the_clock_read(vcenter):
    assert vcenter.about.api == "7.0.2.0"
    assert vcenter.about.api_type == "VirtualCenter"
    assert vcenter.now().tzinfo is not None


def test_a_pinned_certificate_and_a_ca_are_both_accepted_and_nothing_else(vcsim, limits):
    VCenter.connect(vcsim.endpoint(pinned=True), limits=limits).close()
    other = vcsim.endpoint(pinned=True)
    wrong = type(other)(other.address, other.port, other.username, other.password, fingerprint="ab" * 32)
    nobody = type(other)(other.address, other.port, other.username, other.password)
    for endpoint in (wrong, nobody):
        with pytest.raises(Denied):
            VCenter.connect(endpoint, limits=limits)


def test_a_wrong_password_is_denied(vcsim, limits):
    with pytest.raises(Denied, match="user name or the password"):
        VCenter.connect(vcsim.endpoint(password="wrong"), limits=limits)


def test_the_simulator_s_own_version_is_too_old(start, limits):
    old = start("-api-version", "6.5")
    with pytest.raises(Refused, match=r"6\.5.*7\.0\.2\.0"):
        VCenter.connect(old.endpoint(), limits=limits)


def test_the_whole_estate_is_read_in_one_go(vcenter):
    paths = {
        **VM_PATHS,
        "Folder": ("name", "parent"),
        "Datacenter": ("name", "parent"),
        "ComputeResource": ("name", "parent"),
        "HostSystem": ("name", "parent", "runtime.connectionState"),
        "DistributedVirtualPortgroup": ("name", "key"),
    }
    found = vcenter.read(paths)
    kinds = [ref.partition(":")[0] for ref in found]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {
        "Folder": 5,
        "Datacenter": 1,
        "ComputeResource": 3,
        "ClusterComputeResource": 1,
        "HostSystem": 6,
        "DistributedVirtualPortgroup": 2,
        "VirtualMachine": 16,
    }
    for facts in found.values():
        assert facts.name
        assert not facts.unreadable
    vms = [f for r, f in found.items() if r.startswith("VirtualMachine:")]
    assert all(f.get("runtime.host") in found for f in vms)
    assert {f.get("runtime.powerState") for f in vms} == {"poweredOn"}


def test_a_path_the_server_does_not_know_is_reported_per_object(vcenter):
    found = vcenter.read({"VirtualMachine": ("name", "no.such.path")})
    assert all("no.such.path" in f.unreadable for f in found.values())
    assert all(f.name for f in found.values())


def test_power_off_and_on_and_a_refusal(vcenter, vm):
    assert read(vcenter, vm, "runtime.powerState") == "poweredOff"
    with pytest.raises(VimFault, match="InvalidPowerState") as caught:
        vcenter.run_task(vm, "PowerOffVM_Task", timeout=20)
    assert caught.value.fault == "InvalidPowerState"
    seen = []
    vcenter.run_task(vm, "PowerOnVM_Task", timeout=20, progress=seen.append)
    assert read(vcenter, vm, "runtime.powerState") == "poweredOn"
    assert seen


def test_a_vgpu_is_added_changed_in_place_and_removed(vcenter, vm):
    def vgpus():
        devices = read(vcenter, vm, "config.hardware.device")
        return [d for d in devices if d["_typeName"] == "VirtualPCIPassthrough"]

    reconfigure(vcenter, vm, deviceChange=({"operation": "add", "device": VGPU},))
    (added,) = vgpus()
    assert added["backing"] == VGPU["backing"]
    assert added["key"] > 0
    changed = {**added, "backing": {**added["backing"], "vgpu": "grid_a100-20c"}}
    reconfigure(vcenter, vm, deviceChange=({"operation": "edit", "device": changed},))
    assert vgpus() == [changed]
    reconfigure(vcenter, vm, deviceChange=({"operation": "remove", "device": changed},))
    assert vgpus() == []


def test_a_pvrdma_adapter_is_added_beside_what_is_there(vcenter, vm):
    before = read(vcenter, vm, "config.hardware.device")
    groups = vcenter.read({"DistributedVirtualPortgroup": ("name", "key", "config.distributedVirtualSwitch")})
    group = next(f for f in groups.values() if "Uplinks" not in f.name)
    switch = read(vcenter, group.get("config.distributedVirtualSwitch"), "uuid")
    port = {
        "_typeName": "DistributedVirtualSwitchPortConnection",
        "switchUuid": switch,
        "portgroupKey": group.get("key"),
    }
    adapter = {
        "_typeName": "VirtualVmxnet3Vrdma",
        "key": -2,
        "deviceProtocol": "rocev2",
        "backing": {"_typeName": "VirtualEthernetCardDistributedVirtualPortBackingInfo", "port": port},
    }
    reconfigure(vcenter, vm, deviceChange=({"operation": "add", "device": adapter},))
    after = read(vcenter, vm, "config.hardware.device")
    (added,) = [d for d in after if d["_typeName"] == "VirtualVmxnet3Vrdma"]
    assert added["deviceProtocol"] == "rocev2"
    assert added["backing"]["port"]["portgroupKey"] == group.get("key")
    assert added["macAddress"]
    macs = [d["macAddress"] for d in before if "macAddress" in d]
    assert [d["macAddress"] for d in after if "macAddress" in d and d is not added] == macs
    assert read(vcenter, vm, "network").count(group.ref) >= 1


def test_settings_of_a_vm_are_written_and_read_back(vcenter, vm):
    wanted = {"pciPassthru.use64bitMMIO": "TRUE", "pciPassthru.64bitMMIOSizeGB": "128"}
    reconfigure(
        vcenter,
        vm,
        extraConfig=tuple({"_typeName": "OptionValue", "key": k, "value": v} for k, v in wanted.items()),
        firmware="efi",
        memoryReservationLockedToMax=True,
    )
    found = {o["key"]: o["value"] for o in read(vcenter, vm, "config.extraConfig")}
    assert wanted.items() <= found.items()
    assert read(vcenter, vm, "config.firmware") == "efi"
    assert read(vcenter, vm, "config.memoryReservationLockedToMax") is True


def end_session(vcsim, limits, victim):
    """Let an administrator end somebody's session."""
    key = read(victim, victim.service("sessionManager"), "currentSession")["key"]
    with VCenter.connect(vcsim.endpoint(), limits=limits) as administrator:
        administrator.call(administrator.service("sessionManager"), "TerminateSession", {"sessionId": (key,)})
    return key


def test_an_ended_session_is_renewed_for_a_read(vcsim, limits, vcenter):
    key = end_session(vcsim, limits, vcenter)
    assert len(vcenter.read(VM_PATHS)) == 16
    assert read(vcenter, vcenter.service("sessionManager"), "currentSession")["key"] != key


def test_an_ended_session_is_renewed_for_a_change_that_did_not_run(vcsim, limits, vcenter, vm):
    end_session(vcsim, limits, vcenter)
    vcenter.run_task(vm, "PowerOnVM_Task", timeout=20)
    assert read(vcenter, vm, "runtime.powerState") == "poweredOn"


def test_an_estate_is_collected(vcenter):
    paths = {
        "HostSystem": ("option:Config.HostAgent.log.level", "option:No.Such", "software"),
        "VirtualMachine": ("config.hardware.device",),
    }

    def choose(seen):
        return Depth(frozenset({seen.hosts[0].ref}), frozenset({seen.vms[0].ref}))

    estate = collect(vcenter, None, CollectorRequest(paths, choose))
    host, chosen, other = estate.hosts[0], estate.vms[0], estate.vms[1]
    assert estate.path_of(chosen.ref) == f"/DC0/vm/{chosen.name}"
    assert estate[host.ref].get("option:Config.HostAgent.log.level") == "info"
    assert "option:No.Such" not in {**estate[host.ref].properties, **estate[host.ref].unreadable}
    # This simulator names an image manager and has none: unknown, and not "no packages".
    assert "software" in estate[host.ref].unreadable
    assert estate[chosen.ref].get("config.hardware.device")
    assert estate[other.ref].get("config.hardware.device") is None
    assert estate.host_of(chosen.ref) in estate.hosts


def test_its_pages_are_read_as_pyvmomi_reads_them(vcsim, limits, monkeypatch):
    from support.pages_by_pyvmomi import Heard, by_pyvmomi, everything

    from vsphere_ai.connect.wire.page_decoder import decode

    heard = Heard(monkeypatch)
    with VCenter.connect(vcsim.endpoint(), limits=limits, minimum="6.5") as vcenter:
        version = vcenter._session.version
        found = vcenter.read(everything(version))
        assert vcenter._session.stub.left == 0
    assert len(found) > 30
    assert heard.pages
    for body, version in heard.pages:
        assert decode(body, version) == by_pyvmomi(body, version)
