"""Documents of farms of any size, as `report` takes them: a plan, a run, findings, RDMA paths and GPUs; seedless."""

from __future__ import annotations

from typing import Any

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"onload='\u202e\u2028"
"""A name that would be markup, a script, an attribute, or turn the text around."""
ABOUT = {"name": "vCenter", "version": "7.0.2", "build": "17694817", "api": "7.0.2.0", "instance": "uuid-1"}
WORLD = {
    "name": "prod",
    "address": "vc01.example.com",
    "user": "svc-vsphere-ai@vsphere.local",
    "inventory": "inventories/prod.yml",
    "found": "given with -i",
    "lab": False,
}
SCOPE = {"vcenter": "prod", "address": WORLD["address"], "limit": "", "inventory": "/srv/inventories/prod.yml"}
PROFILE, LARGER = "grid_a100-20c", "grid_a100-3-20c"
GPUS = ("0000:3b:00.0", "0000:5e:00.0", "0000:86:00.0", "0000:af:00.0")
PER_HOST = 8
STEPS = (
    ("power-off", 90),
    ("enter maintenance mode", 60),
    ("MIG enabled on every GPU", 5),
    ("reboot", 600),
    ("wait until nvidia-smi answers", 120),
    ("leave maintenance mode", 15),
    ("power on", 20),
)


def host(number: int) -> dict[str, str]:
    return {"kind": "host", "name": f"esx{number:04}.lab.local", "ref": f"HostSystem:host-{number}"}


def vm(number: int) -> dict[str, str]:
    name = f"train-{number:04}" if number else HOSTILE
    return {"kind": "vm", "name": name, "ref": f"VirtualMachine:vm-{number}"}


def plan(hosts: int, vms: int) -> dict[str, Any]:
    """Return a plan that reboots every host, and gives every VM another vGPU; a few are refused or not known."""
    all_hosts, all_vms = [host(n) for n in range(1, hosts + 1)], [vm(n) for n in range(vms)]
    items = [
        {"target": h, "kind": "mig", "changes": _mig(n), "notes": ["lost at reboot"]} for n, h in enumerate(all_hosts)
    ]
    items += [
        {
            "target": v,
            "kind": "vgpu",
            "notes": [],
            "changes": [{"field": "profiles", "sign": "~", "before": [PROFILE], "after": [LARGER]}],
        }
        for v in all_vms
    ]
    steps, times = _steps(all_hosts)
    placed = [
        {"host": h, "vms": [{"vm": v, "vgpus": [PROFILE], "planned": [LARGER]} for v in all_vms[n::hosts]]}
        for n, h in enumerate(all_hosts)
    ]
    seconds = max(end for _, end in times.values())
    return {
        "schema_version": 1,
        "vsphere_ai": "1",
        "vcenter": ABOUT,
        "world": WORLD,
        "playbook": "playbooks/farm.yml",
        "variables": [
            {"name": "profile", "value": LARGER, "level": "play", "place": "playbooks/farm.yml:3:9", "play": "GPUs"},
            {"name": "racks", "value": ["a", "b"], "level": "group racks", "targets": [h["name"] for h in all_hosts]},
            {"name": "other", "value": 1, "level": "default", "used": False},
        ],
        "items": items,
        "problems": [],
        "findings": [f for f in findings(all_hosts, all_vms) if f["verdict"] != "pass"],
        "passed": 129,
        "steps": steps,
        "waves": [],
        "impact": {"reboots": all_hosts, "maintenance": all_hosts, "power_cycles": all_vms},
        "placed": placed,
        "asked": [
            {
                "kind": "mig",
                "file": "playbooks/farm.yml",
                "line": 12,
                "column": 3,
                "targets": [h["ref"] for h in all_hosts],
            }
        ],
        "expected": {"seconds": seconds, "window": seconds, "host": 910, "runs": 3, "guessed": False, "steps": times},
    }


def _mig(number: int) -> list[dict[str, Any]]:
    after = (["3g.20gb:4", "3g.20gb:0"], ["7g.40gb:0"], ["2g.10gb:0", "2g.10gb:2", "2g.10gb:4", "1g.5gb:6"])[number % 3]
    return [
        {"field": f"{pci} layout", "sign": "~", "before": ["7g.40gb:0"] if number % 2 else [], "after": after}
        for pci in GPUS
    ]


def _steps(targets: list[dict[str, str]]) -> tuple[list[dict[str, Any]], dict[str, tuple[float, float]]]:
    """Return the steps of hosts, four at a time, and when each is expected."""
    steps, times, number = [], {}, 0
    for n, target in enumerate(targets):
        at = n // 4 * 930.0
        for summary, seconds in STEPS:
            number += 1
            key = f"s{number:05}"
            steps.append({"id": key, "after": [], "do": "lifecycle", "target": target, "summary": summary})
            times[key] = (at, at + seconds)
            at += seconds
    return steps, times


def findings(hosts: list[dict[str, str]], vms: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Return a verdict of every rule on every target."""
    rules = [
        f"{kind}.{name}" for kind in ("host", "gpu", "vm") for name in ("version", "driver", "memory", "links", "use")
    ]
    found = []
    for n, target in enumerate([*hosts, *vms]):
        for m, rule in enumerate(r for r in rules if (r[:2] == "vm") == (target["kind"] == "vm")):
            verdict = ("fail", "unknown", "warn")[m % 3] if (n + m) % 23 == 0 else "pass"
            message = f"{target['name']}: {rule} is {verdict}" if verdict != "pass" else f"{rule} is as it should be"
            evidence = [{"path": "config.product.build", "value": str(n)}]
            found.append(
                {
                    "target": target,
                    "rule": rule,
                    "verdict": verdict,
                    "message": message,
                    "remedy": "",
                    "evidence": evidence,
                    "source": "VMware KB 1",
                    "refuses": verdict == "fail",
                }
            )
    return found


def check(hosts: int, vms: int) -> dict[str, Any]:
    """Return what `check -o json` prints."""
    found = findings([host(n) for n in range(1, hosts + 1)], [vm(n) for n in range(vms)])
    return {"schema_version": 1, "vcenter": ABOUT, "verdict": "fail", "findings": found}


def run(hosts: int, vms: int) -> dict[str, Any]:
    """Return the record of a run of `plan`, a little slower than expected; one host of 50 failed."""
    of = plan(hosts, vms)
    steps = []
    for n, step in enumerate(of["steps"][:-3]):
        begin, end = (1_795_500_000 + t * 1.1 for t in of["expected"]["steps"][step["id"]])
        failed = n % 350 == 3
        steps.append(
            {
                "id": step["id"],
                "target": step["target"]["name"],
                "ref": step["target"]["ref"],
                "summary": step["summary"],
                "state": "failed" if failed else "done",
                "error": "the host is not back" if failed else None,
                "attempt": 1,
                "task": f"Task:task-{n}",
                "began": _moment(begin),
                "ended": _moment(end),
            }
        )
    left = [{"id": s["id"], "target": s["target"]["name"], "summary": s["summary"]} for s in of["steps"][-3:]]
    return {
        "run": "20261124-020000-abcd",
        "state": "failed",
        "what": "playbooks/farm.yml",
        "world": WORLD,
        "scope": {
            "vcenter": "prod",
            "address": "vc01.example.com",
            "limit": "",
            "inventory": "/srv/inventories/prod.yml",
        },
        "exit_code": 1,
        "open": [],
        "approved": {key: of[key] for key in ("items", "impact", "placed", "expected", "variables")},
        "steps": steps,
        "not_begun": left,
        "pending_actions": [],
        "resume_command": "vsphere-ai resume 20261124-020000-abcd",
    }


def _moment(seconds: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


_LINKS = (
    "VM adapter",
    "virtual hardware",
    "guest memory",
    "port group",
    "distributed switch",
    "PVRDMA vmknic",
    "firewall",
    "physical NIC of that uplink",
    "RDMA device of that NIC",
    "MTU",
)
_BROKEN = {1: "PVRDMA vmknic", 2: "physical NIC of that uplink", 3: "MTU"}


def trace(hosts: int, vms: int) -> dict[str, Any]:
    """Return what `rdma trace -o json` prints: three kinds of broken paths, and one that is not known."""
    traces, pairs = [], []
    for n in range(vms):
        on, bad = host(n % hosts + 1)["name"], _BROKEN.get(n % 16, "")
        seen = {
            "port group": "dvpg-rdma",
            "distributed switch": "dvs-rdma",
            "PVRDMA vmknic": "vmk2",
            "physical NIC of that uplink": "Uplink 1 -> vmnic4",
            "RDMA device of that NIC": "vmnic4 -> vmrdma0",
        }
        links = [
            {
                "target": {"kind": "link", "name": name, "ref": ""},
                "verdict": "fail" if name == bad else "unknown" if name == "firewall" and n % 16 == 5 else "pass",
                "message": "Net.PVRDMAVmknic is not set" if name == bad else seen.get(name, "as it should be"),
                "part": "path",
                "rule": "vm.rdma-path",
                "remedy": "",
                "evidence": [],
                "source": "",
                "refuses": False,
                "fix": {"target": on, "line": "vmkernel: {dvpg-rdma: {pvrdma: true}}"} if name == bad else None,
            }
            for name in _LINKS
        ]
        traces.append(
            {
                "vm": vm(n)["name"],
                "host": on,
                "adapter": "Network adapter 2",
                "port_group": "dvpg-rdma",
                "protocol": "rocev2",
                "rdma_mtu": 4096,
                "verdict": "fail" if bad else "unknown" if n % 16 == 5 else "pass",
                "healthy": not bad and n % 16 != 5,
                "links": links,
            }
        )
    for n in range(1, vms):
        bad = _BROKEN.get(n % 16, "")
        causes = [{"target": vm(n)["name"], "link": bad, "message": "not set"}] if bad else []
        pairs.append(
            {
                "vms": [vm(0)["name"], vm(n)["name"]],
                "use": "none" if bad else "roce",
                "why": "no RDMA" if bad else "RoCE, RDMA MTU 4096",
                "causes": causes,
            }
        )
    playbook = "- hosts: esx0001.lab.local\n  vmkernel: {dvpg-rdma: {pvrdma: true}}\n"
    return {
        "schema_version": 1,
        "vcenter": ABOUT,
        "verdict": "fail",
        "traces": traces,
        "pairs": pairs,
        "playbook": playbook,
        "unchanged": [],
    }


def capacity(hosts: int, vms: int) -> dict[str, Any]:
    """Return what `capacity -o json` prints: two instances on each GPU, of which one may be in use."""
    found = []
    for n in range(1, hosts + 1):
        gpus = []
        for m, pci in enumerate(GPUS):
            number = (n - 1) * len(GPUS) + m
            used = number < vms
            running = [{"vm": vm(number)["name"], "profile": LARGER, "gpu_instance": 1}] if used else []
            instances = [
                {"profile": "3g.20gb", "start": 4, "in_use": used},
                {"profile": "2g.10gb", "start": 0, "in_use": False},
            ]
            gpus.append(
                {
                    "pci": pci,
                    "board": "a100-40gb",
                    "title": "NVIDIA A100 40GB",
                    "mode": "mig",
                    "sizes": "equal",
                    "running": running,
                    "room": {LARGER: 0, "grid_a100-1-5c": 2},
                    "slices": 8,
                    "instances": instances,
                    "free_slices": [2, 3],
                    "stranded_slices": [3] if n % 5 == 0 else [],
                    "defragment": [],
                }
            )
        found.append({"host": host(n)["name"], "gpus": gpus})
    return {"schema_version": 1, "vcenter": ABOUT, "hosts": found}
