"""A simulated ESXi host as a machine: its parts, its services, and what a reboot does to them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

from vsphere_ai.lab.hardware import drivers, parts
from vsphere_ai.lab.hardware.gpu import GraphicsType, LabGpu, VgpuMode
from vsphere_ai.lab.hardware.mainboard import Mainboard
from vsphere_ai.lab.hardware.parts import KernelModule, LabDeviceGroup, LabRdmaDevice, Pnic, Policy, Service, Vib
from vsphere_ai.lab.ledger import Ledger

AssignmentPolicy = Literal["performance", "consolidation"]
LockdownMode = Literal["lockdownDisabled", "lockdownNormal", "lockdownStrict"]
Listener = Callable[["LabHost", str], None]


class HostRefused(Exception):
    """The host does not do that in its present state; the text says why."""


@dataclass(frozen=True)
class LabGuest:
    """What a guest with a vGPU reports to the host: its NVIDIA driver (empty: none is loaded) and its licence state."""

    driver: str
    licence: Literal["licensed", "unlicensed", "unknown"] = "licensed"


def _none_running() -> Sequence[str]:
    return ()


def _not_known(_vm: str) -> LabGuest | None:
    return None


@dataclass(eq=False)
class LabHost:
    """One ESXi host. Nothing here writes the ledger: the SOAP handler or shell command that carries a call does.

    `running_vms` answers the names of powered-on VMs, `guest_of` what the guest of one reports (None: its driver is the
    host's); without `shows_instances`, nvidia-smi shows no GPU instances of vGPUs; `maintenance` carries out a request
    of the ESXi Shell to enter (True) or leave (False) maintenance mode within so many seconds, or raises `HostRefused`.
    Listeners get ``(host, what)`` with what one of ``down up services graphics mig vgpu firewall lockdown advanced
    kernel network maintenance``, always after the lock is released; wrap several changes in `changing()` for that.
    `gpus` keep the graphics type and MIG mode they are given; `boot_seconds` is the time from down to up, and
    `shutdown_seconds` the time from a reboot request to down. With `never_returns` a reboot ends in darkness. Its clock
    is `clock_ahead`, and the boot time that it shows wavers by `boot_time_jitter`.
    """

    name: str
    ledger: Ledger
    mainboard: Mainboard = field(default_factory=Mainboard)
    gpus: list[LabGpu] = field(default_factory=list)
    pnics: list[Pnic] = field(default_factory=list)
    device_groups: list[LabDeviceGroup] = field(default_factory=list)
    vibs: list[Vib] = field(default_factory=list)
    services: dict[str, Service] = field(default_factory=parts.default_services)
    version: str = "7.0.2"
    build: str = "17867351"
    boot_seconds: float = 2.0
    shutdown_seconds: float = 0.1
    lockdown_mode: LockdownMode = "lockdownDisabled"
    lockdown_exceptions: set[str] = field(default_factory=set)
    advanced_options: dict[str, str | int] = field(default_factory=lambda: {"Net.PVRDMAVmknic": ""})
    firewall: dict[str, bool] = field(default_factory=lambda: {"pvrdma": False, "sshServer": True})
    kernel_modules: dict[str, KernelModule] = field(default_factory=dict)
    ats_support: bool = False
    ats_support_running: bool = False
    hv_support: int = 3
    graphics_default: GraphicsType = "shared"
    assignment_policy: AssignmentPolicy = "performance"
    in_maintenance: bool = False
    clock_ahead: timedelta = timedelta()
    boot_time_jitter: timedelta = timedelta()
    never_returns: bool = False
    host_engine_running: bool = True
    up: bool = True
    boot_time: datetime = field(default_factory=lambda: datetime.now(UTC) - timedelta(days=12, hours=3))
    shows_instances: bool = True
    migrates_vgpus: bool = True
    running_vms: Callable[[], Sequence[str]] = _none_running
    guest_of: Callable[[str], LabGuest | None] = _not_known
    maintenance: Callable[[bool, float], None] | None = None

    def __post_init__(self) -> None:
        self.lock = threading.RLock()
        self.driver = ""
        self._listeners: list[Listener] = []
        self._due: list[str] = []
        self._depth = 0
        self._closing = threading.Event()
        self._rebooting = False
        self.kernel_log: list[str] = []
        """Lines of vmkernel.log that the shell shows."""
        self.event_log: list[str] = []
        """Lines of vobd.log that the shell shows."""
        self.rotated_log: list[str] = []
        """Lines of vmkernel.0.gz."""
        self.log_refused = False
        """Whether a defect lets the logs not be read."""
        self.clock_wrong = 0.0
        """Seconds by which a defect has set its clock ahead."""
        self.missing_at_boot: set[str] = set()
        """PCI addresses of GPUs that the next boot does not find; the boot after it finds them again."""
        self._absent: list[LabGpu] = []
        self._next_vgpu = 3251634178
        self._load_driver()
        for gpu in self.gpus:
            gpu.driver = self.driver
            if gpu.active == "basic":
                gpu.activate()

    @property
    def driver_vib(self) -> Vib | None:
        """The NVIDIA host driver package that is installed, loaded or not."""
        return next((v for v in self.vibs if parts.DRIVER_VIB.match(v.name)), None)

    @property
    def rdma_devices(self) -> list[LabRdmaDevice]:
        """The RDMA devices of the NICs, in NIC order."""
        return [nic.rdma for nic in self.pnics if nic.rdma]

    @property
    def ssh_reachable(self) -> bool:
        """Return whether the SSH port is open."""
        return self.up and self.services["TSM-SSH"].running and self.firewall.get("sshServer", True)

    @property
    def reboot_required(self) -> bool:
        """Return whether GPUs, a MIG mode, module options, NICs or an installed driver wait for a boot."""
        installed = self.driver_vib.version.partition("-")[0] if self.driver_vib else ""
        waits = any(g.mig_pending != g.mig_current or g.waits for g in self.gpus)
        options = any(m.options != m.running for m in self.kernel_modules.values()) or any(n.waits for n in self.pnics)
        return waits or options or installed != self.driver or self.ats_support != self.ats_support_running

    def clock(self) -> datetime:
        """Return the time on this host's own clock."""
        return datetime.now(UTC) + self.clock_ahead

    def uptime(self) -> timedelta:
        """Return the time since the machine started, which no clock has a part in."""
        return max(timedelta(), datetime.now(UTC) - self.boot_time)

    def shown_boot_time(self) -> datetime:
        """Return the boot time as the host shows it: by its own clock, and off by the jitter, now this way, now that.

        ESXi computes it from the time and its uptime.
        """
        self.boot_time_jitter = -self.boot_time_jitter
        return self.boot_time + self.clock_ahead + self.boot_time_jitter

    def gpu_at(self, pci: str) -> LabGpu | None:
        """Return the GPU at a PCI address such as ``0000:3b:00.0``."""
        return next((g for g in self.gpus if g.pci == pci.lower()), None)

    def on_change(self, listener: Listener) -> None:
        """Call `listener(host, what)` after each change."""
        self._listeners.append(listener)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the lock; call the listeners after the outermost such block is left and the lock released."""
        due: list[str] = []
        try:
            with self.lock:
                self._depth += 1
                try:
                    yield
                finally:
                    self._depth -= 1
                    if self._depth == 0:
                        due, self._due = self._due, []
        finally:
            for what in due:
                for listener in tuple(self._listeners):
                    listener(self, what)

    def notify(self, what: str) -> None:
        """Say that something changed; listeners are called once the lock is free."""
        with self.changing():
            if what not in self._due:
                self._due.append(what)

    def set_service(self, key: str, *, running: bool) -> bool:
        """Start or stop a service; return whether that changed anything, raise KeyError for an unknown key."""
        with self.changing():
            service = self.services[key]
            if service.running == running:
                return False
            service.running = running
            self.notify("services")
            return True

    def set_service_policy(self, key: str, policy: Policy) -> bool:
        """Set when a service starts; return whether that changed anything, raise KeyError for an unknown key."""
        with self.changing():
            service = self.services[key]
            changed = service.policy != policy
            service.policy = policy
            if changed:
                self.notify("services")
            return changed

    def set_firewall(self, ruleset: str, enabled: bool) -> bool:
        """Enable or disable a firewall ruleset; return whether that changed anything, raise KeyError if unknown."""
        with self.changing():
            changed = self.firewall[ruleset] != enabled
            self.firewall[ruleset] = enabled
            if changed:
                self.notify("firewall")
            return changed

    def set_option(self, key: str, value: str | int) -> bool:
        """Set an advanced option; return whether that changed anything, raise KeyError if unknown."""
        with self.changing():
            changed = self.advanced_options[key] != value
            self.advanced_options[key] = value
            if changed:
                self.notify("advanced")
            return changed

    @property
    def release(self) -> tuple[int, ...]:
        """The ESXi version as numbers, ``(8, 0, 3)``."""
        return tuple(int(n) for n in self.version.split(".") if n.isdigit())

    def configure_graphics(
        self,
        *,
        default: GraphicsType,
        policy: AssignmentPolicy,
        devices: Mapping[str, GraphicsType],
        modes: Mapping[str, VgpuMode] | None = None,
    ) -> bool:
        """Replace the graphics configuration; a GPU missing from `devices` (by PCI address) takes the default.

        A GPU missing from `modes` keeps its vGPU mode; a new mode counts at once.

        What is active changes only at a boot or a restart of the host engine. Return whether anything changed.
        """
        with self.changing():
            before = (self.graphics_default, self.assignment_policy, [(g.configured, g.vgpu_mode) for g in self.gpus])
            self.graphics_default, self.assignment_policy = default, policy
            for gpu in self.gpus:
                gpu.configured = devices.get(gpu.pci, default)
                gpu.vgpu_mode = (modes or {}).get(gpu.pci, gpu.vgpu_mode)
            changed = before != (default, policy, [(g.configured, g.vgpu_mode) for g in self.gpus])
            if changed:
                self.notify("graphics")
            return changed

    def start_host_engine(self) -> bool:
        """Start NVIDIA's host engine: configured graphics types take effect on GPUs no VM uses; whether any did."""
        with self.changing():
            self.host_engine_running = True
            # passthrough is a matter of the next boot
            own = [g for g in self.gpus if g.driver and not g.passthrough and g.active != "direct"]
            waiting = [g for g in own if g.configured != g.active and not g.vgpus]
            for gpu in waiting:
                gpu.activate()
            if waiting:
                self.notify("graphics")
            return bool(waiting)

    def set_maintenance(self, enabled: bool) -> bool:
        """Set the maintenance flag; return whether that changed anything."""
        with self.changing():
            changed = self.in_maintenance != enabled
            self.in_maintenance = enabled
            if changed:
                self.notify("maintenance")
            return changed

    def next_vgpu_id(self) -> int:
        """Return a fresh number for a vGPU."""
        with self.lock:
            self._next_vgpu += 1
            return self._next_vgpu

    def reboot(self) -> bool:
        """Go down after `shutdown_seconds` and boot; return False when that is already under way."""
        with self.lock:
            if self._rebooting or not self.up:
                return False
            self._rebooting = True
        threading.Thread(target=self._reboot, name=f"reboot-{self.name}", daemon=True).start()
        return True

    def lose_power(self) -> None:
        """Go dark at once, whatever runs, and boot after `boot_seconds`."""
        with self.lock:
            coming_up, self._rebooting = self._rebooting, True
        self._go_down()
        if not coming_up:
            threading.Thread(target=self._come_up, name=f"power-{self.name}", daemon=True).start()

    def power_cycle(self) -> None:
        """Go down and come up again at once, in this thread."""
        self._go_down()
        self.boot()

    def boot(self) -> None:
        """Start: load the installed driver, drop every GPU instance, start the services as their policies say."""
        with self.changing():
            self._load_driver()
            self._find_gpus()
            for gpu in self.gpus:
                gpu.boot(self.driver)
            for service in self.services.values():
                has_port = any(self.firewall.get(ruleset, False) for ruleset in service.rulesets)
                service.running = service.policy == "on" or (service.policy == "automatic" and has_port)
            self.ats_support_running = self.ats_support
            self.host_engine_running = True
            self.boot_time = max(datetime.now(UTC), self.boot_time + timedelta(seconds=1))
            self.up, self._rebooting = True, False
            self.notify("up")

    def close(self) -> None:
        """End a reboot that is under way; the host stays as it is."""
        self._closing.set()

    def _reboot(self) -> None:
        if self._closing.wait(self.shutdown_seconds):
            return
        self._go_down()
        self._come_up()

    def _come_up(self) -> None:
        if self._closing.wait(self.boot_seconds) or self.never_returns:
            return
        self.boot()

    def _find_gpus(self) -> None:
        if not self.missing_at_boot and not self._absent:
            return
        fitted = sorted([*self.gpus, *self._absent], key=lambda g: g.pci)
        self.gpus = [g for g in fitted if g.pci not in self.missing_at_boot]
        self._absent = [g for g in fitted if g.pci in self.missing_at_boot]
        self.missing_at_boot.clear()
        for index, gpu in enumerate(self.gpus):
            gpu.index = index

    def _go_down(self) -> None:
        with self.changing():
            self.up = False
            for gpu in self.gpus:
                gpu.vgpus.clear()
            self.notify("down")

    def _load_driver(self) -> None:
        vib = self.driver_vib
        self.driver = vib.version.partition("-")[0] if vib else ""
        if vib:
            self.kernel_modules.setdefault("nvidia", KernelModule("nvidia", used_by=51, size_kb=35792))
        else:
            self.kernel_modules.pop("nvidia", None)
        drivers.load(self)
