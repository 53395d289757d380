"""Pre-flight on the lab: a healthy farm has no finding, and each planted fault exactly one, which names VM and host."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.vm_sets import FARM, FULL, INVENTORY

from vsphere_ai import app
from vsphere_ai.app.training.nodes.preflight import preflight
from vsphere_ai.connect.secure_shell.guest_ssh import GuestSsh
from vsphere_ai.health.preflight import PreflightRequirements
from vsphere_ai.lab.front import process
from vsphere_ai.language.inventories.inventory import load_inventory

pytestmark = pytest.mark.lab
SCRIPT, PYTHON = "/shared/train.py", "/usr/bin/python3"
VMS = [f"train-0{n}" for n in range(1, 5)]
WANTED = PreflightRequirements(
    processes=1,
    listens=((0, 29500), (0, 29555)),
    shared=("/shared/data",),
    scripts=(SCRIPT,),
    programs=dict.fromkeys(VMS, (PYTHON, "torchrun")),
    python=PYTHON,
    packages=("torch",),
)
VM = "train-02"
FAULTS = [
    ("gpu-count", {"kind": "gpu-missing", "vm": VM}),
    ("gpu-free", {"kind": "gpu-busy", "vm": VM}),
    ("gpu-driver", {"kind": "hang", "vm": VM, "command": "query-gpu"}),
    ("gpu-driver", {"kind": "flood", "vm": VM, "command": "query-gpu"}),
    ("versions", {"kind": "driver", "vm": VM, "version": "470.82.01"}),
    ("versions", {"kind": "package", "vm": VM, "name": "torch", "version": "2.1.0"}),
    ("versions", {"kind": "package", "vm": VM, "name": "torch", "version": ""}),
    ("versions", {"kind": "package", "vm": VM, "name": "nvidia-nccl-cu12", "version": "2.18.1"}),
    ("rdma-link", {"kind": "rail-down", "vm": VM}),
    ("mtu", {"kind": "mtu", "vm": VM, "nic": "rdma1", "mtu": 1500}),
    ("clock", {"kind": "clock", "vm": VM, "seconds": 5}),
    ("clock", {"kind": "clock", "vm": VM, "seconds": -1.6}),
    ("script", {"kind": "file-missing", "vm": VM, "path": SCRIPT}),
    ("script", {"kind": "file-differs", "vm": VM, "path": SCRIPT}),
    ("program", {"kind": "file-missing", "vm": VM, "path": "torchrun"}),
    ("program", {"kind": "file-missing", "vm": VM, "path": PYTHON}),
    ("shared-path", {"kind": "file-missing", "vm": VM, "path": "/shared/data"}),
    ("port-reach", {"kind": "unreachable", "vm": VM, "other": "train-01"}),
    ("path", {"kind": "unreachable", "vm": VM, "other": "train-03"}),
    ("port-reach", {"kind": "unreachable", "vm": VM}),
    ("path-mtu", {"kind": "path-mtu", "vm": VM, "mtu": 1500}),
]


@pytest.fixture
def farm(cli, make_lab, monkeypatch):
    lab = make_lab(FARM)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    inventory = cli.file(INVENTORY, "inventory.yml")
    playbook = cli.file(FULL.replace("rail: 1,", "rail: 1, mtu: 9000,"))
    assert cli("apply", playbook, "--yes", "-i", inventory) == 0, cli.out + cli.err

    def found(wanted=WANTED):
        request = app.NodesRequest(playbook=playbook, estate=app.EstateRequest(inventory))
        listed = app.list_nodes(request)
        settings = app.guest_settings(load_inventory(inventory))
        return preflight(listed.nodes, settings, wanted, states=listed.states)

    found.lab = lab
    return found


def test_each_planted_fault_is_one_message_and_a_healthy_farm_has_none(farm, monkeypatch):
    from vsphere_ai.health import answers
    from vsphere_ai.health import guest_probes as module

    monkeypatch.setattr(module, "BASIC", tuple(fast(each) for each in module.BASIC))
    healthy = farm()
    assert [f.text for f in healthy.findings] == []
    assert healthy.ok
    (rail,) = healthy.nodes[0].rails
    assert (rail.rdma_device[:5], rail.gid_index, rail.mtu) == ("roces", 1, 9000)
    assert healthy.nodes[0].gpus[0].uuid.startswith("GPU-")
    hosts = {node.vm: node.host for node in healthy.nodes}
    assert answers.SMI.name == "nvidia-smi"
    for check, defect in FAULTS:
        farm.lab.set_defects(defect)
        found = farm()
        assert [(f.rule, f.target.name, f.target.host) for f in found.findings] == [(check, VM, hosts[VM])], (
            defect,
            [f.text for f in found.findings],
        )
        assert found.findings[0].remedy
    farm.lab.set_defects({"kind": "port-taken", "vm": "train-01", "port": 29500})
    assert [(f.rule, f.target.name) for f in farm().findings] == [("port-free", "train-01")]
    for port in (29500, 29555):
        farm.lab.set_defects({"kind": "port-rejected", "vm": "train-01", "port": port})
        (found,) = farm().findings
        assert (found.rule, found.target.name, found.target.host) == ("port-reach", "train-01", hosts["train-01"])
        assert f"on port {port}: connection refused" in found.message
    by_ssh = replace(WANTED, logins="own")
    farm.lab.set_defects()
    assert farm(by_ssh).findings == farm(replace(WANTED, logins="mesh")).findings == ()
    farm.lab.set_defects({"kind": "login-refused", "vm": VM})
    assert [(f.rule, f.target.name, f.target.host) for f in farm(by_ssh).findings] == [("ssh-between", VM, hosts[VM])]
    assert farm(replace(WANTED, logins="mesh")).findings == ()
    farm.lab.set_defects({"kind": "login-refused"})
    assert [(f.rule, f.target.name) for f in farm(by_ssh).findings] == [("ssh-between", "train-01")]
    farm.lab.set_defects({"kind": "port-rejected", "vm": VM, "port": 22})
    for logins in ("own", "mesh"):
        assert [(f.rule, f.target.name) for f in farm(replace(WANTED, logins=logins)).findings] == [("ssh-between", VM)]
    farm.lab.set_defects({"kind": "unreachable", "vm": VM, "other": "train-01"})
    assert [(f.rule, f.target.name) for f in farm(by_ssh).findings] == [("port-reach", VM)]
    farm.lab.set_defects()
    missing = farm(PreflightRequirements(shared=("/no/such",)))
    assert {(f.rule, f.target.name) for f in missing.findings} == {("shared-path", vm) for vm in hosts}
    assert {f.rule for f in farm(PreflightRequirements(processes=2)).findings} == {"gpu-count"}

    for vm in ("train-03", "train-04"):
        farm.lab.set_defects({"kind": "unreachable", "vm": vm})
        (cut,) = farm().findings
        assert (cut.rule, cut.target.name, cut.target.host) == ("port-reach", vm, hosts[vm])
        assert "train-01" in cut.message
        assert f"from {vm} to " in cut.message
    farm.lab.set_defects({"kind": "unreachable", "vm": "train-01"})
    assert [(f.rule, f.target.name) for f in farm().findings] == [("path", "train-01")]


@pytest.mark.parametrize(("command", "most"), [("", 2), ("date", 9), ("ping", 11)])
def test_a_guest_that_hangs_is_one_message_and_not_asked_again(farm, monkeypatch, command, most):
    """From the first command, or from a later one: nothing is asked after two commands that do not end."""
    real, asked, hanging = GuestSsh.run, [], []

    def run(shell, argv, **more):
        if shell.vm == VM:
            asked.append(argv[0])
            if not hanging and command in " ".join(argv):
                hanging.append(True)
                farm.lab.set_defects({"kind": "hang", "vm": VM})
            more["timeout"] = 0.5 if hanging else more["timeout"]
        return real(shell, argv, **more)

    monkeypatch.setattr(GuestSsh, "run", run)
    (found,) = farm().findings
    assert (found.rule, found.target.name, bool(found.target.host), bool(found.remedy)) == ("ssh", VM, True, True)
    assert asked[-1] == "true"
    assert asked.count("true") == 1
    assert len(asked) <= most


def fast(asked):
    return replace(asked, timeout=1.5)


def test_a_vm_that_is_off_and_one_without_ssh_have_one_message_each(farm):
    from conftest import Client

    client = Client(farm.lab)
    client.wait(client.vm("train-03").PowerOffVM_Task())
    assert [(f.rule, f.target.name) for f in farm().findings] == [("power", "train-03")]
    known = farm.lab.directory / "known_hosts"
    settings = load_inventory(process.find(farm.lab.directory).directory / "connection.yml").guests
    port = settings.endpoints["train-04"][1]
    known.write_text("".join(line for line in known.read_text().splitlines(True) if f":{port} " not in line))
    assert {(f.rule, f.target.name) for f in farm().findings} == {("power", "train-03"), ("ssh", "train-04")}
