"""The adapter and the collector before the simulated farm, which refuses like the product."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import nullcontext

import pytest
from support.raising import refused

from vsphere_ai.connect.gate import LoginGate
from vsphere_ai.connect.probing import Shells
from vsphere_ai.connect.secure_shell.esxi import EsxiSsh
from vsphere_ai.connect.secure_shell.ssh_endpoint import SshEndpoint
from vsphere_ai.connect.soap import task_monitor
from vsphere_ai.connect.soap.outage import WaitLimits
from vsphere_ai.connect.soap.task_watcher import TaskWatcher
from vsphere_ai.connect.tls import Endpoint
from vsphere_ai.connect.vcenter import VCenter
from vsphere_ai.errors import ConcurrentChange, Denied, OutcomeUnknown, VimFault
from vsphere_ai.language.inventories.inventory import load_inventory
from vsphere_ai.model.steps import Probe
from vsphere_ai.reading.collector import CollectorRequest, Depth, collect

pytestmark = pytest.mark.lab

GPUS = Probe("gpus", ("nvidia-smi", "-L"))
VERSION = Probe("version", ("vmware", "-vl"))
VM_PATHS = {"VirtualMachine": ("name", "runtime.powerState", "config.changeVersion", "config.hardware.device")}


def secret(lab, name):
    return (lab.directory / name).read_text(encoding="utf-8").strip()


@pytest.fixture
def endpoint(lab) -> Endpoint:
    return Endpoint(
        "127.0.0.1", lab.port, "administrator@vsphere.local", secret(lab, "password"), lab.directory / "ca.pem"
    )


@pytest.fixture
def vcenter(endpoint) -> Iterator[VCenter]:
    with VCenter.connect(endpoint, limits=WaitLimits(patience=2, backoff=0.05)) as connected:
        yield connected


def shells_of(lab, password=None) -> Shells:
    ssh = load_inventory(lab.directory / "connection.yml").ssh
    gate = LoginGate()

    def shell(target):
        address, port = ssh.endpoint(target.name)
        known = lab.directory / "known_hosts"
        return EsxiSsh(
            SshEndpoint(target.name, address, port, "root", known, password or secret(lab, "ssh_password")), gate=gate
        )

    return shell


def named(vcenter, name, kind="VirtualMachine"):
    return next(f for f in vcenter.read({kind: ("name",)}).values() if f.name == name)


def facts(vcenter, ref, *paths):
    return vcenter.read_objects([ref], {ref.partition(":")[0]: paths})[ref]


def everything(seen):
    hosts = frozenset(h.ref for h in seen.hosts)
    return Depth(hosts, frozenset(v.ref for v in seen.vms), hosts)


def test_the_farm_is_found(vcenter):
    assert vcenter.about.api == "7.0.2.0"
    estate = collect(vcenter, None, CollectorRequest({}, everything))
    assert [h.name for h in estate.hosts] == ["esx-odd.lab.local", *(f"esx0{i}.lab.local" for i in (1, 2, 3))]
    train = next(v for v in estate.vms if v.name == "train-01")
    assert estate.path_of(train.ref) == "/DC0/vm/ai/training/train-01"
    assert estate.host_of(train.ref).name == "esx01.lab.local"
    assert estate.cluster_of(estate.hosts[1].ref).name == "gpu-a"
    assert {h.name for h in estate.hosts_for(train.ref)} == {f"esx0{i}.lab.local" for i in (1, 2, 3)}


def test_hosts_are_read_deeply_with_settings_packages_and_commands(lab, vcenter):
    paths = {
        "HostSystem": (
            "config.graphicsInfo",
            "config.graphicsConfig",
            "software",
            "option:Net.PVRDMAVmknic",
            "option:No.Such.Setting",
            "config.network.rdmaDevice",
            "hardware.pciDevice",
        ),
        "DistributedVirtualPortgroup": ("key", "config.uplink"),
        "VmwareDistributedVirtualSwitch": ("uuid", "config.maxMtu"),
    }
    estate = collect(vcenter, shells_of(lab), CollectorRequest(paths, everything, (GPUS, VERSION)))
    odd, one = (estate[h.ref] for h in estate.hosts[:2])
    assert len(one.get("config.graphicsInfo")) == 2
    assert one.get("config.graphicsConfig")["_typeName"] == "HostGraphicsConfig"
    assert any(v["name"].startswith("NVIDIA-") for v in one.get("software"))
    assert one.get("option:Net.PVRDMAVmknic") == ""
    assert "option:No.Such.Setting" not in {**one.properties, **one.unreadable}
    assert one.probes["gpus"].stdout.count("GPU ") == 2
    assert "7.0.2" in one.probes["version"].stdout
    assert odd.probes["gpus"].rule == "ssh.stopped"
    assert {f.get("config.maxMtu") for f in estate.of_type("VmwareDistributedVirtualSwitch")} == {9000, 1500}
    assert {f.get("config.uplink") for f in estate.of_type("DistributedVirtualPortgroup")} == {True, False}
    assert lab.get("/lab/ledger")["entries"] == []


def test_a_stopped_ssh_service_is_started_for_the_probe_and_left_stopped(lab, vcenter):
    def odd_only(seen):
        return Depth(probe=frozenset(h.ref for h in seen.hosts if h.name.startswith("esx-odd")))

    estate = collect(vcenter, shells_of(lab), CollectorRequest({}, odd_only, (VERSION,), start_ssh=True))
    assert "6.7.0" in estate[estate.hosts[0].ref].probes["version"].stdout
    calls = [(e["object"], e["call"]) for e in lab.get("/lab/ledger")["entries"] if e["call"].endswith("Service")]
    assert calls == [("esx-odd.lab.local", "StartService"), ("esx-odd.lab.local", "StopService")]


def test_a_wrong_ssh_password_is_tried_once_for_all_hosts(lab, vcenter):
    estate = collect(vcenter, shells_of(lab, "wrong"), CollectorRequest({}, everything, (GPUS,)))
    reasons = [estate[h.ref].probes["gpus"] for h in estate.hosts if "odd" not in h.name]
    assert {f.rule for f in reasons} == {"ssh.denied"}
    assert sum("not tried" in f.reason for f in reasons) == 2


def test_a_vm_is_reconfigured_in_plain_values_and_read_back(vcenter):
    vm = named(vcenter, "train-04").ref
    before = facts(vcenter, vm, "config.changeVersion", "config.hardware.device")
    spec = {
        "changeVersion": before.get("config.changeVersion"),
        "extraConfig": ({"key": "pciPassthru.use64bitMMIO", "value": "TRUE"},),
        "memoryReservationLockedToMax": True,
    }
    vcenter.run_task(vm, "ReconfigVM_Task", {"spec": spec}, timeout=20)
    after = facts(vcenter, vm, "config.changeVersion", "config.hardware.device", "config.extraConfig")
    assert {"_typeName": "OptionValue", "key": "pciPassthru.use64bitMMIO", "value": "TRUE"} in after.get(
        "config.extraConfig"
    )
    assert after.get("config.hardware.device") == before.get("config.hardware.device")
    with pytest.raises(ConcurrentChange):
        vcenter.run_task(vm, "ReconfigVM_Task", {"spec": spec}, timeout=20)


def test_power_and_its_refusals(vcenter):
    vm = named(vcenter, "train-04").ref
    with pytest.raises(VimFault) as caught:
        vcenter.run_task(vm, "PowerOffVM_Task", timeout=20)
    assert caught.value.fault == "InvalidPowerState"
    vcenter.run_task(vm, "PowerOnVM_Task", timeout=20)
    assert facts(vcenter, vm, "runtime.powerState").get("runtime.powerState") == "poweredOn"


def test_a_graphics_update_goes_through_the_manager_of_the_host(vcenter):
    host = named(vcenter, "esx01.lab.local", "HostSystem").ref
    manager = vcenter.resolve_path(host, "configManager.graphicsManager")
    config = {"hostDefaultGraphicsType": "sharedDirect", "sharedPassthruAssignmentPolicy": "performance"}
    vcenter.call(manager, "UpdateGraphicsConfig", {"config": {**config, "deviceType": ()}})
    found = facts(vcenter, host, "config.graphicsConfig").get("config.graphicsConfig")
    assert found["hostDefaultGraphicsType"] == "sharedDirect"
    with pytest.raises(VimFault):
        vcenter.call(manager, "UpdateGraphicsConfig", {"config": {**config, "hostDefaultGraphicsType": "vast"}})


def test_maintenance_that_cannot_end_is_said_to_be_open(vcenter):
    host = named(vcenter, "esx-odd.lab.local", "HostSystem").ref
    vm = named(vcenter, "odd-01").ref
    vcenter.run_task(vm, "PowerOnVM_Task", timeout=20)
    args = {"timeout": 60}
    with refused(OutcomeUnknown, "outcome.unknown", "EnterMaintenanceMode_Task on HostSystem:", " 1 s"):
        vcenter.run_task(host, "EnterMaintenanceMode_Task", args, timeout=1)
    vcenter.run_task(vm, "PowerOffVM_Task", timeout=20)


@pytest.mark.parametrize("vanishes", [False, True])
def test_a_task_of_which_no_update_comes_is_read_itself(vcenter, lab, monkeypatch, vanishes):
    """One that vanishes between the list and its first update is in no update."""
    monkeypatch.setattr(TaskWatcher, "_list", lambda self: None)
    monkeypatch.setattr(TaskWatcher, "_run", lambda self: None)
    monkeypatch.setattr(task_monitor, "_WAKE_S", 0.05)
    vm = named(vcenter, "train-04").ref
    if vanishes:
        lab.set_faults([{"on": "PowerOnVM_Task", "nth": 1, "do": "task-gone"}])
    with refused(OutcomeUnknown, "outcome.unknown", "no longer known") if vanishes else nullcontext():
        vcenter.run_task(vm, "PowerOnVM_Task", timeout=20)
    assert facts(vcenter, vm, "runtime.powerState").get("runtime.powerState") == "poweredOn"


def test_an_ended_session_is_renewed(vcenter, endpoint):
    sessions = vcenter.service("sessionManager")
    own = facts(vcenter, sessions, "currentSession").get("currentSession")["key"]
    with VCenter.connect(endpoint) as administrator:
        administrator.call(sessions, "TerminateSession", {"sessionId": (own,)})
    assert len(vcenter.read(VM_PATHS)) == 6


def test_a_wrong_password_is_denied(endpoint):
    wrong = Endpoint(endpoint.address, endpoint.port, endpoint.username, "wrong", endpoint.ca_file)
    with pytest.raises(Denied):
        VCenter.connect(wrong)


def test_pages_of_a_large_farm_are_put_together(vcenter, monkeypatch):
    whole = vcenter.read(VM_PATHS)
    monkeypatch.setattr("vsphere_ai.connect.soap.reading.PAGE", 2)
    assert vcenter.read(VM_PATHS) == whole
    assert len(whole) == 6


def test_an_idle_session_lives_on_and_a_forgotten_one_is_renewed(make_lab):
    from importlib import resources

    text = resources.files("vsphere_ai.lab").joinpath("scenarios", "default.yml").read_text(encoding="utf-8")
    lab = make_lab(re.sub(r"(?m)^timing: \{", "timing: {session_minutes: 0.04, ", text))  # 2.4 s

    def logins(keep_alive):
        before = lab.get("/lab/farm")["logins"]
        endpoint = Endpoint(
            "127.0.0.1", lab.port, "administrator@vsphere.local", secret(lab, "password"), lab.directory / "ca.pem"
        )
        with VCenter.connect(endpoint, limits=WaitLimits(keep_alive=keep_alive)) as vcenter:
            time.sleep(3.0)
            assert named(vcenter, "train-01")
        return lab.get("/lab/farm")["logins"] - before

    assert logins(0.2) == 1
    assert logins(300.0) == 2, "without a sign of life the session is gone, and the read logs in again"


def test_a_read_in_a_forgotten_session_is_not_answered_with_nothing(lab, vcenter):
    vm = named(vcenter, "train-01").ref
    lab.post("/lab/sessions/expire")
    facts = vcenter.read_objects([vm], {"VirtualMachine": ("runtime.powerState",)})[vm]
    assert facts.get("runtime.powerState") == "poweredOn"
    assert facts.unreadable == {}
