"""Random clusters with `evacuate: vmotion`: an accepted plan moves every VM, and none goes off, by the ledger."""

from __future__ import annotations

import random

import pytest
from support import seeds

from vsphere_ai.lab.hardware import parts, vgpu
from vsphere_ai.lab.hardware.gpu import LabGpu
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.ledger import Ledger

pytestmark = pytest.mark.lab

CASES = 40 if seeds.FULL else 4
PCI = ("0000:3b:00.0", "0000:86:00.0")
SLICED = ("20c", "20c", "10c", "40c", "5c")
MIG = ("3-20c", "2-10c", "1-5c", "1-5c", "7-40c", "1-10c")
WINDOW = '{pciPassthru.use64bitMMIO: "TRUE", pciPassthru.64bitMMIOSizeGB: "128"}'
POWER = ("ShutdownGuest", "PowerOffVM_Task", "PowerOnVM_Task", "guest shut down")


def drawn(seed):
    """Return a scenario, and the playbook for some of its hosts."""
    draw = random.Random(seed)
    count, mig = draw.randint(2, 4), draw.random() < 0.5
    policy = draw.choice(("performance", "consolidation"))
    hosts, vms = [], []
    for number in range(1, count + 1):
        gpus = draw.randint(1, 2)
        driver = "550.90.05" if draw.random() < 0.9 else "535.183.04"
        machine = LabHost(f"esx{number:02d}", Ledger(), vibs=[parts.driver_vib(driver)], assignment_policy=policy,
                       gpus=[LabGpu.of(n, PCI[n], "a100-40gb", device_id=0x20F1) for n in range(gpus)])  # fmt: skip
        for gpu in machine.gpus:
            gpu.active, gpu.mig_current = "sharedDirect", mig
        slots = ", ".join(f'{{pci: "{p}", board: a100-40gb, device_id: 20f1, graphics_type: sharedDirect, '
                          f"mig: {str(mig).lower()}}}" for p in PCI[:gpus])  # fmt: skip
        hosts.append(f"""
  - name: esx{number:02d}.lab.local
    cluster: a
    version: 8.0.2
    build: 22380479
    nvidia_driver: {driver}
    graphics_default: sharedDirect
    assignment_policy: {policy}
    gpus: [{slots}]
    ssh: {{running: true, policy: on}}""")
        for _ in range(draw.choice((0, 1, 1, 2))):
            profile = f"grid_a100-{draw.choice(MIG if mig else SLICED)}"
            if not vgpu.fits(machine, [profile]):
                continue
            vgpu.power_on(machine, f"vm{len(vms)}", [profile])
            vms.append(f"\n  - {{name: vm{len(vms)}, host: esx{number:02d}.lab.local, power: on, hardware: 20, "
                       f"memory_gb: 8, memory_reservation_locked: true, vgpu: [{profile}], "
                       f"extra_config: {WINDOW}}}")  # fmt: skip
    scenario = f"""
name: drawn
vcenter: {{version: 8.0.2, build: 22385739, api: 8.0.2.0, vgpu_vmotion: true}}
timing: {{boot_seconds: 0.15, task_seconds: 0.005, shutdown_seconds: 0.05, vmotion_seconds: 0.02}}
clusters: [{{name: a, drs: {draw.choice(("fullyAutomated", "manual"))}}}]
hosts:{"".join(hosts)}
vms:{"".join(vms) or " []"}
"""
    chosen = sorted(draw.sample(range(1, count + 1), draw.randint(1, count)))
    pattern = ",".join(f"esx{n:02d}.lab.local" for n in chosen)
    playbook = f"""
- hosts: "{pattern}"
  kernel: {{ats_support: true}}
  rolling: {{evacuate: vmotion, reboot: api, max_unavailable: {draw.choice((1, 1, 2))}}}
"""
    return scenario, playbook, [f"esx{n:02d}.lab.local" for n in chosen]


@pytest.mark.parametrize("seed", [seeds.SEED * 1000 + n for n in range(CASES)])
def test_what_is_accepted_moves_and_stays_on(make_lab, monkeypatch, capsys, tmp_path, seed):
    from e2e.conftest import Cli

    scenario, playbook, chosen = drawn(seed)
    lab = make_lab(scenario)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    cli = Cli(capsys, tmp_path)
    before = {v["name"]: v for v in lab.get("/lab/farm")["vms"]}
    done = len(lab.get("/lab/ledger")["entries"])
    plan = cli.plan(cli.file(playbook))
    code = cli("apply", cli.file(playbook), "--yes")
    entries = lab.get("/lab/ledger")["entries"][done:]
    if plan["problems"]:
        assert {p["rule"] for p in plan["problems"]} <= {"rolling.no-slot", "rolling.nowhere"}
        assert (code, entries) == (1, [])
        return
    assert code == 0, f"{cli.out}\n{cli.err}\n{scenario}\n{playbook}"
    assert [e for e in entries if e["call"] in POWER] == []
    after = {v["name"]: v for v in lab.get("/lab/farm")["vms"]}
    assert {v["power"] for v in after.values()} <= {"poweredOn"}
    went = [(e["object"], e["detail"]["source"], e["detail"]["target"]) for e in entries
            if e["call"] == "MigrateVM_Task"]  # fmt: skip
    assert sorted(went) == sorted((m["vm"]["name"], m["source"]["name"], m["target"]["name"])
                                  for m in plan["impact"]["migrations"])  # fmt: skip
    assert {e["object"] for e in entries if e["call"] == "RebootHost_Task"} == set(chosen)
    left = {name for name, v in before.items() if v["host"] in chosen}
    assert left <= {name for name, _, _ in went}
