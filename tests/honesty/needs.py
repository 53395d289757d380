"""What a playbook takes on a farm, worked out from both by the test alone: reboots, SSH, evacuations, power cycles.

This is the ground truth the product's plan is held against, so nothing of the product is used here.
"""

from __future__ import annotations

from honesty.case import Case, Host, Vm

BY_COMMAND = ("mig", "kernel")
"""Kinds whose state is read and set with commands on the host."""
OFF_FOR = ("vgpu", "pvrdma", "tuning", "pci_devices")
"""Kinds of a VM that take a power cycle whenever they change something, which they do in every case."""


def reboots_for_graphics(case: Case, host: Host) -> bool:
    """Whether the graphics type of its GPUs changes."""
    type_ = case.wants(host.name).get("graphics", {}).get("default_type")
    return (
        host.gpus > 0 and {"shared_direct": True, "shared": False}.get(type_, host.shared_direct) != host.shared_direct
    )


def reboots(case: Case, host: Host) -> bool:
    """Whether the host restarts."""
    wanted = case.wants(host.name)
    return (
        reboots_for_graphics(case, host)
        or (bool(host.board and host.board.mig_reboots) and mig_then(wanted, host.mig) != host.mig)
        or any(key in wanted for key in ("sriov", "passthrough", "kernel", "roce"))
    )


def enters_maintenance(case: Case, host: Host) -> bool:
    """Whether the host has to be empty for a while."""
    wanted = case.wants(host.name)
    return reboots(case, host) or mig_then(wanted, host.mig) != host.mig or "nics" in wanted


def mig_then(wanted: dict, now: bool) -> bool:
    """Whether MIG is on after the plays."""
    said = wanted.get("mig")
    return now if said is None else said.get("mode", "enabled") == "enabled"


def over_ssh(case: Case, host: Host) -> bool:
    """Whether anything on this host goes over SSH: settings, the reboot, or waiting for its GPUs after it."""
    wanted = case.wants(host.name)
    by_command = any(key in wanted for key in BY_COMMAND)
    return by_command or (reboots(case, host) and (host.gpus > 0 or rolling(case, host).get("reboot") != "api"))


def over_ssh_after_reboot(case: Case, host: Host) -> bool:
    """Whether SSH is needed again once the host is back."""
    return reboots(case, host) and (host.gpus > 0 or any(key in case.wants(host.name) for key in BY_COMMAND))


def rolling(case: Case, host: Host) -> dict:
    """How the host is taken out of service."""
    found: dict = case.wants(host.name).get("rolling", {})
    return found


def changes(case: Case, vm: Vm) -> bool:
    """Whether the VM itself changes."""
    return goes_off_itself(case, vm) or "adapters" in case.wants(vm.name)


def goes_off_itself(case: Case, vm: Vm) -> bool:
    """Whether the VM is powered off for changes of its own."""
    wanted = case.wants(vm.name)
    version = wanted.get("hardware", {}).get("version", vm.hardware)
    return version != vm.hardware or any(key in wanted for key in OFF_FOR)


def evacuated(case: Case) -> list[Vm]:
    """Running VMs whose host enters maintenance mode; agents are vCenter's business."""
    hosts = [h for h in case.hosts if enters_maintenance(case, h) and ("maintenance", h.name) not in case.before]
    return [v for h in hosts for v in case.on(h) if v.on and not v.more.get("agent")]


def moves(case: Case, vm: Vm) -> bool:
    """Whether the VM is to be moved away; one that gets devices is not: another host may lack their network."""
    host = case.host(vm.host)
    return vm in evacuated(case) and rolling(case, host).get("evacuate") == "vmotion" and not changes(case, vm)


def goes_off(case: Case, vm: Vm) -> bool:
    """Whether a running VM is powered off and on again."""
    host = case.host(vm.host)
    leaves = vm in evacuated(case) and rolling(case, host).get("evacuate") in ("power_off", "vmotion")
    return vm.on and (goes_off_itself(case, vm) or (leaves and not moves(case, vm)))


def windows(case: Case) -> list[Host]:
    """Hosts that enter maintenance mode."""
    return [h for h in case.hosts if enters_maintenance(case, h)]
