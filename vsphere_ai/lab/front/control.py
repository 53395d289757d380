"""A whole lab in one process: the farm, its HTTPS server and the hosts' SSH servers, and what `lab status` asks it."""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from pyVmomi import vim

from vsphere_ai.errors import Diagnostic, InputError
from vsphere_ai.lab import invariants
from vsphere_ai.lab.build import build
from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.faults import actions, rule_file
from vsphere_ai.lab.faults.engine import FaultEngine
from vsphere_ai.lab.faults.rules import FaultRule
from vsphere_ai.lab.front.starting import StartProgress
from vsphere_ai.lab.guest import defects, host_side, vm_side
from vsphere_ai.lab.guest.server import GuestServers
from vsphere_ai.lab.hardware.gpu import LabGpu
from vsphere_ai.lab.jobs.processes import JobMachine
from vsphere_ai.lab.listener import HttpsListener
from vsphere_ai.lab.managed.vm_tasks.power import profiles
from vsphere_ai.lab.scenario import Scenario
from vsphere_ai.lab.sshd import SshServer
from vsphere_ai.lab.store import ManagedObject

NOT_FOUND = 404, b'{"error": "not found"}'
FORBIDDEN = 403, b'{"error": "the X-Lab-Token header is missing or wrong"}'


class BadControlRequest(Exception):
    """A request to the control endpoint that makes no sense; the text says why."""


@dataclass(frozen=True)
class LabSecrets:
    """What opens a lab: the password of its vCenter, that of its hosts' SSH, the token of the control endpoint."""

    password: str = field(default_factory=lambda: secrets.token_urlsafe(18))
    ssh_password: str = field(default_factory=lambda: secrets.token_urlsafe(18))
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))


class Lab:
    """The running lab.

    Ports, host keys and the instance UUID of its vCenter survive a reset.
    """

    def __init__(
        self, scenario: Scenario, directory: Path, secret: LabSecrets, progress: StartProgress | None = None
    ) -> None:
        self.scenario, self.directory, self.token = scenario, directory, secret.token
        self.password, self.ssh_password = secret.password, secret.ssh_password
        self.instance = str(uuid.uuid4())
        self.trace = False
        self.info: dict[str, Any] = {}
        self.ssh: dict[str, SshServer] = {}
        self.server: HttpsListener | None = None
        """The vCenter's server, which outages and other certificates befall."""
        self.faults = FaultEngine()
        self.faults.strike = lambda fired: actions.strike(self, fired)
        self.faults.changes = lambda: len(self.farm.ledger)
        self._from_start: tuple[tuple[FaultRule, ...], int] = ((), 0)
        self._resetting = threading.Lock()
        self.guests_changed: Callable[[], None] = lambda: None
        """Called when there are more guests to be reached."""
        self._build(progress or StartProgress())

    def reset(self) -> None:
        """Go back to the scenario: every object, session, fault and ledger entry of before is gone.

        The faults the lab was started with are there again.
        """
        with self._resetting:
            ports = {name: server.hand_over() for name, server in self.ssh.items()}
            self.faults.set((), 0)
            if self.server is not None:
                self.server.restore()
            self.close()
            self._build(StartProgress(), ports)
            self.guests_changed()
            self.faults.set(*self._from_start)

    def _build(self, progress: StartProgress, ports: dict[str, socket.socket] | None = None) -> None:
        self.farm = build(self.scenario, self.password, self.instance, progress)
        self.farm.faults = self.faults
        progress.stage("starting SSH servers of hosts", len(self.farm.hosts))
        self._open_ssh(progress, ports or {})
        progress.stage("starting SSH servers of guests")
        bounds = self.scenario.guests
        jobs = JobMachine(self.directory, bounds) if bounds.run_jobs else None
        self.guests = GuestServers(self.directory, self.faults, lambda: self.guests_changed(), jobs)
        self.guests.follow(self.farm)

    def close(self) -> None:
        """Stop serving SSH and end whatever waits."""
        self.guests.close()
        for server in self.ssh.values():
            server.host.close()
            server.close()
        self.farm.close()

    def _open_ssh(self, progress: StartProgress, ports: dict[str, socket.socket]) -> None:
        keys = self.directory / "host_keys"
        keys.mkdir(mode=0o700, exist_ok=True)
        self.ssh = {}
        for host in self.farm.hosts.values():
            reserved = ports.get(host.name)
            server = SshServer(host, password=self.ssh_password, key_file=keys / host.name, reserved=reserved)
            server.faults = self.faults
            self.ssh[host.name] = server.start()
            progress.step()

    def control(self, method: str, path: str, token: str, *, query: str = "", body: bytes = b"") -> tuple[int, bytes]:
        """Answer a request to the control endpoint with an HTTP status and JSON."""
        action = self._actions(query, body).get((method, path))
        if action is None:
            return NOT_FOUND
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            return FORBIDDEN
        try:
            return 200, json.dumps(action() or {}).encode()
        except BadControlRequest as error:
            return 400, json.dumps({"error": str(error)}).encode()
        except InputError as error:
            return 422, json.dumps({"diagnostics": [_diagnostic(d) for d in error.diagnostics]}).encode()

    def _actions(self, query: str, body: bytes) -> dict[tuple[str, str], Callable[[], Any]]:
        return {
            ("GET", "/lab/info"): lambda: self.info,
            ("GET", "/lab/farm"): self._farm,
            ("GET", "/lab/ledger"): lambda: {"entries": self.farm.ledger.as_json()},
            ("GET", "/lab/traffic"): lambda: self.farm.traffic.as_json(),
            ("POST", "/lab/ledger/clear"): self._clear_ledger,
            ("POST", "/lab/sessions/expire"): self.expire_sessions,
            ("POST", "/lab/reset"): self.reset,
            ("GET", "/lab/faults"): self.faults.as_json,
            ("POST", "/lab/faults"): lambda: self._set_faults(_json(body)),
            ("POST", "/lab/faults/add"): lambda: self._add_faults(_json(body)),
            ("POST", "/lab/faults/release"): lambda: self._release_fault(_json(body)),
            ("POST", "/lab/faults/clear"): self.faults.clear,
            ("GET", "/lab/defects"): lambda: {"defects": self.guests.defects.as_json()},
            ("POST", "/lab/defects"): lambda: self._set_defects(_json(body)),
            ("GET", "/lab/invariants"): lambda: self._judge(parse_qs(query)),
            ("POST", "/lab/mark"): self._mark,
        }

    def _clear_ledger(self) -> None:
        with self.farm.store.lock:
            self.farm.ledger.clear()
            self.farm.history.restart()

    def _set_faults(self, given: dict[str, Any]) -> dict[str, Any]:
        rules, seed = _rules(given), given.get("seed")
        if seed is None:
            seed = secrets.randbelow(1 << 31)
        if not isinstance(seed, int):
            raise BadControlRequest("seed must be a whole number")
        if given.get("from_start"):
            self._from_start = (rules, seed)
        self.faults.set(rules, seed)
        return self.faults.as_json()

    def _add_faults(self, given: dict[str, Any]) -> dict[str, Any]:
        self.faults.add(_rules(given))
        return self.faults.as_json()

    def _set_defects(self, given: dict[str, Any]) -> dict[str, Any]:
        try:
            self.guests.plant(defects.read(given.get("defects")))
        except ValueError as error:
            raise BadControlRequest(str(error)) from error
        with self.farm.store.lock:
            host_side.show(self.farm, self.guests.defects)
            vm_side.show(self.farm, self.guests.defects)
        return {"defects": self.guests.defects.as_json()}

    def _release_fault(self, given: dict[str, Any]) -> dict[str, Any]:
        number = given.get("rule")
        if not isinstance(number, int) or not self.faults.release(number):
            raise BadControlRequest(f"there is no rule {number} to release")
        return self.faults.as_json()

    def _mark(self) -> dict[str, Any]:
        with self.farm.store.lock:
            self.farm.history.mark(len(self.farm.ledger))
            return {"since": len(self.farm.ledger)}

    def _judge(self, asked: dict[str, list[str]]) -> dict[str, Any]:
        farm = self.farm
        since = _number(asked, "since", farm.history.marked)
        with farm.store.lock:
            farm.settle()
            entries = farm.ledger.entries()
            try:
                found = invariants.judge(entries, farm.history, since, max_down=_number(asked, "max_down", 1))
            except KeyError:
                raise BadControlRequest(f"the ledger has no entry {since}; it ends with {len(entries)}") from None
        return {
            "since": since,
            "entries": len(entries) - since,
            "ok": not any(v.findings for v in found),
            "invariants": [v.as_json() for v in found],
        }

    def expire_sessions(self) -> None:
        """End every session, as idle time or a restart of vCenter's service does."""
        with self.farm.store.lock:
            self.farm.sessions.end_all()

    def _farm(self) -> dict[str, Any]:
        farm = self.farm
        with farm.store.lock:
            farm.settle()
            return {
                "scenario": self.scenario.name,
                "vcenter": {"version": self.scenario.vcenter.version, "api": self.scenario.vcenter.api},
                "hosts": [self._host(mo) for mo in farm.store.of(vim.HostSystem)],
                "vms": [_vm(farm, mo) for mo in farm.store.of(vim.VirtualMachine)],
                "ledger": len(farm.ledger),
                "logins": farm.sessions.logins,
                "refused_logins": farm.sessions.refused_logins,
                "sessions": len(farm.sessions.live),
            }

    def _host(self, mo: ManagedObject) -> dict[str, Any]:
        farm, host = self.farm, self.farm.host(mo)
        parent, server = farm.store.get(mo["parent"]), self.ssh[host.name]
        return {
            "name": host.name,
            "ref": f"HostSystem:{mo.moid}",
            "cluster": parent["name"] if isinstance(parent.ref, vim.ClusterComputeResource) else "",
            "version": host.version,
            "state": str(mo["runtime"].connectionState),
            "maintenance": host.in_maintenance,
            "boot_time": host.boot_time.isoformat(),
            "reboot_required": host.reboot_required,
            "ssh": {
                "running": host.services["TSM-SSH"].running,
                "policy": host.services["TSM-SSH"].policy,
                "address": f"127.0.0.1:{server.port}",
                "login_attempts": server.login_attempts,
            },
            "graphics": {"default": host.graphics_default, "policy": host.assignment_policy},
            "gpus": [_gpu(gpu) for gpu in host.gpus],
            "pvrdma": {
                "vmknic": host.advanced_options.get("Net.PVRDMAVmknic", ""),
                "firewall": host.firewall.get("pvrdma", False),
            },
        }


def _json(body: bytes) -> dict[str, Any]:
    try:
        given = json.loads(body or b"{}")
    except ValueError as error:
        raise BadControlRequest(f"the body is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise BadControlRequest("the body must be a JSON object")
    return given


def _rules(given: dict[str, Any]) -> tuple[FaultRule, ...]:
    """Return the rules in a request: YAML text, or the same as JSON (which is YAML)."""
    rules = given.get("rules")
    if not isinstance(rules, (str, list, dict)):
        raise BadControlRequest("'rules' must be YAML text or a list of rules")
    text = rules if isinstance(rules, str) else json.dumps(rules)
    return rule_file.parse(text, str(given.get("file", "rules")))


def _number(asked: dict[str, list[str]], name: str, default: int) -> int:
    given = asked.get(name, [str(default)])[-1]
    if not given.isdecimal():
        raise BadControlRequest(f"{name} must be a whole number, not {given!r}")
    return int(given)


def _diagnostic(found: Diagnostic) -> dict[str, Any]:
    mark = found.mark
    place = {"file": mark.file, "line": mark.line, "column": mark.column}
    return {**place, "message": found.message, "help": found.help}


def _gpu(gpu: LabGpu) -> dict[str, Any]:
    return {
        "pci": gpu.pci,
        "name": gpu.name,
        "board": gpu.board.key,
        "configured": gpu.configured,
        "active": gpu.active,
        "mig": {"capable": gpu.mig_capable, "current": gpu.mig_current, "pending": gpu.mig_pending},
        "instances": [
            {"id": i.id, "profile": i.profile.name, "start": i.start, "size": i.profile.size, "vm": i.vm}
            for i in gpu.instances
        ],
        "vms": list(gpu.vms),
    }


def _vm(farm: Farm, mo: ManagedObject) -> dict[str, Any]:
    config = mo["config"]
    rdma = [d for d in config.hardware.device if isinstance(d, vim.vm.device.VirtualVmxnet3Vrdma)]
    return {
        "name": mo["name"],
        "ref": f"VirtualMachine:{mo.moid}",
        "folder": _folder(farm, mo),
        "host": farm.host_of(mo)["name"],
        "power": str(mo["runtime"].powerState),
        "hardware": config.version,
        "firmware": config.firmware,
        "memory_mb": config.hardware.memoryMB,
        "memory_reserved_mb": config.memoryAllocation.reservation,
        "tools": mo["guest"].toolsRunningStatus,
        "vgpu": profiles(mo),
        "pvrdma": [
            {
                "port_group": farm.store.objects[d.backing.port.portgroupKey]["name"],
                "protocol": d.deviceProtocol,
                "mac": d.macAddress,
            }
            for d in rdma
        ],
        "extra_config": {o.key: o.value for o in config.extraConfig or ()},
    }


def _folder(farm: Farm, mo: ManagedObject) -> str:
    names: list[str] = []
    vapp = mo["parentVApp"]
    at = farm.store.get(farm.store.get(vapp)["parentFolder"] if vapp else mo["parent"])
    while at.ref != farm.named["vmFolder"].ref:
        names.append(at["name"])
        at = farm.store.get(at["parent"])
    return "/".join(reversed(names))
