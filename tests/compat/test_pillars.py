"""Rules of the five pillars: each passes on a healthy farm, and finds the one thing that is changed."""

from dataclasses import replace
from datetime import date, timedelta

import pytest

from vsphere_ai.compat import assessment
from vsphere_ai.compat.pillars.attested import QUESTIONS
from vsphere_ai.compat.pillars.base import PillarCase
from vsphere_ai.model.finding import VERDICTS
from vsphere_ai.model.records.assessment import PILLARS, Attestation, HealthChecked, LatestBenchmark, Records
from vsphere_ai.model.vm_sets import MemberMark
from vsphere_ai.planning.observing import observe
from vsphere_ai.resources import kinds
from vsphere_ai.resources.corrections import PLACEHOLDERS, plays_of

TODAY = date(2026, 11, 23)
ESX, ESX2 = "HostSystem:host-1", "HostSystem:host-2"
VM, VM2 = "VirtualMachine:vm-1", "VirtualMachine:vm-2"
WINDOW = (
    {"key": "pciPassthru.use64bitMMIO", "value": "TRUE"},
    {"key": "pciPassthru.64bitMMIOSizeGB", "value": "128"},
)
POOL = "ResourcePool:resgroup-1"
CLUSTER, GROUP, STORE = (
    "ClusterComputeResource:domain-c1",
    "DistributedVirtualPortgroup:dvportgroup-1",
    "Datastore:ds-1",
)
OFF = {"allowPromiscuous": {"value": False}, "macChanges": {"value": False}, "forgedTransmits": {"value": False}}
WHOLE = {"_typeName": "VirtualPCIPassthrough", "backing": {"_typeName": "VirtualPCIPassthroughDeviceBackingInfo"}}
VF_NIC = {"_typeName": "VirtualSriovEthernetCard", "macAddress": "00:50:56:00:00:09", "backing": {}}
P2P = ({"key": "pciPassthru.allowP2P", "value": "TRUE"}, {"key": "pciPassthru.RelaxACSforP2P", "value": "TRUE"})
APART = {"_typeName": "ClusterAntiAffinityRuleSpec", "name": "apart", "enabled": True, "vm": (VM, VM2)}
HA = {"enabled": True, "defaultVmSettings": {"restartPriority": "medium"}}
LOADS = """GPU 00000000:3B:00.0
    Active vGPUs : 1
    vGPU ID : 1
        VM ID : 2103066
        VM Name : train-01
        vGPU Name : GRID A100-10C
        Utilization
            Gpu : {} %
"""


def mark(index, uuid):
    settings = MemberMark("train", index, uuid).settings()
    own = (*({"key": k, "value": v} for k, v in settings.items()), *WINDOW)
    return {"config.extraConfig": own, "config.instanceUuid": uuid}


SUMMARY = {"name": "shared", "multipleHostAccess": True, "type": "vsan", "capacity": 100, "freeSpace": 50}


def controller(name):
    return {"_typeName": name, "key": 1000}


def pool(limit=-1, reservation=0):
    return {"memoryAllocation": {"limit": limit, "reservation": reservation}}


def store(**changed):
    info = {"info": {"vmfs": {"ssd": changed.pop("ssd")}}} if "ssd" in changed else {}
    return {STORE: {"summary": SUMMARY | changed} | info}


def service(running=False, policy="off", key="TSM-SSH"):
    return {"key": key, "running": running, "policy": policy}


def services(*changed):
    usual = (service(), service(key="TSM"), service(running=True, policy="on", key="ntpd"))
    return {"config.service.service": tuple({s["key"]: s for s in (*usual, *changed)}.values())}


def healthy(world):
    """Two hosts with a GPU each, and two VMs of one set that train; every rule passes, or is about nothing there."""
    vnics = (
        *world.host_properties["config.network.vnic"],
        {"device": "vmk0", "portgroup": "mgmt", "spec": {"mtu": 1500}},
    )
    host = world.host_properties | services() | {
        "triggeredAlarmState": (),
        "config.lockdownMode": "lockdownNormal",
        "config.dateTimeInfo.ntpConfig": {"server": ("ntp1.example.com",)},
        "option:Syslog.global.logHost": "tcp://logs.example.com:514",
        "config.powerSystemInfo": {"currentPolicy": {"shortName": "static"}},
        "hardware.numaInfo": {"numNodes": 2},
        "hardware.memorySize": 512 * 2**30,
        "summary.hardware.numCpuCores": 64,
        "summary.hardware.numCpuThreads": 128,
        "config.network.vnic": vnics,
        "config.network.portgroup": ({"spec": {"name": "mgmt", "vswitchName": "vSwitch0"}},),
        "config.network.vswitch": ({"name": "vSwitch0", "pnic": ("vmnic0", "vmnic1")},),
        "probe:nvidia-smi vgpus": LOADS.format(40),
    }  # fmt: skip
    nic = {"_typeName": "VirtualVmxnet3", "macAddress": "00:50:56:00:00:01", "connectable": {"connected": True},
           "deviceInfo": {"label": "Network adapter 1"}}  # fmt: skip
    disk = {"_typeName": "VirtualDisk", "key": 2000, "controllerKey": 1000, "backing": None}
    own = (d for d in world.vm_properties["config.hardware.device"] if d["_typeName"] != "VirtualDisk")
    vm = world.vm_properties | {
        "config.hardware.device": (controller("ParaVirtualSCSIController"), disk, *own, nic),
        "resourcePool": POOL,
        "config.hardware.numCPU": 16,
        "config.hardware.memoryMB": 128 * 1024,
        "config.latencySensitivity": {"level": "normal"},
        "config.template": False,
        "datastore": (STORE,),
    }
    config = {"dasConfig": HA, "dasVmConfig": (), "rule": (APART,)}
    return {
        ESX: host,
        ESX2: host | {"name": "esx02"},
        VM: vm | mark(1, "u-1"),
        VM2: vm | mark(2, "u-2") | {"name": "train-02", "runtime.host": ESX2},
        CLUSTER: {"name": "gpu-a", "configurationEx": config},
        GROUP: {"key": "dvportgroup-1", "config.defaultPortConfig": {"securityPolicy": OFF,
                "uplinkTeamingPolicy": {"uplinkPortOrder": {"activeUplinkPort": ("up",)}}}},
        STORE: {"name": "shared", "summary": SUMMARY},
        POOL: {"name": "research", "parent": "ResourcePool:resgroup-0", "owner": CLUSTER, "config": pool(limit=524288)},
    }  # fmt: skip


RECORDS = Records(
    TODAY,
    ssh_login="key",
    surplus=(),
    options={"event.maxAge": "30", "event.maxAgeEnabled": "true"},
    spare={CLUSTER: ""},
    drift=(),
    measured={"train": LatestBenchmark(TODAY - timedelta(3), "all_reduce", 180.0, 185.0)},
    checked={"train-01": HealthChecked(TODAY), "train-02": HealthChecked(TODAY - timedelta(7))},
    attestations={r: Attestation(r, "yes", "ops", TODAY, TODAY + timedelta(90)) for r in QUESTIONS},
)


def with_keys(devices):
    """The devices as vSphere shows them: each has a key."""
    if not isinstance(devices, tuple):
        return {"config.hardware.device": devices}
    return {"config.hardware.device": tuple({"key": 4000 + n} | d for n, d in enumerate(devices))}


def assessed(world, changes=None, records=RECORDS, on=(VM, VM2), **planned):
    objects = healthy(world)
    for ref, properties in (changes or {}).items():
        objects[ref] = objects.get(ref, {}) | properties
    for ref in (VM, VM2):
        objects[ref] |= with_keys(objects[ref]["config.hardware.device"])
    view = world.view(objects, **planned)
    view = replace(view, states=observe(view.estate, kinds()))
    return assessment.assess(assessment.farm_of(view, records, frozenset(on))).findings


def of(found, rule):
    return [a.verdict for a in found if a.rule == rule]


def smi(load):
    return {"probe:nvidia-smi vgpus": LOADS.format(load)}


def alarm(status, acknowledged=False):
    return {"triggeredAlarmState": ({"overallStatus": status, "acknowledged": acknowledged},)}


def cluster(**config):
    return {CLUSTER: {"configurationEx": {"dasConfig": HA, "dasVmConfig": (), "rule": (APART,)} | config}}


def snapshot(days):
    return {"snapshot": {"rootSnapshotList": ({"createTime": f"{TODAY - timedelta(days)}T10:00:00+00:00"},)}}


def group(**on):
    return {GROUP: {"config.defaultPortConfig": {"securityPolicy": OFF | {k: {"value": v} for k, v in on.items()}}}}


def small_mtu(world):
    (only,) = healthy(world)[ESX]["config.network.rdmaDevice"]
    return {"config.network.rdmaDevice": (only | {"connectionInfo": {"state": "active", "mtu": 1024}},)}


def device(world, *more, without=()):
    own = [d for d in healthy(world)[VM]["config.hardware.device"] if d["_typeName"] not in without]
    return {"config.hardware.device": (*own, *more)}


def hopper(driver):
    """A host with an H100 and a version of the vGPU manager."""
    gpu = {"id": "0000:3b:00.0", "vendorId": 0x10DE, "deviceId": 0x2331, "classId": 0x0302, "subDeviceId": 0x1626,
           "deviceName": "GH100 [H100 PCIe]"}  # fmt: skip
    vib = {"name": "NVD-AIE_ESXi_8.0.0_Driver", "version": f"{driver}-1OEM.800.1.0.20613240"}
    return {"hardware.pciDevice": (gpu,), "software": (vib,)}


UVM_ON = ({"key": "pciPassthru0.cfg.enable_uvm", "value": "1"},)


def shared_pool(**config):
    """The pool of two sets: one VM each."""
    other = MemberMark("other", 1, "u-2").settings().items()
    marked = tuple({"key": k, "value": v} for k, v in other)
    return {POOL: {"config": pool(**config)}, VM2: {"config.extraConfig": (*marked, *WINDOW)}}


def window(**changed):
    kept = {o["key"].partition(".")[2]: o["value"] for o in WINDOW} | changed
    mine = tuple({"key": f"pciPassthru.{k}", "value": v} for k, v in kept.items())
    own = tuple(o for o in mark(1, "u-1")["config.extraConfig"] if o not in WINDOW)
    return {"config.extraConfig": (*own, *mine)}


HIGH = {"level": "high"}
DEVICES = ("VirtualPCIPassthrough", "VirtualVmxnet3Vrdma")
PVSCSI = ("ParaVirtualSCSIController",)
NEVER = {"restartPriority": "disabled"}
OLD = {"version": "6.7.0", "build": "1"}
ONE_NIC = {"config.network.vswitch": ({"name": "vSwitch0", "pnic": ("vmnic0",)},)}
LOW_LATENCY = {"config.latencySensitivity": {"level": "high"}, "config.memoryReservationLockedToMax": False}
NO_PFC = {"query:nmlx5_core": "max_vfs=8", "probe:dcb:vmnic4": "PFC Enabled: false\n"}
NO_PAUSE = "NIC     Pause Params Supported  Pause RX  Pause TX\n------  ---  ---  ---\nvmnic4  true  false  false\n"
BALANCED = {"config.powerSystemInfo": {"currentPolicy": {"shortName": "dynamic"}}}
OUTDATED = LatestBenchmark(TODAY - timedelta(31), "all_reduce", 180, 185)
NO_SWITCH = {"config.network.proxySwitch": ()}
TEAMED = {"config.network.proxySwitch": ({"dvsUuid": "50 2b", "pnic": ("key-vmnic4", "key-x")},)}
BOTH = {"_typeName": "ClusterAntiAffinityRuleSpec", "name": "apart", "enabled": False, "vm": (VM, VM2)}
UNPLUGGED = {"_typeName": "VirtualVmxnet3", "macAddress": "00:50:56:00:00:02", "connectable": {"connected": False}}
DRIVER = ({"name": "NVIDIA-AIE_ESXi_7.0.2_Driver", "version": "525.60.12-1OEM.702.0.0.17630552"},)

# rule, what is changed (a function of the world where it takes one), the worst verdict
CHANGES = [
    ("reliability.spread", {VM2: {"runtime.host": ESX}}, "fail"),
    ("reliability.anti-affinity", cluster(rule=()), "warn"),
    ("reliability.anti-affinity", cluster(rule=(BOTH,)), "warn"),
    ("reliability.anti-affinity", cluster(rule=(APART | {"vm": (VM,)},)), "warn"),
    ("reliability.ha", cluster(dasConfig={"enabled": False}), "warn"),
    ("reliability.restart-priority", cluster(dasVmConfig=({"key": VM, "dasSettings": NEVER},)), "fail"),
    ("reliability.restart-priority", cluster(dasConfig=HA | {"defaultVmSettings": NEVER}), "fail"),
    ("reliability.alarms", {ESX: alarm("red")}, "fail"),
    ("reliability.alarms", {ESX: alarm("red", acknowledged=True)}, "warn"),
    ("reliability.alarms", {ESX: alarm("yellow")}, "warn"),
    ("reliability.same-build", {ESX2: {"config.product": {"version": "7.0.3", "build": "20328353"}}}, "warn"),
    ("reliability.same-driver", {ESX2: {"software": DRIVER}}, "warn"),
    ("reliability.snapshots", {VM: snapshot(2)}, "warn"),
    ("reliability.snapshots", {VM: snapshot(8)}, "fail"),
    ("reliability.management-network", {ESX: ONE_NIC}, "warn"),
    ("reliability.shared-storage", store(multipleHostAccess=False), "warn"),
    ("reliability.datastore-space", store(freeSpace=25), "warn"),
    ("reliability.datastore-space", store(freeSpace=15), "fail"),
    ("reliability.datastore-space", store(freeSpace=None), "unknown"),
    ("cost.storage-class", store(type="VMFS", ssd=False), "warn"),
    ("cost.storage-class", store(type="VMFS", ssd=True), "pass"),
    ("cost.storage-class", store(type="VMFS"), "unknown"),
    ("cost.storage-class", store(type="NFS41"), "unknown"),
    ("cost.orphans", {VM: {"runtime.connectionState": "orphaned"}}, "fail"),
    ("cost.reservations", {VM: {"config.cpuAllocation.reservation": 4000}}, "warn"),
    ("cost.reservations", {VM: {"config.cpuAllocation.reservation": 4000, "config.latencySensitivity": HIGH}}, "pass"),
    ("cost.reservations", lambda w: {VM2: device(w, without=DEVICES)}, "warn"),
    ("security.pool-limits", shared_pool(limit=-1), "warn"),
    ("security.pool-limits", shared_pool(limit=-1, reservation=65536), "pass"),
    ("security.pool-limits", {POOL: {"config": pool(limit=65536)}}, "fail"),
    ("performance.disk-controller", lambda w: {VM: device(w, controller("VirtualLsiLogicController"), without=PVSCSI)},
     "warn"),
    ("performance.mmio-size", {VM: window(use64bitMMIO="FALSE")}, "fail"),
    ("performance.mmio-size", {VM: window(**{"64bitMMIOSizeGB": "64"})}, "fail"),
    ("performance.mmio-size", lambda w: {VM: device(w, w.vgpu)}, "fail"),
    ("security.ssh-off", {ESX: services(service(running=True))}, "warn"),
    ("security.ssh-off", {ESX: services(service(policy="on"))}, "warn"),
    ("security.shell-off", {ESX: services(service(running=True, key="TSM"))}, "warn"),
    ("security.lockdown", {ESX: {"config.lockdownMode": "lockdownDisabled"}}, "warn"),
    ("security.syslog", {ESX: {"option:Syslog.global.logHost": ""}}, "fail"),
    ("security.syslog", {ESX: {"option:Syslog.global.logHost": None}}, "unknown"),
    ("security.time", {ESX: {"config.dateTimeInfo.ntpConfig": {"server": ()}}}, "fail"),
    ("security.time", {ESX: services(service(key="ntpd"))}, "fail"),
    ("security.port-group-policy", group(forgedTransmits=True), "warn"),
    ("security.port-group-policy", group(allowPromiscuous=True), "fail"),
    ("security.tools", {VM: {"guest.toolsVersionStatus2": "guestToolsTooOld"}}, "warn"),
    ("security.esxi-version", {ESX: {"config.product": OLD, "summary.config.product": OLD}}, "fail"),
    ("cost.gpu-load", {ESX: smi(0)}, "warn"),
    ("cost.unused-nics", lambda w: {VM: device(w, UNPLUGGED)}, "warn"),
    ("cost.powered-off", lambda w: {VM: device(w, WHOLE) | {"runtime.powerState": "poweredOff"}}, "warn"),
    ("operations.numa-fit", {VM: {"config.hardware.numCPU": 33}}, "warn"),
    ("operations.unified-memory", {VM: mark(1, "u-1") | {"config.extraConfig": UVM_ON}}, "warn"),
    ("reliability.vgpu-iommu-fault", {ESX: hopper("535.216.01")}, "fail"),
    ("reliability.vgpu-iommu-fault", {ESX: hopper("525.147.01")}, "warn"),
    ("reliability.vgpu-iommu-fault", {ESX: hopper("535.247.02")}, "pass"),
    ("reliability.vgpu-iommu-fault", {ESX: hopper("550.90.05")}, "pass"),
    ("operations.in-service", {ESX: {"runtime.connectionState": "notResponding"}}, "fail"),
    ("operations.reboot-pending", {ESX: {"summary.rebootRequired": True}}, "warn"),
    ("operations.no-question", {VM: {"runtime.question": {"id": "1", "text": "which disk?"}}}, "fail"),
    ("performance.rdma-nic", lambda w: {VM: device(w, without=("VirtualVmxnet3Vrdma",))}, "warn"),
    ("performance.rdma-path", {ESX: NO_SWITCH, ESX2: NO_SWITCH}, "warn"),
    ("performance.rdma-mtu", lambda w: {ESX: small_mtu(w)}, "warn"),
    ("performance.rdma-uplink", {ESX: TEAMED}, "warn"),
    ("performance.peer-to-peer", lambda w: {VM: device(w, w.vgpu)}, "warn"),
    ("performance.lossless", {ESX: NO_PFC}, "unknown"),
    ("performance.lossless", {ESX: NO_PFC | {"probe:pause-params": NO_PAUSE}}, "warn"),
    ("performance.gpudirect", lambda w: {VM: device(w, VF_NIC)}, "warn"),
    ("performance.power-policy", {ESX: BALANCED}, "warn"),
    ("performance.latency", {VM: LOW_LATENCY}, "fail"),
    ("performance.cpu-overcommit", {VM: {"config.hardware.numCPU": 256}}, "warn"),
    ("performance.memory", {VM: {"config.memoryReservationLockedToMax": False}}, "fail"),
    ("performance.hot-add", {VM: {"config.cpuHotAddEnabled": True}}, "warn"),
    ("performance.hardware-version", {VM: {"config.version": "vmx-10"}}, "fail"),
]  # fmt: skip

RECORDS_CHANGED = [
    ("reliability.spare-host", {"spare": {CLUSTER: "if esx01 failed, train-01 could not restart"}}, "warn"),
    ("reliability.spare-host", {"spare": {}}, "unknown"),
    ("security.ssh-login", {"ssh_login": "password"}, "warn"),
    ("security.ssh-login", {"ssh_login": None}, "unknown"),
    ("security.account", {"surplus": ("Global.Licenses",)}, "fail"),
    ("security.account", {"surplus": None}, "unknown"),
    ("security.events-kept", {"options": {"event.maxAge": "7"}}, "warn"),
    ("security.events-kept", {"options": {}}, "unknown"),
    ("operations.drift", {"drift": ("train-01 hardware version",)}, "warn"),
    ("operations.drift", {"drift": None}, "unknown"),
    ("operations.benchmark-recent", {"measured": {"train": OUTDATED}}, "warn"),
    ("operations.benchmark-recent", {"measured": {}}, "unknown"),
    ("performance.bus-bandwidth", {"measured": {"train": LatestBenchmark(TODAY, "all_reduce", 150, 185)}}, "fail"),
    ("performance.gpu-errors", {"checked": {"train-01": HealthChecked(TODAY, (31,))}}, "warn"),
    ("performance.gpu-errors", {"checked": {"train-01": HealthChecked(TODAY, (31, 79), (79,))}}, "fail"),
    ("performance.gpu-errors", {"checked": {"train-01": HealthChecked(TODAY - timedelta(8))}}, "unknown"),
    ("performance.gpu-errors", {"checked": {}}, "unknown"),
    ("performance.bus-bandwidth", {"measured": {"train": LatestBenchmark(TODAY, "all_reduce", 150)}}, "unknown"),
]  # fmt: skip


@pytest.mark.parametrize("rule", [r.id for r in assessment.rules()])
def test_every_rule_passes_on_a_healthy_farm_or_is_about_nothing_there(world, rule):
    assert set(of(assessed(world), rule)) <= {"pass"}


@pytest.mark.parametrize(("rule", "change", "verdict"), CHANGES)
def test_one_change_is_found(world, rule, change, verdict):
    found = of(assessed(world, change(world) if callable(change) else change), rule)
    assert max(found, key=VERDICTS.index) == verdict


@pytest.mark.parametrize(("rule", "change", "verdict"), RECORDS_CHANGED)
def test_a_record_is_found(world, rule, change, verdict):
    assert verdict in of(assessed(world, records=replace(RECORDS, **change)), rule)


def test_gpus_that_no_vm_uses_are_found(world):
    assert set(of(assessed(world, on=()), "cost.gpus-assigned")) == {"warn"}


def test_every_rule_has_a_farm_that_passes_and_one_that_does_not(world):
    passing = {a.rule for a in assessed(world) if a.verdict == "pass"}
    with_nic = device(world, VF_NIC) | {"config.extraConfig": (*P2P, *mark(1, "u-1")["config.extraConfig"])}
    passing |= {a.rule for a in assessed(world, {VM: with_nic}) if a.verdict == "pass"}
    passing |= {a.rule for a in assessed(world, {VM: device(world, WHOLE)}) if a.verdict == "pass"}
    passing |= {a.rule for a in assessed(world, {ESX: hopper("535.247.02")}) if a.verdict == "pass"}
    failing = (
        {r for r, _, v in (*CHANGES, *RECORDS_CHANGED) if v in ("warn", "fail")}
        | {"cost.gpus-assigned"}
        | set(QUESTIONS)
    )
    everything = {r.id for r in assessment.rules()}
    assert passing == everything
    assert failing == everything
    assert len(everything) >= 35
    assert {i.partition(".")[0] for i in everything} == set(PILLARS)


@pytest.mark.parametrize("rule", QUESTIONS)
def test_an_answer_counts_with_its_date(world, rule):
    def verdict(**changed):
        given = RECORDS.attestations | {rule: replace(RECORDS.attestations[rule], **changed)}
        return next(iter(of(assessed(world, records=replace(RECORDS, attestations=given)), rule)), "none")

    assert verdict() == "pass"
    assert verdict(answer="no") == "fail"
    assert verdict(answer="not applicable") == "none"
    assert verdict(expires=TODAY - timedelta(1)) == "unknown"
    assert verdict(expires=TODAY) == "pass"
    without = replace(RECORDS, attestations={})
    assert of(assessed(world, records=without), rule) == ["unknown"]


def test_a_property_that_cannot_be_read_is_unknown_and_never_a_pass(world):
    for rule in assessment.rules():
        for managed, paths in rule.reads.items():
            for path in paths:
                changes = {ref: {path: world.absent} for ref in healthy(world) if ref.startswith(f"{managed}:")}
                verdicts = of(assessed(world, changes), rule.id)
                usual = of(assessed(world), rule.id)
                assert verdicts.count("pass") <= usual.count("pass"), (rule.id, path)


def test_a_plan_that_sets_time_servers_passes(world):
    changes = {ref: {"config.dateTimeInfo.ntpConfig": {"server": ()}} for ref in (ESX, ESX2)}
    planned = {(ref, "ntp"): {"servers": ("ntp1",)} for ref in (ESX, ESX2)}
    assert of(assessed(world, changes, planned=planned), "security.time") == ["pass", "pass"]


def test_templates_and_vms_without_devices_do_not_train(world):
    changes = {VM: {"config.template": True}, VM2: {"config.hardware.device": (), "config.extraConfig": ()}}
    view = world.view({ref: healthy(world)[ref] | changes.get(ref, {}) for ref in healthy(world)})
    assert assessment.farm_of(view, RECORDS, frozenset()).vms == ()


def test_a_verdict_needs_evidence(world):
    rule = next(r for r in assessment.rules() if r.id == "security.time")
    case = PillarCase(rule, assessment.farm_of(world.view(healthy(world)), RECORDS, frozenset()), ESX, "esx01")
    for word in (case.passed, case.warned, case.failed):
        with pytest.raises(ValueError, match="evidence"):
            word("fine")
    assert case.unknown("not read").target.name == "esx01"


def test_a_rule_that_is_about_nothing_is_named(world):
    made = assessment.assess(assessment.farm_of(world.view({}), RECORDS, frozenset(), frozenset()))
    assert {f.rule for f in made.findings}.isdisjoint(made.not_applicable)
    assert {f.rule for f in made.findings} | {*made.not_applicable} == {r.id for r in assessment.rules()}
    assert "security.time" in made.not_applicable


def findings_of(world, rule):
    """What a rule finds in all farms that make it warn or fail."""
    changed = [c(world) if callable(c) else c for r, c, v in CHANGES if r == rule and v in ("warn", "fail")]
    records = [replace(RECORDS, **c) for r, c, v in RECORDS_CHANGED if r == rule and v in ("warn", "fail")]
    on = () if rule == "cost.gpus-assigned" else (VM, VM2)
    found = [f for change in changed or [None] for f in assessed(world, change, on=on)]
    found += [f for record in records for f in assessed(world, records=record)]
    return [f for f in found if f.rule == rule and f.verdict in ("warn", "fail")]


@pytest.mark.parametrize("rule", [r for r in assessment.rules() if r.id not in QUESTIONS], ids=lambda r: r.id)
def test_a_playbook_corrects_what_a_rule_finds_or_the_rule_says_why_none_does(world, rule):
    found = findings_of(world, rule.id)
    assert found
    if rule.by_hand:
        assert not any(f.corrections for f in found), "it has a correction: remove by_hand"
        return
    for finding in found:
        assert finding.corrections, f"{rule.id}: {finding.message}: name a correction, or say in by_hand why not"
        for target, lines in plays_of(finding.corrections).items():
            assert target.ref in (ESX, ESX2, VM, VM2)
            assert lines
            for name, value in lines.items():
                kind = kinds()[name]
                assert kind.target == target.kind
                stated = value if isinstance(value, dict) and not kind.keyed else {kind.shorthand: value}
                text = str(stated)
                if not any(word in text for word in PLACEHOLDERS):
                    kind.model_validate(stated)


def test_every_question_says_that_an_operator_answers_it():
    assert {r.by_hand for r in assessment.rules() if r.id in QUESTIONS} == {"an operator answers it"}
