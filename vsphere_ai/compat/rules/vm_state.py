"""Rules about states of a virtual machine in which a step fails or does harm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from vsphere_ai.compat.base import Case, Evidence, Meanings, Paths, Rule
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.state import differences
from vsphere_ai.resources import kinds

API = "vSphere Web Services API reference"
CONNECTION, POWER, SNAPSHOT = "runtime.connectionState", "runtime.powerState", "snapshot"
VERSION = "config.version"
NOT_REACHED: Mapping[str, str] = {
    "disconnected": "reconnect its host",
    "inaccessible": "restore the access of its host to the datastore of the VM",
    "invalid": "repair its configuration file, or register it again",
    "orphaned": "register it again, or remove it from the inventory",
}
PRIVILEGES = "Cryptographic operations"


class VmSuspended(Rule):
    """A suspended VM keeps its devices and settings as they were: its configuration cannot be changed."""

    id = "vm.suspended"
    title = "VM not suspended"
    target = "vm"
    source = f"{API}, ReconfigVM_Task (InvalidPowerState)"
    verdicts: ClassVar[Meanings] = {
        "pass": "powered on or off",
        "warn": "suspended, and this plan does not change it",
        "fail": "suspended, and this plan changes it",
    }
    properties: ClassVar[Paths] = {"VirtualMachine": (POWER,)}
    about_state = True

    def judge(self, case: Case) -> Iterator[Finding]:
        """Look at the power state."""
        power = case.need(POWER)
        if power != "suspended":
            yield case.passed(f"the VM is {power}", (POWER, power))
        elif _is_changed(case):
            yield case.failed("VM is suspended, so its configuration cannot be changed", (POWER, power),
                              help="resume it or power it off first")  # fmt: skip
        else:
            yield case.warned("VM is suspended: it cannot be changed", (POWER, power))


class VmConnected(Rule):
    """VCenter reaches the VM: it is registered, and its files can be read. Every call about another one fails."""

    id = "vm.connected"
    title = "VM reachable"
    target = "vm"
    source = f"{API}, VirtualMachineConnectionState"
    verdicts: ClassVar[Meanings] = {
        "pass": "connected",
        "fail": "disconnected, inaccessible, invalid or orphaned",
        "unknown": "its host is not connected",
    }
    properties: ClassVar[Paths] = {"VirtualMachine": (CONNECTION,)}
    about_state = True

    def judge(self, case: Case) -> Iterator[Finding]:
        """Look at the connection state; where the host has none, that is the host's problem."""
        state = case.need(CONNECTION)
        host = case.view.estate.host_of(case.ref)
        if state == "connected":
            yield case.passed("vCenter reaches the VM", (CONNECTION, state))
        elif host is not None and case.view.facts(host.ref).get(CONNECTION) != "connected":
            yield case.unknown(f"{host.name} is not connected", (CONNECTION, state))
        else:
            yield case.failed(f"VM is {state}: vCenter cannot change it or power it", (CONNECTION, state),
                              help=NOT_REACHED.get(str(state), "look at it in the vSphere Client"))  # fmt: skip


class VmSnapshots(Rule):
    """Reverting to a snapshot takes virtual hardware and devices back with it.

    VMware advises a snapshot before the hardware version is raised, so it is allowed. That reverting drops a
    passthrough device or a vGPU that was added later is *unverified*, as is that a memory snapshot of a VM with such a
    device cannot be reverted to.
    """

    id = "vm.snapshots"
    title = "No snapshots"
    target = "vm"
    source = "vSphere Virtual Machine Administration 7.0, Upgrade the Compatibility of a Virtual Machine Manually"
    verdicts: ClassVar[Meanings] = {
        "pass": "no snapshot, or nothing changes that a snapshot keeps",
        "warn": "a snapshot, and this plan changes the hardware version or gives or takes devices",
    }
    properties: ClassVar[Paths] = {"VirtualMachine": (SNAPSHOT, VERSION, POWER)}
    needed_by = frozenset({"device_groups", "hardware", "pci_devices", "pvrdma", "vgpu"})

    def judge(self, case: Case) -> Iterator[Finding]:
        """Count the snapshots, and see what changes."""
        power = case.need(POWER)  # shown wherever the VM is shown; a VM without snapshots shows none
        names = tuple(_names((case.view.facts(case.ref).get(SNAPSHOT) or {}).get("rootSnapshotList") or ()))
        upgrade = _is_upgraded(case)
        devices = case.changes("config.hardware.device")
        if not names or not (upgrade or devices):
            yield case.passed(f"{len(names)} snapshots", (SNAPSHOT, ", ".join(names) or "unset"), (POWER, power))
            return
        what = " and ".join(filter(None, ("the hardware version" if upgrade else "", "the devices" if devices else "")))
        yield case.warned(
            f"VM has snapshots ({', '.join(names)}); reverting to one undoes {what} of this plan",
            (SNAPSHOT, ", ".join(names)),
            help="delete the snapshots that are not needed any more",
        )


class VmFaultTolerance(Rule):
    """Fault Tolerance allows no vGPU, no passthrough device and no PVRDMA, and no change of the hardware."""

    id = "vm.fault-tolerance"
    title = "Fault Tolerance off"
    target = "vm"
    source = "vSphere Availability 7.0, vSphere Features Not Supported with Fault Tolerance"
    verdicts: ClassVar[Meanings] = {
        "pass": "not configured",
        "warn": "on, and this plan powers the VM off and on or moves it",
        "fail": "on, and this plan changes the VM",
    }
    properties: ClassVar[Paths] = {"VirtualMachine": ("runtime.faultToleranceState", "config.ftInfo", POWER)}
    about_state = True

    def judge(self, case: Case) -> Iterator[Finding]:
        """Look at the state, and at the configuration where the state is not shown."""
        power = case.need(POWER)
        facts = case.view.facts(case.ref)
        state = facts.get("runtime.faultToleranceState", "notConfigured")
        if state == "notConfigured" and facts.get("config.ftInfo"):
            state = "configured"
        shown = facts.get("runtime.faultToleranceState") or "unset"
        seen: tuple[Evidence, ...] = (("runtime.faultToleranceState", shown), (POWER, power))
        if state == "notConfigured":
            yield case.passed("Fault Tolerance is off", *seen)
        elif _is_changed(case):
            yield case.failed("VM is protected by Fault Tolerance, which does not allow this change", *seen,
                              help="turn Fault Tolerance off for it first")  # fmt: skip
        else:
            yield case.warned("VM is protected by Fault Tolerance: its secondary VM stops and starts with it", *seen)


class VmEncrypted(Rule):
    """An encrypted VM, such as one with a virtual TPM, powers on only where its host gets its key.

    Which privileges a reconfigure takes is *unverified*; they are in the group Cryptographic operations.
    """

    id = "vm.encrypted"
    title = "VM not encrypted"
    target = "vm"
    source = "vSphere Security 7.0, Prerequisites and Required Privileges for Virtual Machine Encryption Tasks"
    verdicts: ClassVar[Meanings] = {
        "pass": "not encrypted",
        "warn": "encrypted, or with a virtual TPM",
    }
    properties: ClassVar[Paths] = {"VirtualMachine": ("config.keyId", "config.hardware.device")}
    about_state = True

    def judge(self, case: Case) -> Iterator[Finding]:
        """Look for a key and for the device."""
        tpm = any(d.get("_typeName") == "VirtualTPM" for d in case.need("config.hardware.device"))
        key = (case.view.facts(case.ref).get("config.keyId") or {}).get("keyId")
        if not key and not tpm:
            yield case.passed("not encrypted", ("config.keyId", "unset"))
            return
        what = "has a virtual TPM" if tpm else "is encrypted"
        yield case.warned(
            f"VM {what}: its key provider has to answer when it powers on",
            ("config.keyId", key or "unset"),
            help=f"check the key provider; the account may need privileges of the group {PRIVILEGES}",
        )


class VmInVapp(Rule):
    """A vApp has a start order of its own, which a power cycle of one of its VMs does not follow."""

    id = "vm.vapp"
    title = "VM not in a vApp"
    target = "vm"
    source = f"{API}, VirtualMachine.parentVApp"
    verdicts: ClassVar[Meanings] = {"pass": "in no vApp", "warn": "in a vApp"}
    properties: ClassVar[Paths] = {"VirtualMachine": ("parentVApp", POWER)}
    about_state = True

    def judge(self, case: Case) -> Iterator[Finding]:
        """Look for a vApp above the VM."""
        power = case.need(POWER)
        ref = case.view.facts(case.ref).get("parentVApp")
        vapp = case.view.estate.get(ref)
        if not ref:
            yield case.passed("in no vApp", (POWER, power), ("parentVApp", "unset"))
        else:
            name = vapp.name if vapp else ref
            yield case.warned(f"VM is in the vApp {name}, whose start order a single VM does not follow",
                              ("parentVApp", name))  # fmt: skip


class VmMethods(Rule):
    """Backup and replication products disable methods of a VM while they work on it; a call of one is refused."""

    id = "vm.methods"
    title = "Methods not disabled"
    target = "vm"
    source = f"{API}, ManagedEntity.disabledMethod and MethodDisabled"
    verdicts: ClassVar[Meanings] = {
        "pass": "the methods this plan calls are not disabled, and no task is running",
        "warn": "a task is running on the VM; a run waits for its end, up to 10 minutes",
        "fail": "a method this plan calls is disabled",
    }
    properties: ClassVar[Paths] = {"VirtualMachine": ("disabledMethod", "recentTask", VERSION, POWER)}
    about_state = True

    def judge(self, case: Case) -> Iterator[Finding]:
        """Compare the methods that are needed in the VM's state with those that are disabled, then look for tasks."""
        power, facts = case.need(POWER), case.view.facts(case.ref)
        disabled = sorted(_needed(case, str(power)) & {*(facts.get("disabledMethod") or ())})
        refs = tuple(facts.get("recentTask") or ())
        tasks = sorted(_running(case, refs))
        if disabled:
            yield case.failed(
                f"VM has disabled methods: {', '.join(disabled)}",
                ("disabledMethod", ", ".join(disabled)),
                help="wait until the product that disabled them, often a backup, has ended; or enable them with it",
            )
        elif tasks:
            yield case.warned(f"VM is being changed: {', '.join(tasks)}; a run waits for it",
                              ("recentTask", ", ".join(tasks)))  # fmt: skip
        else:
            yield case.passed(
                "nothing else is at work on it", (POWER, power), ("recentTask", ", ".join(refs) or "unset")
            )


def _is_changed(case: Case) -> bool:
    return bool(case.view.planned_kinds(case.ref))


def _is_upgraded(case: Case) -> bool:
    planned = case.planned(VERSION)
    return planned is not None and f"vmx-{planned.value}" != case.view.facts(case.ref).get(VERSION)


def _only_upgraded(case: Case) -> bool:
    """Return whether the hardware version is all that this plan changes of the VM: no reconfigure is sent then."""
    planned, changed = case.planned(VERSION), case.view.planned_kinds(case.ref)
    if planned is None or len(changed) > 1:
        return False
    before = kinds()[planned.kind].observe(case.view.facts(case.ref), case.view.estate)
    return [c.name for c in differences(before, case.view.state(case.ref, planned.kind))] == [planned.field]


def _names(trees: Any) -> Iterator[str]:
    for tree in trees:
        yield str(tree.get("name"))
        yield from _names(tree.get("childSnapshotList") or ())


def _needed(case: Case, power: str) -> set[str]:
    """Return the methods that are called, less those that the power state disables by itself."""
    on = power == "poweredOn"
    if case.use == "move":
        return {"MigrateVM_Task"}
    if not _is_changed(case):
        return {"PowerOffVM_Task"} if on else set()
    upgrades = not on and _is_upgraded(case)
    sent = set() if _only_upgraded(case) else {"ReconfigVM_Task"}
    return {*sent, *(["PowerOffVM_Task"] if on else []), *(["UpgradeVM_Task"] if upgrades else [])}


def _running(case: Case, refs: Any) -> Iterator[str]:
    for ref in refs:
        task = case.view.estate.get(ref)
        if task is not None and task.get("info.state") in ("queued", "running"):
            yield str(task.get("info.descriptionId"))
