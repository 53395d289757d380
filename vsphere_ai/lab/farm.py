"""The running farm: managed objects, physical hosts, tasks, sessions and the ledger, tied together."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any

from vsphere_ai.lab.faults.engine import FaultEngine
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.history import FactHistory
from vsphere_ai.lab.ledger import Client, Ledger, client
from vsphere_ai.lab.scenario import Scenario
from vsphere_ai.lab.sessions import Sessions
from vsphere_ai.lab.store import ManagedObject, Store
from vsphere_ai.lab.tagging import Tagging
from vsphere_ai.lab.tasks import Tasks
from vsphere_ai.lab.traffic import Traffic


class Farm:
    """Everything one lab simulates. Lock order: `store.lock` before a host's own lock, never the other way."""

    def __init__(self, scenario: Scenario, password: str, instance: str = "") -> None:
        self.scenario, self.password = scenario, password
        self.instance = instance or str(uuid.uuid4())
        """Instance UUID of its vCenter: no plan and no run of another lab is about this farm."""
        self.store = Store()
        self.tasks = Tasks(self.store, scenario.timing.task_seconds)
        self.sessions = Sessions(self.store, scenario.timing.session_minutes * 60)
        self.tagging = Tagging(self.store)
        self.ledger = Ledger()
        self.history = FactHistory()
        self.ledger.on_entry = self.history.recorded
        self.sessions.watcher = self.history.note
        self.faults = FaultEngine()
        self.traffic = Traffic()
        self.hosts: dict[str, LabHost] = {}
        self.named: dict[str, ManagedObject] = {}
        self.macs: dict[str, list[str]] = {}
        """The VMs that run, by their MAC addresses; of several the first one came up first."""
        self.power_changed: list[Callable[[ManagedObject, bool], None]] = []
        """Called with a VM, and whether it is on, when it is switched, made or removed; with the store's lock held."""
        self.guest_keys: tuple[str, ...] = ()
        """Fingerprints of the SSH host keys of guests."""
        self.closed = False
        self.project: Callable[[Farm, ManagedObject], None] = lambda farm, mo: None
        self._dirty: set[str] = set()
        self._wake = threading.Event()
        threading.Thread(target=self._watch, daemon=True, name="lab-settle").start()

    def host(self, mo: ManagedObject) -> LabHost:
        """Return the physical host behind a HostSystem."""
        return self.hosts[mo.moid]

    def host_of(self, vm: ManagedObject) -> ManagedObject:
        """Return the HostSystem a VM is registered on."""
        return self.store.get(vm["runtime"].host)

    def add_host(self, mo: ManagedObject, host: LabHost) -> None:
        """Join a HostSystem with its physical host; changes over SSH then show in the API."""
        self.hosts[mo.moid] = host
        host.on_change(lambda _host, _what: self.mark(mo))
        host.on_change(lambda _host, _what: self._observe(host))
        self._observe(host)

    def _observe(self, host: LabHost) -> None:
        note = self.history.note
        note("up", host.name, host.up)
        note("maintenance", host.name, host.in_maintenance)
        note("ssh", host.name, host.services["TSM-SSH"].running, client.get())
        with host.lock:
            torn = [(g, v) for g in host.gpus for v in g.vgpus if v.gi is not None and g.instance(v.gi) is None]
        for gpu, vgpu in torn:
            note("torn", f"{host.name} {gpu.pci}: GPU instance {vgpu.gi} of {vgpu.vm}", True)

    def note_power(self, vm: ManagedObject, *, on: bool, by: Client | None = None) -> None:
        """Note whether a VM is on, and who switched it; it keeps the name it had when this was first noted."""
        self.history.note("power", vm.extra.setdefault("noted as", f"{vm['name']} ({vm.moid})"), on, by)
        for watch in self.power_changed:
            watch(vm, on)

    def note_removed(self, vm: ManagedObject) -> None:
        """Note that a VM has left the inventory."""
        self.history.note("removed", str(vm.extra["noted as"]), True)
        for watch in self.power_changed:
            watch(vm, False)

    def mark(self, mo: ManagedObject) -> None:
        """Remember that a host changed; called with the host's lock held, so nothing else may be locked here."""
        self._dirty.add(mo.moid)
        self._wake.set()

    def settle(self) -> None:
        """Bring the managed objects of changed hosts up to date; the caller holds `store.lock`."""
        while self._dirty:
            moid = self._dirty.pop()
            if moid in self.store.objects:
                self.project(self, self.store.objects[moid])

    def record(self, mo: ManagedObject, call: str, **detail: Any) -> None:
        """Enter an effective call in the ledger."""
        self.ledger.record(str(mo["name"]), call, detail, channel="soap", ref=mo.moid)

    def close(self) -> None:
        """Stop everything that waits; the farm is not used again."""
        self.closed = True
        self._wake.set()
        with self.store.lock:
            self.sessions.end_all()
            self.store.changed.notify_all()

    def _watch(self) -> None:
        while not self.closed:
            self._wake.wait()
            self._wake.clear()
            with self.store.lock:
                self.settle()
