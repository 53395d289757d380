"""SSH servers of guests: a port on loopback for each VM with a GPU or an RDMA adapter, open while the VM is on.

One thread accepts for all of them. A guest takes one key, which the lab makes; no passwords.
"""

from __future__ import annotations

import logging
import os
import selectors
import shlex
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import paramiko
from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.faults.engine import FaultEngine
from vsphere_ai.lab.guest.defects import Defect, Defects
from vsphere_ai.lab.guest.machine import PVRDMA, SRIOV, GuestMachine
from vsphere_ai.lab.guest.shell import GuestShell
from vsphere_ai.lab.jobs.processes import GuestProcesses, JobMachine
from vsphere_ai.lab.shell.result import ShellResult
from vsphere_ai.lab.sshd import SshTransport, fingerprint_of, host_key, session_of
from vsphere_ai.lab.store import ManagedObject

LOG = logging.getLogger(__name__)
LOG.addHandler(logging.NullHandler())
USER, KEY = "lab", "guest_key"
MOST = 512
"""Guests that have an SSH server; the farm may have more."""
LONGEST_INPUT = 16 << 20
FATAL = (48, 79, 94, 95)
"""XIDs after which no process goes on with the GPU (NVIDIA, XID errors)."""
ON_GPU = "LOCAL_RANK"
"""Variable that launchers give to the processes which use a GPU."""


class GuestServer:
    """The SSH side of one guest, and its connections."""

    methods = "publickey"

    def __init__(
        self,
        machine: GuestMachine,
        shell: GuestShell,
        authorized: str,
        faults: FaultEngine,
        processes: GuestProcesses | None = None,
    ) -> None:
        self.machine, self.name, self.faults = machine, machine.name, faults
        self._shell, self._authorized, self._processes = shell, authorized, processes

    def check_password(self, username: str, password: str) -> bool:
        """Take no password."""
        return False

    def check_key(self, username: str, key: paramiko.PKey) -> bool:
        """Return whether it is the lab's own key."""
        return username == USER and key.get_base64() == self._authorized

    def run(self, line: str, channel: paramiko.Channel) -> ShellResult:
        """Run a line: a process where guests run jobs, else computed. Its input is read where a command takes any."""
        processes = self._processes
        if self._shell.is_sent_program(line) or (processes is None and self._shell.wants_input(line)):
            given = _input_of(channel)
        else:
            given = None
        text = (given or b"").decode(errors="replace")
        if processes is None or self._shell.is_modelled(line, text):
            return self._shell.run(line, text)
        return processes.carry_out(line, channel, given)

    def modelled(self, argv: Sequence[str]) -> ShellResult:
        """Return what the model answers to a command of a process in the guest."""
        return self._shell.run(shlex.join(argv))

    def terminal(self, channel: paramiko.Channel) -> int | None:
        """Refuse a terminal: the programs of a guest are for scripts."""
        channel.sendall(b"the lab's guests have no terminal: give a command\r\n")
        return 1


def _input_of(channel: paramiko.Channel) -> bytes:
    given = bytearray()
    while len(given) < LONGEST_INPUT and (part := channel.recv(1 << 16)):
        given += part
    return bytes(given)


class _Door:
    """The port of a VM, which is kept; `listener` is there while it is open."""

    def __init__(self, mo: ManagedObject, reservation: socket.socket) -> None:
        self.mo, self.reservation = mo, reservation
        self.port: int = reservation.getsockname()[1]
        self.guest: GuestServer | None = None
        self.processes: GuestProcesses | None = None
        self.listener: socket.socket | None = None
        self.ended = threading.Event()
        self.transports: set[paramiko.Transport] = set()


class GuestServers:
    """The SSH servers of a farm's guests, from `follow` to `close`. `changed` is called when there are more of them.

    With `jobs` what they are asked to run are processes of this machine.
    """

    def __init__(
        self, directory: Path, faults: FaultEngine, changed: Callable[[], None], jobs: JobMachine | None = None
    ) -> None:
        self.defects, self.faults, self._changed, self._jobs = Defects(), faults, changed, jobs
        keys = directory / "host_keys"
        keys.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.key = host_key(keys / ".guests")
        self._authorized = host_key(directory / KEY).get_base64()
        self._doors: dict[str, _Door] = {}
        self._lock = threading.RLock()
        self._selector = selectors.DefaultSelector()
        self._wake, self._waker = socket.socketpair()
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._closed = False
        threading.Thread(target=self._accept, daemon=True, name="lab-guests").start()

    def follow(self, farm: Farm) -> None:
        """Serve the guests of a farm that are on, and those that are switched on from now on."""
        farm.guest_keys = (fingerprint_of(self.key),)
        farm.power_changed.append(self._switched)
        self._farm = farm
        with farm.store.lock:
            for mo in farm.store.of(vim.VirtualMachine):
                self._switch(mo, on=mo["runtime"].powerState == "poweredOn")

    @property
    def addresses(self) -> dict[str, str]:
        """Where each guest is reached, by the name of its VM."""
        with self._lock:
            return {str(d.mo["name"]): f"127.0.0.1:{d.port}" for d in self._doors.values()}

    def known_hosts(self) -> list[str]:
        """Return the lines of a known_hosts file."""
        key = f"{self.key.get_name()} {self.key.get_base64()}"
        with self._lock:
            return [f"[127.0.0.1]:{door.port} {key}" for door in self._doors.values()]

    def find(self, text: str) -> GuestMachine | None:
        """Return the guest that is on and has a name or an address."""
        with self._lock:
            for door in self._doors.values():
                if door.guest is None or door.listener is None:
                    continue
                machine = door.guest.machine
                if text == machine.name or any(a == text for nic in machine.nics for a, _ in nic.addresses):
                    return machine
        return None

    def close(self) -> None:
        """Close every port for good."""
        with self._lock:
            self._closed = True
            for door in self._doors.values():
                self._shut(door)
                door.reservation.close()
            self._doors.clear()
        if self._jobs is not None:
            self._jobs.close()
        self._waker.send(b"x")

    def plant(self, defects: Sequence[Defect]) -> None:
        """Replace the defects; processes on a GPU that one takes away are aborted, as programs are when CUDA fails."""
        self.defects.set(defects)
        with self._lock:
            for door in self._doors.values():
                self._abort_without_gpu(door)

    def _abort_without_gpu(self, door: _Door) -> None:
        if door.guest is not None and door.processes is not None:
            door.processes.lose(ON_GPU if _has_lost_gpu(door.guest.machine) else "")

    def _learn_addresses(self) -> None:
        """Give the addresses that guests have now addresses of this machine, which a new command may name."""
        with self._lock:
            machines = [d.guest.machine for d in self._doors.values() if d.guest is not None and d.listener is not None]
        if self._jobs is not None:
            self._jobs.network.learn(a for machine in machines for nic in machine.nics for a, _ in nic.addresses)

    def _switched(self, mo: ManagedObject, on: bool) -> None:
        before = len(self._doors)
        self._switch(mo, on=on)
        if len(self._doors) != before:
            self._changed()

    def _switch(self, mo: ManagedObject, *, on: bool) -> None:
        with self._lock:
            door = self._doors.get(mo.moid)
            if door is None and on and not self._closed and len(self._doors) < MOST and _is_served(mo):
                door = self._doors[mo.moid] = _Door(mo, _bound())
            if door is None:
                return
            if on and door.listener is None:
                self._open(door)
            elif not on:
                self._shut(door)

    def _open(self, door: _Door) -> None:
        door.ended = threading.Event()
        machine = GuestMachine(self._farm, door.mo, self.defects)
        shell = GuestShell(machine, self.find, door.ended)
        if self._jobs is not None and door.processes is None:
            door.processes = self._jobs.guest(door.mo.moid, self._answers_of(door))
        door.guest = GuestServer(machine, shell, self._authorized, self.faults, door.processes)
        self._abort_without_gpu(door)
        door.listener = socket.create_server(("127.0.0.1", door.port), backlog=32)
        door.listener.setblocking(False)
        self._selector.register(door.listener, selectors.EVENT_READ, door)
        self._waker.send(b"x")

    def _answers_of(self, door: _Door) -> Callable[[Sequence[str]], ShellResult]:
        def answer(argv: Sequence[str]) -> ShellResult:
            if door.guest is None or door.listener is None:
                return ShellResult(1, "", f"{argv[0]}: the guest is shutting down\n")
            return door.guest.modelled(argv)

        return answer

    def _shut(self, door: _Door) -> None:
        door.ended.set()
        if door.processes is not None:
            door.processes.end()
        listener, door.listener = door.listener, None
        if listener is not None:
            self._selector.unregister(listener)
            listener.close()
        for transport in tuple(door.transports):
            threading.Thread(target=transport.close, daemon=True).start()

    def _accept(self) -> None:
        while not self._closed:
            for key, _ in self._selector.select():
                if key.data is None:
                    self._wake.recv(64)
                    continue
                try:
                    client, _ = cast(socket.socket, key.fileobj).accept()
                except OSError:
                    continue
                threading.Thread(target=self._serve, args=(key.data, client), daemon=True).start()

    def _serve(self, door: _Door, client: socket.socket) -> None:
        guest = door.guest
        if guest is None:
            client.close()
            return
        client.setblocking(True)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport = SshTransport(client)
        transport.set_log_channel(LOG.name)
        transport.add_server_key(self.key)
        door.transports.add(transport)
        self._learn_addresses()
        try:
            transport.start_server(server=session_of(guest))
            transport.join()
        except (paramiko.SSHException, EOFError, OSError) as error:
            LOG.debug("%s: connection ended: %s", guest.name, error)
        finally:
            transport.close()
            door.transports.discard(transport)


def _has_lost_gpu(machine: GuestMachine) -> bool:
    """Return whether a defect has taken a GPU away from the processes of a guest."""
    if machine.defects.first("gpu-missing", vm=machine.name):
        return True
    xids = (each for gpu in machine.gpus for each in machine.defects.of("xid", **machine.at(gpu)))
    return any(round(each.number("number", 79)) in FATAL for each in xids)


def _is_served(mo: ManagedObject) -> bool:
    devices = mo["config"].hardware.device
    return any(isinstance(d, PVRDMA | SRIOV | vim.vm.device.VirtualPCIPassthrough) for d in devices)


def _bound() -> socket.socket:
    reservation = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reservation.bind(("127.0.0.1", 0))
    return reservation


def write_text(path: Path, text: str) -> None:
    """Put a file in its place in one move: a reader sees the old one or the new one."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)
