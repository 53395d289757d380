"""Random farms whose GPUs are full, or full of holes, and windows without a reboot on their hosts.

A reboot makes GPUs new; without one, what runs on a host holds its places on the GPUs until it goes off, and what goes
off may find others taken. Nothing here tells whether the work can be done: `exhaustive` looks for a way on the lab.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

from honesty.boards import BOARDS, Board
from honesty.case import SLOTS, Case, Host, Play, Vm
from honesty.pressed import CLUSTER, ROLLING

RELEASES = ("8.0.3", "9.0.0", "9.1.0")
"""Releases on which a GPU has a vGPU mode."""
WITHOUT_REBOOT = tuple(b for b in BOARDS if b.mig and not b.mig_reboots)
"""Boards whose MIG mode is switched without a reboot: drawn more often."""
DRIVER = "550.90.05"
MODES = {"same_size": "sameSize", "mixed_size": "mixedSize"}
LEVELS = ("fullyAutomated", "fullyAutomated", "partiallyAutomated", "off")
FATES = ("", "", "", "", "killed", "rolled back")


def draw(rng: random.Random) -> Case:
    """Return a case of windows without a reboot, beside whatever runs on the same hosts."""
    case = Case(release=rng.choice(RELEASES), fate=rng.choice(FATES), job={"windows": [], "changes": {}})
    case.killed_at, case.killed_when = rng.randint(1, 9), rng.choice(("before", "after"))
    case.hot, case.drs[CLUSTER] = rng.random() < 0.7, rng.choice(LEVELS)
    board = rng.choice((*BOARDS, *WITHOUT_REBOOT * 2))
    for number in range(1, rng.choice((1, 2, 2, 3)) + 1):
        case.hosts.append(_host(f"esx{number:02d}.lab.local", board if rng.random() < 0.8 else rng.choice(BOARDS), rng))
    for host in case.hosts:
        _vms(case, host, rng)
    _settle(case)
    for host in rng.sample(case.hosts, rng.choice((1, 1, 2)) if len(case.hosts) > 1 else 1):
        _window(case, host, rng)
    if rng.random() < 0.4:
        _changes(case, rng)
    rng.shuffle(case.plays)
    return case


def _host(name: str, board: Board, rng: random.Random) -> Host:
    gpus, divided = rng.choice((1, 1, 2)), bool(board.mig) and rng.random() < 0.3
    mode = "sameSize" if board.key.startswith("t4") else rng.choice([*MODES.values()])
    made = Host(name, CLUSTER, board, gpus, mig=divided, shared_direct=True, ssh_policy="on", driver=DRIVER)
    made.more["gpus"] = [
        {"pci": pci, "board": board.key, "device_id": board.device, "graphics_type": "sharedDirect",
         # one GPU in MIG mode beside a time-sliced one is what an operator leaves half done
         "mig": divided and not (number and rng.random() < 0.4), "vgpu_mode": mode}
        for number, pci in enumerate(SLOTS[:gpus])
    ]  # fmt: skip
    made.more |= {"memory_gb": rng.choice((96, 256)), "assignment_policy": rng.choice(("performance", "consolidation"))}
    return made


def _vms(case: Case, host: Host, rng: random.Random) -> None:
    """More VMs than the GPUs have room for, in any order: those that find a place run."""
    assert host.board is not None
    types = [name for gpu in host.more["gpus"] for name in host.board.types(mig=gpu["mig"])]
    few = rng.sample(types, min(len(types), rng.choice((1, 2, 3))))
    for number in range(rng.choice((2, 4, 6, 8))):
        vm = Vm(f"{host.name.partition('.')[0]}-vm{number}", host.name, tools="running", hardware=19, memory_gb=8)
        vm.on, vm.more = rng.random() < 0.85, {"cpus": 4}
        if rng.random() < 0.8:
            vm.vgpu = (rng.choice(few),) * rng.choice((1, 1, 1, 2))
        case.vms.append(vm)


def _settle(case: Case) -> None:
    """Let those VMs run that the lab powers on one after another, in the order of the scenario."""
    from pyVmomi import vim, vmodl

    from vsphere_ai.lab.admission import Occasion
    from vsphere_ai.lab.build import build
    from vsphere_ai.lab.managed.vm_tasks.power import power_on_now
    from vsphere_ai.lab.scenario_file import load

    wanted = {vm.name: vm for vm in case.vms if vm.on}
    for vm in case.vms:
        vm.on = False
    with tempfile.TemporaryDirectory() as folder:
        case.write(Path(folder))
        farm = build(load(Path(folder) / "scenario.yml"), "drawn")
    try:
        for mo in [mo for mo in farm.store.of(vim.VirtualMachine) if mo["name"] in wanted]:
            try:
                power_on_now(farm, mo, farm.host_of(mo), "drawn", Occasion.START)
            except vmodl.MethodFault:
                continue
            wanted[mo["name"]].on = True
    finally:
        farm.close()


def _window(case: Case, host: Host, rng: random.Random) -> None:
    """A change that takes the host out of service and reboots nothing."""
    assert host.board is not None
    window: dict[str, Any] = {"host": host.name, "way": rng.choice(("power_off",) * 3 + ("vmotion",))}
    body: dict[str, Any] = {}
    kind = rng.choice(("nics", "pause", "vgpu_mode", "vgpu_mode", "mig", "mig"))
    now = [gpu["mig"] for gpu in host.more["gpus"]]
    if kind == "mig" and host.board.mig and not host.board.mig_reboots:
        enabled = rng.choice((True, False)) if len({*now}) > 1 else not now[0]
        body["graphics"], body["mig"] = (
            {"default_type": "shared_direct"},
            {"mode": "enabled" if enabled else "disabled"},
        )
        window["mig"] = enabled
    elif kind == "vgpu_mode":
        present = host.more["gpus"][0]["vgpu_mode"]
        mode = next(name for name, value in MODES.items() if value != present)
        if mode == "mixed_size" and host.board.key.startswith("t4"):
            kind = "nics"  # sizes are not mixed before Ampere, which is refused
        else:
            body["graphics"], window["vgpu_mode"] = {"default_type": "shared_direct", "vgpu_mode": mode}, MODES[mode]
    if not body:
        link = {"pause": {"rx": True, "tx": False}} if kind == "pause" else {"speed": 10000}
        body["nics"] = {"vmnic1": link}
    most = rng.choice((1, 1, 2))
    case.plays.append(
        Play(
            "hosts", (host.name,), {**body, "rolling": {**ROLLING, "evacuate": window["way"], "max_unavailable": most}}
        )
    )
    case.job["windows"].append(window)
    # the run itself moves VMs with vGPUs, which the search for a way does not
    if window["way"] == "vmotion" and any(v.vgpu and v.on for v in case.on(host)):
        case.job["open"] = True


def _changes(case: Case, rng: random.Random) -> None:
    """Changes of some of the VMs that take a power cycle.

    A VM that is off and gets vGPUs is taken for one that is to run, so that it has to find a place, too: not drawn.
    """
    may = case.vms
    for vm in rng.sample(may, min(len(may), rng.choice((1, 1, 2)))):
        host = case.host(vm.host)
        body: dict[str, Any] = {"tuning": {"cpus": 8}}
        if vm.vgpu and vm.on and rng.random() < 0.6:
            assert host.board is not None
            wanted = [w["mig"] for w in case.job["windows"] if w["host"] == host.name and "mig" in w]
            modes = {*wanted} or {gpu["mig"] for gpu in host.more["gpus"]}
            types = [name for mig in sorted(modes) for name in host.board.types(mig=mig)]
            other = [t for t in types if (t,) != vm.vgpu]
            if other:
                body = {"vgpu": [rng.choice(other)]}
        case.plays.append(Play("vms", (vm.name,), body))
        case.job["changes"][vm.name] = {**body.get("tuning", {}), **{k: v for k, v in body.items() if k == "vgpu"}}
