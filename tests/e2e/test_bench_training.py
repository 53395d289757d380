"""`bench megatron`, `scale` and `burn` on guests of the lab: what is planted in the farm is measured and named."""

from __future__ import annotations

import json

import pytest
from support.vm_sets import FARM, FULL, INVENTORY

from vsphere_ai.app import EstateRequest, NodesRequest
from vsphere_ai.app.events import Remark, Status
from vsphere_ai.app.training.acceptance.farm import accept
from vsphere_ai.app.training.acceptance.values import AcceptRequest
from vsphere_ai.app.training.benchmarks.burn import BurnOptions, BurnRequest, bench_burn
from vsphere_ai.app.training.benchmarks.history import history
from vsphere_ai.app.training.benchmarks.megatron import MegatronOptions, MegatronRequest, MegatronTest, bench_megatron
from vsphere_ai.app.training.benchmarks.nccl import NcclOptions, NcclRequest, NcclTest, bench_nccl
from vsphere_ai.app.training.benchmarks.rdma import RdmaRequest, bench_rdma
from vsphere_ai.app.training.benchmarks.scale import ScaleOptions, ScaleRequest, bench_scale
from vsphere_ai.benchmarks.checks import is_passed
from vsphere_ai.errors import Refused, UsageError
from vsphere_ai.model.finding import exit_code, worst

pytestmark = pytest.mark.lab
PLAIN = """
name: fabric
timing: {boot_seconds: 0.2, task_seconds: 0.01, guest_seconds: 0.05}
clusters: [{name: gpu-a, drs: fullyAutomated}]
switches:
  - {name: dvs-rdma, mtu: 9000, uplinks: 1, port_groups: [{name: dvpg-rdma, vlan: 100}]}
  - {name: dvs-lan, port_groups: [{name: dvpg-lan}]}
hosts:
  - name: esx[01:04].lab.local
    cluster: gpu-a
    nvidia_driver: 535.161.05
    graphics_default: sharedDirect
    gpus: [{pci: 0000:3b:00.0, board: a100-40gb, device_id: 20f1, graphics_type: sharedDirect}]
    nics:
      - {name: vmnic0, pci: 0000:18:00.0, model: X710, switch: dvs-lan}
      - {name: vmnic4, pci: 0000:5e:00.0, model: ConnectX-6, switch: dvs-rdma, rdma: vmrdma0}
    vmkernel: [{name: vmk0, port_group: dvpg-lan}, {name: vmk2, port_group: dvpg-rdma}]
    ssh: {running: true, policy: off}
vms:
  - name: trn-[01:04]
    host: esx[01:04].lab.local
    folder: ai
    network: dvpg-lan
    power: on
    vgpu: [grid_a100-40c]
    pvrdma: [dvpg-rdma]
    memory_reservation_locked: true
    extra_config: {pciPassthru.use64bitMMIO: "TRUE", pciPassthru.64bitMMIOSizeGB: "128"}
"""
WHOLE = """
name: whole
timing: {boot_seconds: 0.3, task_seconds: 0.005, shutdown_seconds: 0.1, guest_seconds: 0.05}
clusters: [{name: gpu-a}]
switches: [{name: dvs-lan, port_groups: [{name: dvpg-lan}]}]
hosts:
  - name: esx05.lab.local
    cluster: gpu-a
    nvidia_driver: 470.256.02
    gpus: [{pci: 0000:3b:00.0, board: a100-40gb, device_id: 20f1}]
    nics: [{name: vmnic0, pci: 0000:18:00.0, model: I350, switch: dvs-lan}]
    ssh: {running: true, policy: off}
vms:
  - {name: whole-01, host: esx05.lab.local, folder: ai, power: on, hardware: 19, network: dvpg-lan}
"""
PASSTHROUGH = """
- hosts: esx05.lab.local
  rolling: {evacuate: power_off}
  passthrough: {"0000:3b:00.0": true}
- vms: whole-01
  pci_devices: [{host_device: "0000:3b:00.0"}]
"""
SHORT = BurnOptions(minutes=0.03, steps=10, preflight=False)


@pytest.fixture
def on(make_lab, tmp_path, monkeypatch):
    farm = make_lab(PLAIN)
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "state"))
    estate = EstateRequest(inventory=farm.directory / "connection.yml")

    def nodes(*vms):
        return NodesRequest(vms or ("trn-*",), estate=estate)

    nodes.lab = farm
    return nodes


def rules(checks):
    return sorted(c.rule for c in checks)


def test_megatron_is_judged_against_what_it_reached_before(on, tmp_path):
    file = tmp_path / "megatron.yml"
    sound = bench_megatron(MegatronRequest(on(), options=MegatronOptions(learned=file)))
    assert (worst(sound.findings), sound.checks, sound.gpus) == ("pass", (), 4)
    assert sound.reached.tflops == pytest.approx(312 * 0.45, rel=0.05)
    assert sound.tokens == pytest.approx(64 * 4 * 1024 / sound.reached.time * 1e3, rel=1e-6)
    assert sound.loss < sound.iterations[0].loss
    with pytest.raises(UsageError):
        bench_megatron(MegatronRequest(on(), options=MegatronOptions(learned=file)))
    on.lab.set_defects({"kind": "gpu-slow", "host": "esx03*", "factor": 0.8})
    slow = bench_megatron(MegatronRequest(on(), options=MegatronOptions(baseline=file)))
    assert (exit_code(slow.findings), rules(slow.checks)) == (2, ["megatron.below-baseline"])
    assert slow.reached.tflops == pytest.approx(sound.reached.tflops * 0.8, rel=0.05)
    other = bench_megatron(MegatronRequest(on("trn-01"), options=MegatronOptions(baseline=file)))
    assert (exit_code(other.findings), rules(other.checks)) == (1, ["megatron.not-measured"]), (
        "the baseline is of four GPUs"
    )


def test_a_run_that_fails_or_computes_wrongly_is_no_pass(on):
    missing = bench_megatron(MegatronRequest(on(), MegatronTest(folder="/opt/none")))
    assert (exit_code(missing.findings), rules(missing.checks)) == (1, ["megatron.run-failed"])
    assert "trn-01" in missing.checks[0].message
    assert any("pretrain_gpt.py" in line for line in missing.tail)
    on.lab.set_defects({"kind": "loss-nan", "vm": "trn-02", "count": 7})
    wrong = bench_megatron(MegatronRequest(on()))
    assert (exit_code(wrong.findings), rules(wrong.checks)) == (2, ["megatron.loss"])
    assert "iteration 7" in wrong.checks[0].message
    on.lab.set_defects()
    late = bench_megatron(MegatronRequest(on("trn-01"), MegatronTest(iterations=5000), MegatronOptions(timeout=2)))
    assert rules(late.checks) == ["megatron.not-measured", "megatron.run-failed"]
    on.lab.set_defects({"kind": "gpu-busy", "vm": "trn-02"})
    with pytest.raises(Refused) as refused:
        bench_megatron(MegatronRequest(on()))
    assert refused.value.rule == "bench.preflight"


@pytest.mark.parametrize("what", ["nccl", "megatron"])
def test_scaling_names_the_step_at_which_efficiency_falls(on, what):
    options = ScaleOptions(what, suffix="_mpi", preflight=False)
    sound = bench_scale(ScaleRequest(on(), options))
    assert (worst(sound.findings), sound.step) == ("pass", None)
    assert [s.vms for s in sound.scales] == ([2, 4] if what == "nccl" else [1, 2, 4])
    on.lab.set_defects({"kind": "pace", "vm": "trn-02", "factor": 0.6, "vms": 4})
    result = bench_scale(ScaleRequest(on(), options))
    assert (exit_code(result.findings), rules(result.checks)) == (2, ["scale.poor"])
    assert (result.step.before.vms, result.step.after.vms, result.step.added) == (2, 4, ("trn-03", "trn-04"))
    with pytest.raises(UsageError):
        bench_scale(ScaleRequest(on("trn-01"), options))


def test_a_burn_finds_wrong_bits_and_throttling_and_names_the_part(on):
    sound = bench_burn(BurnRequest(on(), SHORT))
    assert (worst(sound.findings), [each.checks for each in sound.gpus]) == ("pass", [()] * 4)
    assert {each.gpu.side for each in sound.gpus} == {"host"}
    on.lab.set_defects(
        {"kind": "wrong-bit", "host": "esx02*"},
        {"kind": "gpu-throttled", "host": "esx03*", "reason": "thermal"},
        {"kind": "wrong-bit", "vm": "trn-04", "count": 1},
    )
    result = bench_burn(BurnRequest(on(), SHORT))
    assert {each.gpu.vm: rules(each.checks) for each in result.gpus} == {
        "trn-01": [],
        "trn-02": ["burn.corrupt"],
        "trn-03": ["burn.slow", "burn.throttled"],
        "trn-04": ["burn.differs"],
    }
    hot = result.gpus[2].gpu
    assert (hot.host, hot.pci) == ("esx03.lab.local", "0000:3b:00.0")
    assert max(s.temperature for s in hot.samples) == 93
    # what four GPUs agreed on decides over a GPU that burns alone
    alone = bench_burn(BurnRequest(on("trn-04"), SHORT))
    assert [rules(each.checks) for each in alone.gpus] == [["burn.differs"]]


def test_a_gpu_in_passthrough_is_seen_by_its_guest(cli, make_lab):
    lab = make_lab(WHOLE)
    inventory = lab.directory / "connection.yml"
    assert cli("apply", cli.file(PASSTHROUGH), "-i", inventory, "--yes") == 0, cli.err
    lab.set_defects({"kind": "gpu-throttled", "vm": "whole-01", "reason": "hardware"})
    nodes = NodesRequest(("whole-01",), estate=EstateRequest(inventory=inventory))
    (found,) = bench_burn(BurnRequest(nodes, SHORT)).gpus
    assert (found.gpu.side, found.gpu.host, found.gpu.pci) == ("guest", "esx05.lab.local", "0000:3b:00.0")
    assert rules(found.checks) == ["burn.alone", "burn.throttled"]


def test_a_burn_that_cannot_run_or_be_seen_is_no_pass(on):
    on.lab.set_defects({"kind": "package", "vm": "trn-02", "name": "torch", "version": ""})
    result = bench_burn(BurnRequest(on(), SHORT))
    assert exit_code(result.findings) == 1
    assert {each.gpu.vm: rules(each.checks) for each in result.gpus if each.checks} == {"trn-02": ["burn.refused"]}
    on.lab.set_defects({"kind": "process-left", "vm": "trn-03"})
    result = bench_burn(BurnRequest(on("trn-03", "trn-04"), SHORT))
    assert rules(result.checks("trn-03")) == ["bench.left", "burn.run-failed"]
    assert rules(result.checks("trn-04")) == []


@pytest.mark.parametrize("stuck", [False, True])
def test_ctrl_c_ends_the_processes_everywhere_and_says_where_not(on, stuck):
    said = []

    def emit(event):
        said.append(event)
        if isinstance(event, Status) and event.text.startswith("burn: "):
            raise KeyboardInterrupt

    on.lab.set_defects(*([{"kind": "process-left", "vm": "trn-03"}] if stuck else []))
    with pytest.raises(KeyboardInterrupt):
        bench_burn(BurnRequest(on(), BurnOptions(minutes=5, preflight=False)), emit)
    (remark,) = [event for event in said if isinstance(event, Remark)]
    assert remark.rule == ("bench.left" if stuck else "bench.stopped")
    assert ("trn-03" in remark.text) is stuck
    on.lab.set_defects()
    assert is_passed(bench_megatron(MegatronRequest(on())).findings), "the pre-flight finds the GPUs free"


def test_commands_print_what_json_says(on, cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    given = ("-i", on.lab.directory / "connection.yml", "--no-preflight")
    on.lab.set_defects({"kind": "wrong-bit", "host": "esx02*"})
    burn = ("bench", "burn", "trn-*", "--minutes", "0.05", "--steps", "10", *given)
    assert cli(*burn) == 2
    assert max(map(len, cli.out.splitlines())) <= 80
    assert "\ntrn-02 on esx02.lab.local\n  fail    burn.corrupt" in cli.out
    assert cli(*burn, "-o", "json") == 2
    document = json.loads(cli.out)
    assert {v["vm"]: v["host"] for v in document["vms"]}["trn-02"] == "esx02.lab.local"
    assert [g["vm"] for g in document["gpus"] if g["verdict"] == "fail"] == ["trn-02"]
    assert cli("bench", "megatron", "trn-*", *given, "--min-tflops", "500", "-o", "json") == 2
    document = json.loads(cli.out)
    assert [f["rule"] for f in document["findings"]] == ["megatron.below-baseline"]
    assert cli("bench", "megatron", "trn-*", *given) == 0
    assert "TFLOP/s per GPU" in cli.out
    assert cli("bench", "scale", "trn-*", *given, "--suffix", "_mpi", "-o", "json") == 0
    assert [s["vms"] for s in json.loads(cli.out)["sizes"]] == [2, 4]


def test_results_of_a_set_are_kept_and_the_gate_needs_a_measurement(cli, make_lab, monkeypatch):
    lab = make_lab(FARM)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    inventory, playbook = cli.file(INVENTORY, "inventory.yml"), cli.file(FULL, "train.yml")
    assert cli("apply", playbook, "--yes", "-i", inventory) == 0, cli.err
    estate = EstateRequest(inventory=inventory)
    nodes = NodesRequest(playbook=playbook, estate=estate)
    for _ in range(2):
        assert is_passed(bench_megatron(MegatronRequest(nodes)).findings)
    bench_burn(BurnRequest(nodes, SHORT))
    found = {trend.newest.benchmark: trend for trend in history(name="train")}
    assert found["megatron"].count == 2
    assert (found["megatron"].newest.unit, found["burn"].newest.unit) == ("TFLOP/s", "steps/s")
    for _ in range(2):
        assert is_passed(bench_rdma(RdmaRequest(nodes)).findings)
        assert bench_nccl(
            NcclRequest(nodes, NcclTest(least="64M", most="1G", suffix="_mpi"), NcclOptions(pairwise=True))
        ).pairs
    few = NodesRequest(("train-01", "train-02"), estate=EstateRequest(inventory=inventory))
    assert bench_nccl(NcclRequest(few, NcclTest(suffix="_mpi"))).nodes
    kept = {(t.newest.benchmark, t.newest.operation): t for t in history(name="train")}
    rail = next(t for (name, what), t in kept.items() if name == "rdma")
    assert (rail.count, rail.newest.unit, rail.newest.operation.partition(", ")[2]) == (2, "Gb/s", "slowest VM")
    assert kept["nccl", "all_reduce, median of pairs"].count == 2
    assert ("nccl", "all_reduce") not in kept, "two VMs are not the set"

    def gate(**more):
        file = cli.folder / "certificate.json"
        request = AcceptRequest(playbook, file, gates=("megatron",), estate=estate, **more)
        (made,) = accept(request).certificate.gates
        return made

    assert gate().status == "warn", "no baseline"
    baseline = cli.file("baseline: 1\nmegatron: [{model: 'sanity, 64 samples per GPU', tflops: 137}]\n", "base.yml")
    assert gate(baseline=baseline, again=True).status == "pass"
    lab.set_defects({"kind": "gpu-slow", "host": "*", "factor": 0.5})
    assert gate(baseline=baseline).status == "pass", "what holds is not measured again"
    assert gate(baseline=baseline, again=True).status == "fail"
    assert gate(baseline=baseline, again=True, megatron_folder="/opt/none").status == "fail"
