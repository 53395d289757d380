"""A case: a farm, an inventory and a playbook as plain data, and how they are written as files."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from honesty.boards import Board

FAST = {"boot_seconds": 0.15, "task_seconds": 0.005, "shutdown_seconds": 0.05, "vmotion_seconds": 0.02,
        "guest_seconds": 0.1}  # fmt: skip
VERSIONS = {
    "7.0.2": ("17867351", "17958471"),
    "7.0.3": ("21930508", "21958406"),
    "8.0.1": ("21813344", "21860503"),
    "8.0.2": ("22380479", "22617221"),
    "8.0.3": ("24022510", "24022515"),
    "9.0.0": ("24755229", "24755230"),
    "9.1.0": ("25123456", "25123456"),
}
"""Release of a farm -> builds of ESXi and vCenter."""
SLOTS = ("0000:3b:00.0", "0000:86:00.0", "0000:af:00.0")
RDMA_NIC = "0000:5e:00.0"


OTHER_KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIJqg1nHBEJpaDvnHUHvLV1ZkYPqHY6TyIhIFPyDQ7Iux"
"""A host key that no host has."""


@dataclass
class Host:
    """A host. `mig` and `shared_direct` are how its GPUs are at the start; `more` are further fields of a scenario."""

    name: str
    cluster: str = ""
    board: Board | None = None
    gpus: int = 0
    mig: bool = False
    shared_direct: bool = False
    rdma: bool = True
    ssh: bool = True
    ssh_policy: str = "off"
    driver: str = ""
    vmknic: str = ""
    more: dict[str, Any] = field(default_factory=dict)


@dataclass
class Vm:
    """A VM; `more` are further fields of a scenario."""

    name: str
    host: str
    on: bool = True
    tools: str = "unmanaged"
    hardware: int = 17
    vgpu: tuple[str, ...] = ()
    memory_gb: int = 16
    more: dict[str, Any] = field(default_factory=dict)


@dataclass
class Play:
    """What is wanted of hosts, VMs or datacenters, by their names."""

    of: str
    names: tuple[str, ...]
    body: dict[str, Any]


@dataclass
class Case:
    """Everything a case is made of. `rules` are faults of the lab from the start, `strikes` those during apply only.

    `ssh` are changes of the inventory's ssh section, None without one. `before` is done to the farm before anything
    else: ("maintenance", host), ("away", host), ("alarm", host), ("certificate", "").
    """

    release: str = "7.0.2"
    hot: bool = False
    """Whether vCenter allows vMotion of VMs with vGPUs."""
    hosts: list[Host] = field(default_factory=list)
    vms: list[Vm] = field(default_factory=list)
    drs: dict[str, str] = field(default_factory=dict)
    plays: list[Play] = field(default_factory=list)
    ssh: dict[str, Any] | None = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    """Host -> ``unknown`` or ``other``: what known_hosts says of it."""
    vcenter: dict[str, Any] = field(default_factory=dict)
    denied: list[str] = field(default_factory=list)
    before: list[tuple[str, str]] = field(default_factory=list)
    rules: list[dict[str, Any]] = field(default_factory=list)
    strikes: list[dict[str, Any]] = field(default_factory=list)
    faults: list[Any] = field(default_factory=list)
    sets: list[dict[str, Any]] = field(default_factory=list)
    """Plays that make VMs, each alone on its farm: no other play is there then."""
    earlier: list[dict[str, Any]] = field(default_factory=list)
    """What they were before: applied to the farm before anything else."""
    pools: dict[str, Any] = field(default_factory=dict)
    destroyed: int = 0
    """How many VMs the plays destroy."""
    datastores: list[dict[str, Any]] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    """vSphere tags there are, each ``Category/name``."""
    clusters: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Cluster -> further fields of a scenario."""
    job: dict[str, Any] = field(default_factory=dict)
    """What `exhaustive` looks for a way to do; empty where it is known whether there is one."""
    fate: str = ""
    """What comes in the middle of a run or after it: ``killed``, ``rolled back``, ``replaced``."""
    killed_at: int = 1
    killed_when: str = "before"

    def host(self, name: str) -> Host:
        """The host of that name."""
        return next(h for h in self.hosts if h.name == name)

    def vm(self, name: str) -> Vm:
        """The VM of that name."""
        return next(v for v in self.vms if v.name == name)

    def on(self, host: Host) -> list[Vm]:
        """VMs that are registered on a host."""
        return [v for v in self.vms if v.host == host.name]

    def members(self, host: Host) -> list[Host]:
        """The hosts of a host's cluster, itself included."""
        return [h for h in self.hosts if h is host or (h.cluster and h.cluster == host.cluster)]

    def wants(self, name: str) -> dict[str, Any]:
        """What all plays together say of a host or VM."""
        return {key: value for play in self.plays if name in play.names for key, value in play.body.items()}

    # -- as files

    def scenario(self) -> dict[str, Any]:
        """The farm, as a scenario of the lab."""
        esxi, build = VERSIONS[self.release]
        return {
            "name": "honesty",
            "timing": FAST,
            "vcenter": {"version": self.release, "build": build, "api": f"{self.release}.0", "vgpu_vmotion": self.hot},
            "privileges_denied": self.denied,
            "clusters": [{"name": n, "drs": drs, **self.clusters.get(n, {})} for n, drs in sorted(self.drs.items())],
            "switches": [
                {"name": "dvs-rdma", "mtu": 9000, "uplinks": 1, "port_groups": [{"name": "dvpg-rdma", "vlan": 100}]},
                {"name": "dvs-lan", "uplinks": 2, "port_groups": [{"name": "dvpg-lan"}, {"name": "dvpg-data"}]},
            ],
            **({"datastores": self.datastores} if self.datastores else {}),
            **({"tags": self.tags} if self.tags else {}),
            "hosts": [_host(h, self.release, esxi) for h in self.hosts],
            "vms": [_vm(v) for v in self.vms],
        }

    def playbook(self) -> list[dict[str, Any]]:
        """The plays."""
        return [*({p.of: ",".join(p.names), **p.body} for p in self.plays), *self.sets]

    def write(self, folder: Path) -> None:
        """Write scenario, playbook and rules of faults.

        `setup.json` holds what differs from an inventory that is in order, and what is done to the farm before.
        """
        setup = {
            "pools": self.pools,
            "ssh": self.ssh,
            "host keys": self.keys,
            "vcenter": self.vcenter,
            "before": self.before,
            **({"job": self.job, "fate": self.fate, "killed": [self.killed_at, self.killed_when]} if self.job else {}),
        }
        (folder / "setup.json").write_text(json.dumps(setup, indent=1), encoding="utf-8")
        text = yaml.safe_dump(self.scenario(), sort_keys=False, width=120)
        (folder / "scenario.yml").write_text(text, encoding="utf-8")
        text = yaml.safe_dump(self.playbook(), sort_keys=False, width=120)
        (folder / "playbook.yml").write_text(text, encoding="utf-8")
        if self.earlier:
            (folder / "earlier.yml").write_text(yaml.safe_dump(self.earlier, sort_keys=False), encoding="utf-8")
        for name, rules in (("faults.yml", self.rules), ("strikes.yml", self.strikes)):
            if rules:
                (folder / name).write_text("".join(f"- {json.dumps(r)}\n" for r in rules), encoding="utf-8")

    def write_inventory(self, folder: Path, lab: Path) -> Path:
        """Write the inventory beside the other files; it leads to the lab in that folder."""
        found = yaml.safe_load((lab / "connection.yml").read_text(encoding="utf-8"))
        center, ssh = found["vcenters"]["lab"], found["ssh"]
        center |= {"password": f"file:{lab / 'password'}", "tls": {"ca_file": str(lab / "ca.pem")}}
        center |= {k: str(v).replace("LAB", str(lab)) for k, v in self.vcenter.items()}
        text = (lab / "known_hosts").read_text(encoding="utf-8")
        (folder / "known_hosts").write_text(self._known(text, ssh["addresses"]), encoding="utf-8")
        (folder / "wrong").write_text("not-the-password\n", encoding="utf-8")
        (folder / "wrong").chmod(0o600)
        ssh |= {"password": f"file:{lab / 'ssh_password'}", "known_hosts": "known_hosts"}
        if self.ssh is not None:
            addresses = {**ssh["addresses"], **self.ssh.get("addresses", {})}
            found["ssh"] = {**ssh, **self.ssh, "addresses": addresses}
        else:
            del found["ssh"]
        found |= {"pools": self.pools} if self.pools else {}
        path = folder / "inventory.yml"
        path.write_text(json.dumps(found, indent=1), encoding="utf-8")  # JSON is YAML, and quotes its strings
        return path

    def _known(self, text: str, addresses: dict[str, str]) -> str:
        at = {f"[{a.rpartition(':')[0]}]:{a.rpartition(':')[2]}": name for name, a in addresses.items()}
        rows = [line.split(" ") for line in text.splitlines()]
        for row in rows:
            if self.keys.get(at.get(row[0], "")) == "other":
                row[2] = OTHER_KEY
        return "".join(f"{' '.join(r)}\n" for r in rows if self.keys.get(at.get(r[0], "")) != "unknown")


def _host(host: Host, release: str, build: str) -> dict[str, Any]:
    gpus = []
    if host.board:
        about = {"board": host.board.key, "device_id": host.board.device, "mig": host.mig,
                 "graphics_type": "sharedDirect" if host.shared_direct else "shared"}  # fmt: skip
        gpus = [{"pci": pci, **about} for pci in SLOTS[: host.gpus]]
    nics = [{"name": f"vmnic{n}", "pci": f"0000:18:00.{n}", "model": "X710", "switch": "dvs-lan"} for n in (0, 1)]
    vmkernel = [{"name": "vmk0", "port_group": "dvpg-lan"}]
    if host.rdma:
        nics.append({"name": "vmnic4", "pci": RDMA_NIC, "model": "ConnectX-6", "switch": "dvs-rdma",
                     "rdma": "vmrdma0"})  # fmt: skip
        vmkernel.append({"name": "vmk2", "port_group": "dvpg-rdma"})
    return {
        "name": host.name,
        "version": release,
        "build": build,
        **({"cluster": host.cluster} if host.cluster else {}),
        **({"nvidia_driver": host.driver} if host.driver else {}),
        "graphics_default": "sharedDirect" if host.shared_direct else "shared",
        "gpus": gpus,
        "nics": nics,
        "vmkernel": vmkernel,
        "pvrdma_vmknic": host.vmknic,
        "pvrdma_firewall": bool(host.vmknic),
        "ssh": {"running": host.ssh, "policy": host.ssh_policy},
        **host.more,
    }


def _vm(vm: Vm) -> dict[str, Any]:
    locked = {"memory_reservation_locked": True, "extra_config": MMIO} if vm.vgpu else {}
    return {
        "name": vm.name,
        "host": vm.host,
        "folder": "ai",
        "power": "on" if vm.on else "off",
        "network": "dvpg-lan",
        "tools": vm.tools,
        "hardware": vm.hardware,
        "cpus": 4,
        "memory_gb": vm.memory_gb,
        "disk_gb": 20,
        **({"vgpu": list(vm.vgpu)} if vm.vgpu else {}),
        **locked,
        **vm.more,
    }


MMIO = {"pciPassthru.use64bitMMIO": "TRUE", "pciPassthru.64bitMMIOSizeGB": "256"}
