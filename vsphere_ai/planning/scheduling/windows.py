"""Puts the steps of one target in the order of its window: one maintenance or power cycle for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal, NamedTuple

from vsphere_ai.gpu.devices import nvidia_gpus
from vsphere_ai.language.playbooks.play import Power, Rolling
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import (
    AsPlanned,
    Clone,
    Destroy,
    DeviceChange,
    EnterMaintenance,
    ExitMaintenance,
    GpusAnswer,
    GuestReady,
    Healthy,
    HostBack,
    Invoke,
    Migrate,
    PowerOff,
    PowerOn,
    Reboot,
    Reconfigure,
    RunningVm,
    SetTags,
    Shell,
    StartSsh,
    Step,
    StopSsh,
    WriteLeases,
)
from vsphere_ai.planning.moves.vgpu_moves import Migration

SSH_SERVICE = "TSM-SSH"
NO_DRIVER = "basic"
"""The graphics type of a GPU that no host driver serves: nvidia-smi never answers for it (HostGraphicsInfo)."""
READ_BACK = "read back"
BOOT_JITTER = timedelta(seconds=60)  # bootTime is computed from the uptime and moves by seconds between reads
DRIVER_TIMEOUT = 300  # seconds the driver may take after a boot until nvidia-smi answers


@dataclass(frozen=True)
class HostNow:
    """What decides the shape of a host's window."""

    target: Target
    in_maintenance: bool
    ssh_running: bool
    has_gpus: bool
    start_ssh: bool = True
    """Whether a run may start TSM-SSH there."""
    ssh_with_host: bool = False
    """Whether TSM-SSH starts with the host."""


def host_now(estate: Estate, host: Target, *, start_ssh: bool = True) -> HostNow:
    """Read what decides the shape of a host's window; `start_ssh` is what the inventory says of the SSH service."""
    facts = estate[host.ref]
    services = {s["key"]: s for s in facts.get("config.service.service", ())}
    return HostNow(
        target=host,
        in_maintenance=bool(facts.get("runtime.inMaintenanceMode")),
        ssh_running=bool(services.get(SSH_SERVICE, {}).get("running")),
        has_gpus=any(g.get("graphicsType") != NO_DRIVER for g in nvidia_gpus(facts)),
        start_ssh=start_ssh,
        ssh_with_host=services.get(SSH_SERVICE, {}).get("policy") == "on",
    )


def needs_maintenance(steps: Sequence[Step]) -> bool:
    """Return whether a host's steps need it to be in maintenance mode."""
    return any(s.needs_maintenance or s.needs_reboot for s in steps)


class WindowFlags(NamedTuple):
    """What else decides the shape of a host's window."""

    probes: bool = False
    """Whether reading back needs SSH."""
    begun: bool = False
    """Whether an earlier attempt may have come as far as maintenance."""
    but_last: bool = False
    """Whether some of the host's steps come after all windows of its cluster, and are read back then."""


def host_window(now: HostNow, steps: Sequence[Step], rolling: Rolling, flags: WindowFlags) -> list[Step]:
    """Order one host's steps: enter, change, reboot, what comes after a reboot, read back, leave.

    A host found in maintenance stays in it, SSH found running runs again. SSH that must not be started is not: whether
    it runs when it is needed is asked before (see `ssh_needs`).
    """
    host = now.target
    window = needs_maintenance(steps) and not now.in_maintenance
    reboot = any(s.needs_reboot for s in steps)
    before = [s for s in steps if not s.after_reboot and type(s) is not Step]
    answer = gpus_answer(host, min(DRIVER_TIMEOUT, rolling.timeout))
    # a run that goes on asks for one without knowing the play; a reboot brings one of its own
    after = [answer if _asks_gpus(s) else s for s in steps if s.after_reboot and not (reboot and _asks_gpus(s))]
    at_reboot = reboot and (now.has_gpus or rolling.reboot == "ssh")
    shell = flags.probes or at_reboot or any(isinstance(s, Shell) or _asks_gpus(s) for s in steps)
    ordered: list[Step] = []
    if window:
        ordered.append(_enter(host, rolling, begun=flags.begun))
    switches = shell and not now.ssh_running and now.start_ssh
    if switches:
        ordered.append(StartSsh(target=host, summary=f"start {SSH_SERVICE}"))
    ordered += before
    if reboot:
        ordered += _reboot(host, rolling)
        if (shell or now.ssh_running) and now.start_ssh:
            ordered.append(StartSsh(target=host, summary=f"start {SSH_SERVICE} again after boot"))
        if now.has_gpus:
            ordered.append(answer)
    ordered += after
    ordered.append(AsPlanned(target=host, but_last=flags.but_last, summary=READ_BACK))
    # a reboot starts a service of that policy, also one that was stopped
    if switches or (reboot and now.ssh_with_host and not now.ssh_running):
        ordered.append(StopSsh(target=host, summary=f"stop {SSH_SERVICE} (restore previous state)"))
    if window:
        summary = "leave maintenance mode"
        leave = ExitMaintenance(target=host, summary=summary, timeout=rolling.timeout, settle=rolling.settle)
        ordered.append(leave)
    return ordered


def migrate_step(migration: Migration, rolling: Rolling) -> Step:
    """Return the step that moves a running VM with vGPUs to the host on which it has been placed."""
    return Migrate(
        target=migration.vm,
        source=migration.source.ref,
        to=migration.target.ref,
        timeout=rolling.timeout,
        summary=f"move from {migration.source.name} to {migration.target.name} by vMotion",
    )


def gpus_answer(host: Target, timeout: int) -> Step:
    """Return the step that sees a host's GPUs answer, in the MIG modes they were in."""
    summary = "wait until nvidia-smi answers for every GPU"
    return GpusAnswer(target=host, timeout=timeout, summary=summary)


def _asks_gpus(step: Step) -> bool:
    return isinstance(step, GpusAnswer)


def health_gate(now: HostNow, rolling: Rolling, vms: Sequence[RunningVm]) -> Step:
    """Return the step that ends the maintenance of a host. `vms` are those that were switched off or moved for it."""
    words = ["connected", "GPUs as before" if now.has_gpus else "", "no new red alarm"]
    running = f"{len(vms)} VM{'' if len(vms) == 1 else 's'} running" if vms else ""
    kept = "in maintenance mode as before" if now.in_maintenance else ""
    return Healthy(
        target=now.target,
        timeout=rolling.settle,
        maintenance=now.in_maintenance,
        vms=tuple(vms),
        summary=f"health gate: {', '.join(w for w in (words[0], kept, *words[1:2], running, words[2]) if w)}",
    )


def _enter(host: Target, rolling: Rolling, *, begun: bool) -> Step:
    return EnterMaintenance(
        target=host, summary="enter maintenance mode", timeout=rolling.timeout, evacuate=rolling.evacuate, begun=begun
    )


def _reboot(host: Target, rolling: Rolling) -> Iterator[Step]:
    yield Reboot(
        target=host,
        via=rolling.reboot,
        needs_reboot=True,
        summary=f"reboot ({'over SSH' if rolling.reboot == 'ssh' else 'through vCenter'})",
    )
    summary = "wait for the reboot to complete"
    yield HostBack(target=host, timeout=rolling.timeout, summary=summary)


def shared_windows(datacenter: Target, steps: Sequence[Step]) -> tuple[list[Step], list[Step]]:
    """Order what is changed for all hosts and VMs of a datacenter, as (before them, after them); each is read back."""
    first, last = ([s for s in steps if s.comes_last is deferred] for deferred in (False, True))
    read = any(not isinstance(s, WriteLeases) for s in steps)  # which read back what they write themselves
    if first and read:
        first.append(AsPlanned(target=datacenter, but_last=bool(last), summary=READ_BACK))
    if last and read:
        last.append(AsPlanned(target=datacenter, summary=READ_BACK))
    return first, last


Switch = Literal["stay", "cycle", "on"]
"""What becomes of a VM's power: it stays as it is, goes off and on again, or is powered on."""


def vm_window(
    vm: Target, steps: Sequence[Step], power: Power, *, switch: Switch, off: Target | None = None
) -> tuple[list[Step], list[Step]]:
    """Order one VM's steps as (what stops it, what follows): off; clone, upgrade, one reconfigure, read back, on.

    `off` is the host that enters maintenance mode, where the VM is switched off for nothing else: a VM that has left
    that host until then stays on. A VM that is destroyed is not powered on again.
    """
    stop: list[Step] = []
    ready = [s for s in steps if isinstance(s, GuestReady)]
    gone = [s for s in steps if isinstance(s, Destroy)]
    follow: list[Step] = [*gone] or list(_merged(steps))
    if follow and not gone:
        follow.append(AsPlanned(target=vm, summary=READ_BACK, but_last=bool(ready) or switch == "cycle"))
    if switch == "cycle":
        how = "hard power-off allowed" if power.force else "guest shutdown only"
        only_on = off.ref if off is not None and not follow else ""
        stop.append(
            PowerOff(
                target=vm,
                shutdown_timeout=power.shutdown_timeout,
                force=power.force,
                only_on=only_on,
                summary=f"shut down ({how})",
            )
        )
    if switch != "stay" and not gone:
        follow.append(PowerOn(target=vm, summary="power on"))
    return stop, [*follow, *ready]


def _merged(steps: Sequence[Step]) -> Iterator[Step]:
    """Everything that is not a reconfigure first (a hardware upgrade), then all fragments as one ReconfigVM_Task."""
    fragments = [s for s in steps if isinstance(s, Reconfigure)]
    yield from (s for s in steps if isinstance(s, Clone))
    yield from (s for s in steps if isinstance(s, Invoke | SetTags))
    if not fragments:
        return
    extra = dict(pair for s in fragments for pair in s.extra_config)
    yield replace(
        fragments[0],
        summary="reconfigure: " + "; ".join(dict.fromkeys(s.summary for s in fragments)),
        kinds=tuple(dict.fromkeys(k for s in fragments for k in s.kinds)),
        needs_power_off=any(s.needs_power_off for s in fragments),
        spec={k: v for s in fragments for k, v in s.spec.items()},
        device_changes=tuple(_numbered(fragments)),
        extra_config=tuple(extra.items()),
    )


def _numbered(fragments: Sequence[Reconfigure]) -> Iterator[DeviceChange]:
    """Yield all device changes; new devices have distinct negative keys, by which others of their fragment name them.

    The server gives the real ones.
    """
    number = -1000
    for fragment in fragments:
        keys: dict[int, int] = {}
        for change in fragment.device_changes:
            number, device = number - 1, change["device"]
            if change["operation"] != "add":
                yield change
                continue
            if (old := device.get("key")) is not None:
                keys[old] = number
            on = device.get("controllerKey")
            yield {**change, "device": {**device, "key": number, **({"controllerKey": keys[on]} if on in keys else {})}}
