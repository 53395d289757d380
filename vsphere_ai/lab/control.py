"""A whole lab in one process: the farm, its HTTPS server and the hosts' SSH servers, and what `lab status` asks it."""

from __future__ import annotations

import hmac
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.build import build
from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.hardware.gpu import Gpu
from vsphere_ai.lab.managed.power import profiles
from vsphere_ai.lab.scenario import Scenario
from vsphere_ai.lab.sshd import SshServer
from vsphere_ai.lab.store import ManagedObject


class Lab:
    """The running lab. `token` opens the control endpoint; ports and host keys survive a reset."""

    def __init__(self, scenario: Scenario, directory: Path, *, password: str, ssh_password: str, token: str) -> None:
        self.scenario, self.directory, self.token = scenario, directory, token
        self.password, self.ssh_password = password, ssh_password
        self.trace = False
        self.info: dict[str, Any] = {}
        self.ssh: dict[str, SshServer] = {}
        self._resetting = threading.Lock()
        self.farm = build(scenario, password)
        self._open_ssh()

    def reset(self) -> None:
        """Go back to the scenario: every object, session and ledger entry of before is gone."""
        with self._resetting:
            ports = {name: server.port for name, server in self.ssh.items()}
            self.close()
            self.farm = build(self.scenario, self.password)
            self._open_ssh(ports)

    def close(self) -> None:
        """Stop serving SSH and end whatever waits."""
        for server in self.ssh.values():
            server.host.close()
            server.close()
        self.farm.close()

    def _open_ssh(self, ports: dict[str, int] | None = None) -> None:
        keys = self.directory / "host_keys"
        keys.mkdir(mode=0o700, exist_ok=True)
        self.ssh = {}
        for host in self.farm.hosts.values():
            port = (ports or {}).get(host.name, 0)
            server = SshServer(host, password=self.ssh_password, port=port, key_file=keys / host.name)
            self.ssh[host.name] = server.start()

    def control(self, method: str, path: str, token: str) -> tuple[int, bytes]:
        """Answer a request to the control endpoint with an HTTP status and JSON."""
        actions: dict[tuple[str, str], Callable[[], Any]] = {
            ("GET", "/lab/info"): lambda: self.info,
            ("GET", "/lab/farm"): self._farm,
            ("GET", "/lab/ledger"): lambda: {"entries": self.farm.ledger.as_json()},
            ("POST", "/lab/ledger/clear"): self.farm.ledger.clear,
            ("POST", "/lab/sessions/expire"): self._expire,
            ("POST", "/lab/reset"): self.reset,
        }
        action = actions.get((method, path))
        if action is None:
            return 404, b'{"error": "not found"}'
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            return 403, b'{"error": "the X-Lab-Token header is missing or wrong"}'
        return 200, json.dumps(action() or {}).encode()

    def _expire(self) -> None:
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


def _gpu(gpu: Gpu) -> dict[str, Any]:
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
    at = farm.store.get(mo["parent"])
    while at.ref != farm.named["vmFolder"].ref:
        names.append(at["name"])
        at = farm.store.get(at["parent"])
    return "/".join(reversed(names))
