"""VMs in states that make a step fail or do harm, and VMs that are not the user's.

Sources: vSphere Web Services API reference (VirtualMachineRuntimeInfo, FaultToleranceConfigInfo, ManagedByInfo);
Broadcom KB 80472 and 370219 (vCLS VMs).
"""

from __future__ import annotations

from honesty import needs
from honesty.case import Case, Host, Vm
from honesty.faults import fault, named, one, want_of_vm

LOST = ("disconnected", "orphaned", "inaccessible", "invalid")
REAL_CHANGES = ("vgpu", "pvrdma", "tuning", "adapters")


def it_changes(case: Case, vm: str) -> bool:
    """Something is to be changed in it."""
    return needs.changes(case, case.vm(vm))


def it_changes_or_leaves(case: Case, vm: str) -> bool:
    """Something is to be changed in it, or it has to leave its host."""
    return it_changes(case, vm) or case.vm(vm) in needs.evacuated(case)


@fault("a suspended VM", it_changes)
def _suspended(case, rng):
    vm = one(rng, [v for v in case.vms if not v.vgpu])
    if vm:
        vm.on = False
        vm.more["power"] = "suspended"
    return named(vm)


@fault("a VM whose key is missing", it_changes)
def _locked(case, rng):
    """It is off: one that runs has its key (vSphere Security 7.0, virtual machine locked state)."""
    vm = one(rng, [v for v in case.vms if not v.vgpu])
    if vm:
        vm.on = False
        vm.more |= {"tpm": True, "key_missing": True}
    return named(vm)


def starts_or_restarts(case: Case, host: str) -> bool:
    """The host restarts, or a VM powers on there."""
    at = case.host(host)
    return needs.reboots(case, at) or any(needs.goes_off(case, v) for v in case.on(at))


@fault("a host that is patched alive", starts_or_restarts)
def _patched(case, rng):
    """From 8.0.3 on. As a target of vMotion another host may do, so that no VM of its cluster moves."""
    if case.release < "8.0.3":
        return None
    quiet = [h for h in case.hosts if not any(needs.moves(case, v) for m in case.members(h) for v in case.on(m))]
    host = one(rng, quiet)
    if host:
        host.more["partial_maintenance"] = "quickPatchPartialMM"
    return named(host)


@fault("a VM vCenter has lost", it_changes_or_leaves)
def _lost(case, rng):
    vm = one(rng, case.vms)
    if vm:
        vm.more["connection"] = rng.choice(LOST)
    return named(vm)


@fault("a pending question", it_changes_or_leaves)
def _question(case, rng):
    vm = one(rng, case.vms)
    if vm:
        vm.more["question"] = "This virtual machine might have been moved or copied."
    return named(vm)


@fault("fault tolerance", it_changes)
def _ft(case, rng):
    evacuated = needs.evacuated(case)
    vm = one(rng, [v for v in case.vms if v not in evacuated and not v.vgpu])
    if vm:
        vm.more["ft"] = True
    return named(vm)


def method_needed(case: Case, vm: str) -> bool:
    """The method that another product has disabled is needed."""
    (method,) = case.vm(vm).more["disabled_methods"]
    if method == "ReconfigVM_Task":
        return any(key in case.wants(vm) for key in REAL_CHANGES)
    return needs.goes_off(case, case.vm(vm))


@fault("a method that is disabled", method_needed)
def _disabled(case, rng):
    vm = one(rng, case.vms)
    if vm:
        # not PowerOnVM_Task: vCenter lists it for every VM that runs, so that it tells nothing
        vm.more["disabled_methods"] = [rng.choice(("ReconfigVM_Task", "ShutdownGuest"))]
    return named(vm)


@fault("a template in a play", lambda case, vm: True)
def _template(case, rng):
    vm = one(rng, [v for v in case.vms if not v.vgpu])
    if vm is None:
        return None
    vm.on = False
    vm.more["template"] = True
    return want_of_vm(case, rng, lambda v: v is vm, {"adapters": [{"port_group": "dvpg-data"}]})


def never(_case: Case, _about: str) -> bool:
    """It does no harm."""
    return False


@fault("snapshots", never)
def _snapshots(case, rng):
    found = [v for v in case.vms if not {"hardware", "vgpu", "pvrdma"} & case.wants(v.name).keys() and not v.vgpu]
    vm = one(rng, found)
    if vm:
        vm.more["snapshots"] = ["before", "after"]
    return named(vm)


@fault("a VM in a vApp", never)
def _vapp(case, rng):
    vm = one(rng, case.vms)
    if vm:
        vm.more["vapp"] = "training"
    return named(vm)


@fault("a virtual TPM", never)
def _tpm(case, rng):
    vm = one(rng, case.vms)
    if vm:
        vm.more["tpm"] = True
    return named(vm)


def _agent(case: Case, host: Host, name: str, agent: str) -> str:
    case.vms.append(Vm(name, host.name, tools="running", memory_gb=1, more={"agent": agent, "folder": ""}))
    return name


@fault("a vCLS VM", never)
def _vcls(case, rng):
    host = one(rng, [h for h in _emptied(case) if h.cluster])
    return host and _agent(case, host, "vCLS (1)", "vcls")


@fault("an agent of ESX Agent Manager", never)
def _eam(case, rng):
    host = one(rng, _emptied(case))
    return host and _agent(case, host, "guard-01", "com.vmware.vim.eam")


def _emptied(case: Case) -> list[Host]:
    """Hosts that have to be empty for a while and are in service now."""
    down = {name for what, name in case.before if what in ("away", "maintenance")}
    return [h for h in needs.windows(case) if h.name not in down]
