"""Hosts without GPU and RDMA NIC cost no calls of their own, and nobody is told what only other hosts need."""

from __future__ import annotations

import json
from collections import Counter

import pytest
import yaml

from vsphere_ai.cli.main import main
from vsphere_ai.connect.soap.session import SoapSession

pytestmark = pytest.mark.lab
PLAIN = 40
FARM = f"""
name: mostly plain
timing: {{task_seconds: 0.005}}
clusters: [{{name: c}}]
switches:
  - {{name: dvs-lan, port_groups: [{{name: dvpg-lan}}]}}
  - {{name: dvs-rdma, mtu: 9000, uplinks: 1, port_groups: [{{name: dvpg-rdma, vlan: 100}}]}}
hosts:
  - name: gpu01.lab.local
    cluster: c
    nvidia_driver: 470.256.02
    gpus: [{{pci: "0000:3b:00.0", board: a100-40gb, device_id: 20f1, graphics_type: sharedDirect}}]
    nics: [{{name: vmnic0, pci: "0000:18:00.0", switch: dvs-lan}}]
    vmkernel: [{{name: vmk0, port_group: dvpg-lan}}]
  - name: rdma01.lab.local
    cluster: c
    nics:
      - {{name: vmnic0, pci: "0000:18:00.0", switch: dvs-lan}}
      - {{name: vmnic4, pci: "0000:5e:00.0", model: ConnectX-6, switch: dvs-rdma, rdma: vmrdma0}}
    vmkernel: [{{name: vmk0, port_group: dvpg-lan}}, {{name: vmk2, port_group: dvpg-rdma}}]
  - name: esx[01:{PLAIN}].lab.local
    cluster: c
    nics: [{{name: vmnic0, pci: "0000:18:00.0", switch: dvs-lan}}]
    vmkernel: [{{name: vmk0, port_group: dvpg-lan}}]
vms:
  - {{name: a, host: gpu01.lab.local, network: dvpg-lan}}
"""


@pytest.fixture
def run(make_lab, monkeypatch, capsys, tmp_path):
    """Run a command against the farm; return exit code, output and how often each method was called."""
    lab = make_lab(FARM)
    calls = Counter()
    real = SoapSession.invoke

    def invoke(self, target, method, *args):
        calls[method] += 1
        return real(self, target, method, *args)

    monkeypatch.setattr(SoapSession, "invoke", invoke)
    document = yaml.safe_load((lab.directory / "connection.yml").read_text(encoding="utf-8"))
    document["vcenters"]["lab"]["password"] = f"file:{lab.directory / 'password'}"
    document["vcenters"]["lab"]["tls"] = {"ca_file": str(lab.directory / "ca.pem")}
    del document["ssh"]
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(json.dumps(document), encoding="utf-8")
    inventory.chmod(0o600)

    def command(*arguments):
        calls.clear()
        code = main([*map(str, arguments), "-i", str(inventory)])
        return code, capsys.readouterr(), Counter(calls)

    return command


OWN = ("QueryOptions", "fetchSoftwarePackages", "QueryConfiguredModuleOptionString")


# both options where there is a GPU or RDMA NIC, packages where there is a GPU, both modules where there is an RDMA NIC
@pytest.mark.parametrize(
    ("command", "asked"), [("show", (4, 1, 2)), ("check", (4, 1, 2)), ("capacity", (0, 0, 0)), ("doctor", (0, 1, 0))]
)
def test_calls_go_to_hosts_that_have_a_gpu_or_an_rdma_nic(run, command, asked):
    code, (_, err), calls = run(command)
    assert code in (0, 1), err
    assert tuple(calls[method] for method in OWN) == asked
    assert sum(calls.values()) < 25, calls


@pytest.mark.parametrize(
    ("play", "asked"),
    [
        ("- vms: a\n  tuning: {latency_sensitivity: high}\n  hardware: {memory_reservation: full}\n", (0, 0, 0)),
        ("- hosts: esx*\n  uplinks: {dvs-lan: {Uplink 1: vmnic0}}\n", (0, 0, 0)),
        ("- datacenters: '*'\n  switches: {dvs-lan: {mtu: 9000}}\n", (2, 0, 1)),  # PVRDMA may go over it
        ("- hosts: gpu01.lab.local\n  graphics: {default_type: shared_direct}\n", (0, 1, 0)),
        ("- vms: a\n  vgpu: [grid_t4-16q]\n", (0, PLAIN + 2, 0)),  # it may run on any of them: their drivers count
        ("- vms: a\n  vgpu: []\n", (0, 0, 0)),  # without a vGPU no driver counts
        ("- vms: a\n  pvrdma: [{port_group: dvpg-rdma}]\n", (PLAIN + 2, 0, PLAIN + 2)),  # it may run on any of them
    ],
)
def test_planning_calls_go_to_hosts_whose_answers_count(run, tmp_path, play, asked):
    playbook = tmp_path / "play.yml"
    playbook.write_text(play, encoding="utf-8")
    code, (out, err), calls = run("plan", playbook)
    assert code in (0, 1), err
    assert "plan" in out.casefold()
    assert "cannot be read" not in out, "what is judged has been asked"
    assert tuple(calls[method] for method in OWN) == asked


def test_a_playbook_still_has_its_targets_asked(run, tmp_path):
    playbook = tmp_path / "play.yml"
    playbook.write_text("- hosts: esx01.lab.local\n  pvrdma_host: {vmknic: vmk0}\n", encoding="utf-8")
    code, (out, err), calls = run("plan", playbook)
    assert code == 0, out + err
    assert calls["QueryOptions"] == 1
    assert "pvrdma_host" in out


def test_what_show_says_of_a_plain_host_is_what_it_is(run, tmp_path):
    code, (out, err), _ = run("show")
    assert code == 0, err
    assert f"esx[01:{PLAIN}].lab.local" in out, out
    assert len(yaml.safe_load(out)) < 12, "equal hosts are one play"
    playbook = tmp_path / "shown.yml"
    playbook.write_text(out, encoding="utf-8")
    code, (out, err), _ = run("plan", playbook, "--detailed-exitcode")
    assert code == 0, out + err


def test_doctor_without_ssh_speaks_of_hosts_that_need_it(run):
    code, (out, err), _ = run("doctor", "-o", "json")
    assert code in (0, 1), err
    said = [c for c in json.loads(out)["findings"] if "ssh" in (c["message"] + c["remedy"]).casefold()]
    assert {c["target"]["name"] for c in said} - {"files"} == {"gpu01.lab.local", "rdma01.lab.local"}
    assert {c["verdict"] for c in said if c["target"]["name"] != "files"} == {"warn"}
