"""Rules about states of a virtual machine in which a step fails or does harm."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from vsphere_ai.compat.base import Evidence, RuleCase, vm_rule
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.state import differences
from vsphere_ai.resources import kinds
from vsphere_ai.resources.topics import Topic

API = "vSphere Web Services API reference"
CONNECTION, POWER, SNAPSHOT = "runtime.connectionState", "runtime.powerState", "snapshot"
VERSION, FAULT_TOLERANCE = "config.version", "runtime.faultToleranceState"
CRYPTO_STATE = "runtime.cryptoState"
NOT_REACHED: Mapping[str, str] = {
    "disconnected": "reconnect its host",
    "inaccessible": "restore the access of its host to the datastore of the VM",
    "invalid": "repair its configuration file, or register it again",
    "orphaned": "register it again, or remove it from the inventory",
}


@vm_rule(
    "vm.suspended",
    "VM not suspended",
    source=f"{API}, ReconfigVM_Task (InvalidPowerState)",
    verdicts={
        "pass": "powered on or off",
        "warn": "suspended, and this plan does not change it",
        "fail": "suspended, and this plan changes it",
    },
    reads=(POWER,),
    about_state=True,
)
def vm_suspended(case: RuleCase) -> Finding:
    """A suspended VM keeps its devices and settings as they were: its configuration cannot be changed."""
    power = case.read(POWER)
    if power.value != "suspended":
        return case.passed(f"the VM is {power.value}", power)
    if _is_changed(case):
        help = "resume it or power it off first"
        return case.failed("VM is suspended, so its configuration cannot be changed", power, help=help)
    return case.warned("VM is suspended: it cannot be changed", power)


@vm_rule(
    "vm.connected",
    "VM reachable",
    source=f"{API}, VirtualMachineConnectionState",
    verdicts={
        "pass": "connected",
        "fail": "disconnected, inaccessible, invalid or orphaned",
        "unknown": "its host is not connected",
    },
    reads=(CONNECTION,),
    about_state=True,
)
def vm_connected(case: RuleCase) -> Finding:
    """The VM is reached by vCenter: it is registered, and its files can be read. Every call about another one fails."""
    state = case.read(CONNECTION)
    host = case.view.estate.host_of(case.ref)
    if state.value == "connected":
        return case.passed("vCenter reaches the VM", state)
    if host is not None and case.view.facts(host.ref).get(CONNECTION) != "connected":
        return case.unknown(f"{host.name} is not connected", state)
    help = NOT_REACHED.get(str(state.value), "look at it in the vSphere Client")
    return case.failed(f"VM is {state.value}: vCenter cannot change it or power it", state, help=help)


@vm_rule(
    "vm.snapshots",
    "No snapshots",
    source="vSphere Virtual Machine Administration 7.0, Upgrade the Compatibility of a Virtual Machine Manually",
    verdicts={
        "pass": "no snapshot, or nothing changes that a snapshot keeps",
        "warn": "a snapshot, and this plan changes the hardware version or gives or takes devices",
    },
    reads=(SNAPSHOT, VERSION, POWER),
    about=Topic.DEVICE_GROUPS | Topic.VIRTUAL_HARDWARE | Topic.WHOLE_DEVICES | Topic.PVRDMA | Topic.VGPU,
)
def vm_snapshots(case: RuleCase) -> Finding:
    """Reverting to a snapshot takes virtual hardware and devices back with it.

    VMware advises a snapshot before the hardware version is raised, so it is allowed. That reverting drops a
    passthrough device or a vGPU that was added later is *unverified*, as is that a memory snapshot of a VM with such a
    device cannot be reverted to.
    """
    power = case.read(POWER)  # shown wherever the VM is shown; a VM without snapshots shows none
    names = list(_names((case.facts.get(SNAPSHOT) or {}).get("rootSnapshotList") or ()))
    seen = (SNAPSHOT, ", ".join(names) or "unset")
    undone = ["the hardware version"] * _is_upgraded(case) + ["the devices"] * case.changes("config.hardware.device")
    if not names or not undone:
        return case.passed(f"{len(names)} snapshots", seen, power)
    message = f"VM has snapshots ({seen[1]}); reverting to one undoes {' and '.join(undone)} of this plan"
    return case.warned(message, seen, help="delete the snapshots that are not needed any more")


@vm_rule(
    "vm.fault-tolerance",
    "Fault Tolerance off",
    source="vSphere Availability 7.0, vSphere Features Not Supported with Fault Tolerance",
    verdicts={
        "pass": "not configured",
        "warn": "on, and this plan powers the VM off and on or moves it",
        "fail": "on, and this plan changes the VM",
    },
    reads=(FAULT_TOLERANCE, "config.ftInfo", POWER),
    about_state=True,
)
def vm_fault_tolerance(case: RuleCase) -> Finding:
    """Fault Tolerance allows no vGPU, no passthrough device and no PVRDMA, and no change of the hardware."""
    power, state = case.read(POWER), case.facts.get(FAULT_TOLERANCE)
    seen: tuple[Evidence, ...] = ((FAULT_TOLERANCE, state or "unset"), power)
    if state in (None, "notConfigured") and not case.facts.get("config.ftInfo"):
        return case.passed("Fault Tolerance is off", *seen)
    if _is_changed(case):
        help = "turn Fault Tolerance off for it first"
        return case.failed("VM is protected by Fault Tolerance, which does not allow this change", *seen, help=help)
    return case.warned("VM is protected by Fault Tolerance: its secondary VM stops and starts with it", *seen)


@vm_rule(
    "vm.encrypted",
    "VM not encrypted",
    source="vSphere Security 7.0, Prerequisites and Required Privileges for Virtual Machine Encryption Tasks",
    verdicts={
        "pass": "not encrypted",
        "warn": "encrypted, or with a virtual TPM",
        "fail": "locked, because its key is missing",
    },
    reads=("config.keyId", "config.hardware.device", CRYPTO_STATE),
    about_state=True,
)
def vm_encrypted(case: RuleCase) -> Finding:
    """An encrypted VM, such as one with a virtual TPM, powers on only where its host gets its key.

    While its key is missing it is locked, and can be neither changed nor moved nor powered on. Which privileges a
    reconfigure takes is *unverified*; they are in the group Cryptographic operations.
    """
    tpm = any(d.get("_typeName") == "VirtualTPM" for d in case.need("config.hardware.device"))
    key = (case.facts.get("config.keyId") or {}).get("keyId")
    if not key and not tpm:
        return case.passed("not encrypted", ("config.keyId", "unset"))
    if case.facts.get(CRYPTO_STATE) == "locked":
        help = "make its key provider answer, then unlock the VM in the vSphere Client"
        message = "VM is locked, because its key is missing: nothing can be done with it"
        return case.failed(message, (CRYPTO_STATE, "locked"), help=help)
    message = f"VM {'has a virtual TPM' if tpm else 'is encrypted'}: its key provider has to answer when it powers on"
    help = "check the key provider; the account may need privileges of the group Cryptographic operations"
    return case.warned(message, ("config.keyId", key or "unset"), help=help)


@vm_rule(
    "vm.vapp",
    "VM not in a vApp",
    source=f"{API}, VirtualMachine.parentVApp",
    verdicts={"pass": "in no vApp", "warn": "in a vApp"},
    reads=("parentVApp", POWER),
    about_state=True,
)
def vm_in_vapp(case: RuleCase) -> Finding:
    """A vApp has a start order of its own, which a power cycle of one of its VMs does not follow."""
    power, ref = case.read(POWER), case.facts.get("parentVApp")
    if not ref:
        return case.passed("in no vApp", power, ("parentVApp", "unset"))
    vapp = case.view.estate.get(ref)
    name = vapp.name if vapp else ref
    return case.warned(f"VM is in the vApp {name}, whose start order a single VM does not follow", ("parentVApp", name))


@vm_rule(
    "vm.methods",
    "Methods not disabled",
    source=f"{API}, ManagedEntity.disabledMethod and MethodDisabled",
    verdicts={
        "pass": "the methods this plan calls are not disabled, and no task is running",
        "warn": "a task is running on the VM; a run waits for its end, up to 10 minutes",
        "fail": "a method this plan calls is disabled",
    },
    reads=("disabledMethod", "recentTask", VERSION, POWER),
    about_state=True,
)
def vm_methods(case: RuleCase) -> Finding:
    """Backup and replication products disable methods of a VM while they work on it; a call of one is refused."""
    power, facts = case.read(POWER), case.facts
    disabled = ", ".join(sorted(_needed(case, str(power.value)) & {*(facts.get("disabledMethod") or ())}))
    refs = tuple(facts.get("recentTask") or ())
    tasks = ", ".join(sorted(_running(case, refs)))
    if disabled:
        help = "wait until the product that disabled them, often a backup, has ended; or enable them with it"
        return case.failed(f"VM has disabled methods: {disabled}", ("disabledMethod", disabled), help=help)
    if tasks:
        return case.warned(f"VM is being changed: {tasks}; a run waits for it", ("recentTask", tasks))
    return case.passed("nothing else is at work on it", power, ("recentTask", ", ".join(refs) or "unset"))


def _is_changed(case: RuleCase) -> bool:
    return bool(case.view.planned_kinds(case.ref))


def _is_upgraded(case: RuleCase) -> bool:
    planned = case.planned(VERSION)
    return planned is not None and f"vmx-{planned.value}" != case.facts.get(VERSION)


def _only_upgraded(case: RuleCase) -> bool:
    """Return whether the hardware version is all that this plan changes of the VM: no reconfigure is sent then."""
    planned, changed = case.planned(VERSION), case.view.planned_kinds(case.ref)
    if planned is None or len(changed) > 1:
        return False
    before = kinds()[planned.kind].observe(case.facts, case.view.estate)
    return [c.name for c in differences(before, case.view.state(case.ref, planned.kind))] == [planned.field]


def _names(trees: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for tree in trees:
        yield str(tree.get("name"))
        yield from _names(tree.get("childSnapshotList") or ())


def _needed(case: RuleCase, power: str) -> set[str]:
    """Return the methods that are called, less those that the power state disables by itself."""
    on = power == "poweredOn"
    if case.use == "move":
        return {"MigrateVM_Task"}
    if not _is_changed(case):
        return {"PowerOffVM_Task"} if on else set()
    upgrades = not on and _is_upgraded(case)
    sent = set() if _only_upgraded(case) else {"ReconfigVM_Task"}
    return {*sent, *(["PowerOffVM_Task"] if on else []), *(["UpgradeVM_Task"] if upgrades else [])}


def _running(case: RuleCase, refs: Iterable[str]) -> Iterator[str]:
    for ref in refs:
        task = case.view.estate.get(ref)
        if task is not None and task.get("info.state") in ("queued", "running"):
            yield str(task.get("info.descriptionId"))
