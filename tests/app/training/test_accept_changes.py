"""Acceptance on simulated sets: what a change of one host takes again, and that no change for the worse is missed."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.seeds import cases, chance
from support.slow_farms import Fleet, Planted, farm

from vsphere_ai.app.events import ignore
from vsphere_ai.app.training.acceptance import fabric as accept_fabric
from vsphere_ai.app.training.acceptance import farm as accept_farm
from vsphere_ai.app.training.acceptance.values import Acceptance, AcceptRequest
from vsphere_ai.app.training.benchmarks import nccl, rdma
from vsphere_ai.app.training.benchmarks.guests import BenchmarkGuests
from vsphere_ai.benchmarks.history import trends
from vsphere_ai.benchmarks.perftest import RailRate, judged_rails
from vsphere_ai.benchmarks.rails import RdmaResult
from vsphere_ai.connect.secure_shell.guest_survey import GuestConnections
from vsphere_ai.documents.benchmark_history import BenchmarkResult
from vsphere_ai.model.finding import worst_verdict

SPEED = 200.0


class Site:
    """A set of VMs with what is slow in it, and the runs that an acceptance has started there."""

    def __init__(self, count, folder, seed):
        self.nodes = {n.vm: n for n in farm(count, gpus=2, rails=2, per_switch=8)}
        self.planted, self.seed = Planted(), seed
        baseline = folder / "baseline.yml"
        baseline.write_text("one", "utf-8")
        files = folder / "play.yml", folder / "certificate.json"
        self.request = AcceptRequest(*files, gates=("rdma", "nccl"), baseline=baseline)
        self.more = {}
        self.runs = 0

    @property
    def fleet(self):
        return Fleet(list(self.nodes.values()), self.planted, self.seed)

    @property
    def guests(self):
        shells = GuestConnections({vm: SimpleNamespace(vm=vm) for vm in self.nodes})
        return BenchmarkGuests("run", self.nodes, shells, ignore)

    def facts(self):
        found = {}
        for node in self.nodes.values():
            found[f"host:{node.host}"] = {"ESXi": "8.0.3", "NVIDIA host driver": "550.90"}
            found[f"vm:{node.vm}"] = {"host": node.host} | {r.interface: r.vmnic + r.switch_port for r in node.rails}
            found |= {f"gpu:{node.host}/{g.host_pci}": {"UUID": g.uuid} for g in node.gpus}
        return {part: {**facts, **self.more.get(part, {})} for part, facts in found.items()}

    def acceptance(self, request, _):
        return Acceptance(request, "vc01", "train", tuple(self.nodes.values()), self.facts())

    def bench_nccl(self, request, _):
        site, fleet = self, self.fleet

        class Simulated(nccl.RoundRunner):
            def round(self, trials):
                site.runs += len(trials)
                return {trial: fleet.bandwidth(trial) for trial in trials}

        runner = Simulated(request, self.guests, ignore)
        if request.options.pairwise:
            return nccl._pairwise(runner, list(self.nodes.values()))
        trial = nccl.Trial(tuple(self.nodes))
        return runner.result(reference=runner.round([trial])[trial])

    def bench_rdma(self, request, _):
        nodes = list(self.nodes.values())
        rates = []
        for name in ("rail 0", "rail 1"):
            found = rdma._measure(name, nodes, self.guests, request)
            rates += [RailRate(node.vm, name, found.get(node.vm), SPEED) for node in nodes]
        return RdmaResult(tuple((r, c, None) for r, c in judged_rails(rates)))

    def pair(self, name, pair, *_):
        self.runs += 1
        slow = {(vm, f"rail {rail}") for vm, rail in self.planted.rails}
        return SPEED * 0.97 * (0.5 if any((node.vm, name) in slow for node in pair) else 1)

    def accept(self):
        self.runs = 0
        made = accept_farm.accept(self.request)
        return made.certificate, self.runs

    def changed(self, kind, vm, rng):
        """Change a fact of a host, and plant what that made slow there."""
        node = self.nodes[vm]
        if kind == "build":
            self.more[f"host:{node.host}"] = {"ESXi": "8.0.4"}
            return replace(self.planted, vms=(vm,))
        if kind == "GPU":
            at = rng.randrange(len(node.gpus))
            gpus = tuple(replace(g, uuid=f"{g.uuid}x") if g.index == at else g for g in node.gpus)
            self.nodes[vm] = replace(node, gpus=gpus)
            return replace(self.planted, gpus=((vm, at),))
        at = rng.randrange(2)
        rails = tuple(replace(r, switch_port=f"{r.switch_port}x") if r.number == at else r for r in node.rails)
        self.nodes[vm] = replace(node, rails=rails)
        return replace(self.planted, rails=((vm, at),))


@pytest.fixture
def site(tmp_path, monkeypatch):
    made = SimpleNamespace()

    def build(count, seed=0):
        folder = tmp_path / f"{count}-{seed}"
        folder.mkdir()
        made.now = Site(count, folder, seed)
        return made.now

    monkeypatch.setattr(accept_farm, "_acceptance", lambda *given: made.now.acceptance(*given))
    monkeypatch.setattr(accept_fabric, "bench_nccl", lambda *given: made.now.bench_nccl(*given))
    monkeypatch.setattr(accept_fabric, "bench_rdma", lambda *given: made.now.bench_rdma(*given))
    monkeypatch.setattr(rdma, "_pair", lambda *given: made.now.pair(*given))
    return build


def worst_gate(certificate):
    """The verdict of the gates that are carried out here; the others are left out, which the certificate says."""
    assert certificate.left_out == ("assess", "health")
    return worst_verdict(gate.status for gate in certificate.gates)


def failed(certificate):
    return {p for g in certificate.gates for m in g.measurements if m.status == "fail" for p in m.parts}


@pytest.mark.parametrize("count", [32, 64, 256])
def test_after_a_change_of_one_host_few_runs_are_taken_again_and_no_fault_is_missed(site, count):
    """Changes of ESXi, GPUs and uplinks, most of them for the worse; RELIABILITY=full plants 200 of each size."""
    rng = chance("accept", count)
    for at in cases(512 // count + 2, 200):
        here = site(count, at)
        first, runs = here.accept()
        assert worst_gate(first) == "pass", [g.findings for g in first.gates]
        again, none = here.accept()
        assert (again.gates, none) == (first.gates, 0)
        vm, kind = rng.choice(list(here.nodes)), rng.choice(["build", "GPU", "uplink"])
        planted = here.changed(kind, vm, rng)
        is_worse = at % 4 != 3
        here.planted = planted if is_worse else here.planted
        made, taken = here.accept()
        assert 0 < taken <= 0.1 * runs, (kind, taken, runs)
        assert (worst_gate(made) == "fail") is is_worse, (kind, [g.findings for g in made.gates])
        assert (f"vm:{vm}" in failed(made)) is is_worse
        if not is_worse:
            continue
        # it fails until it passes there again, whatever is accepted in between
        assert worst_gate(here.accept()[0]) == "fail"
        here.planted = Planted()
        made, taken = here.accept()
        assert worst_gate(made) == "pass", [g.findings for g in made.gates]
        assert taken <= 0.1 * runs


def test_a_failure_stays_with_the_gpu_when_the_vm_moves(site):
    here = site(32)
    bad, good = here.nodes["vm-004"], here.nodes["vm-009"]
    here.planted = Planted(gpus=(("vm-004", 0),))
    assert worst_gate(here.accept()[0]) == "fail"
    # the two VMs change places: the VM of the failure is fast now, and the GPU of it was not measured as fast
    for vm, there in (("vm-004", good), ("vm-009", bad)):
        here.nodes[vm] = replace(there, vm=vm, address=here.nodes[vm].address)
    here.planted = Planted(gpus=(("vm-009", 0),))
    made, _ = here.accept()
    assert worst_gate(made) == "fail"
    assert {"vm:vm-009", f"gpu:{bad.gpus[0].uuid}"} <= failed(made)
    # it is well again: a pass on the same GPU, under another VM, ends the failure
    here.planted = Planted()
    made, _ = here.accept()
    assert (worst_gate(made), failed(made)) == ("pass", set())


def test_a_failure_on_a_part_that_is_not_used_any_more_warns(site):
    here = site(32)
    here.planted = Planted(vms=("vm-004",))
    assert worst_gate(here.accept()[0]) == "fail"
    new = replace(here.nodes["vm-004"], host="esx099.lab.local", gpus=())
    here.nodes["vm-004"], here.planted = new, Planted()
    made, _ = here.accept()
    warned = [m for g in made.gates for m in g.measurements if m.status == "warn"]
    assert worst_gate(made) == "warn"
    assert warned
    assert all("host:esx004.lab.local" in m.parts for m in warned)


def test_a_vm_that_is_new_is_measured_and_one_that_is_gone_is_not_missed(site):
    here = site(32)
    here.accept()
    here.nodes["vm-new"] = replace(here.nodes["vm-004"], vm="vm-new", host="esx099.lab.local")
    made, taken = here.accept()
    assert worst_gate(made) == "pass"
    assert {f"rail {n} of vm-new" for n in (0, 1)} <= {m.name for m in made.gates[0].measurements}
    assert any("vm:vm-new" in m.parts for m in made.gates[1].measurements)
    assert taken < 16
    del here.nodes["vm-new"], here.nodes["vm-003"]
    made, taken = here.accept()
    assert worst_gate(made) == "pass", [g.findings for g in made.gates]
    assert taken < 16
    assert not any({"vm:vm-new", "vm:vm-003"} & set(m.parts) for g in made.gates for m in g.measurements)


def test_what_is_measured_again_from_the_start_does_not_clear_an_old_failure_by_itself(site):
    here = site(20)
    here.planted = Planted(rails=(("vm-004", 1),))
    assert worst_gate(here.accept()[0]) == "fail"
    here.request = replace(here.request, again=True)
    made, whole = here.accept()
    assert worst_gate(made) == "fail"
    here.planted = Planted()
    made, taken = here.accept()
    assert (worst_gate(made), taken) == ("pass", whole)


def test_another_baseline_takes_away_only_what_is_judged_by_it(site):
    here = site(20)
    here.accept()
    assert here.accept()[1] == 0
    here.request.baseline.write_text("other", "utf-8")
    made, taken = here.accept()
    assert (worst_gate(made), taken) == ("pass", 1)


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize(("share", "status"), [(0.97, "pass"), (0.65, "warn"), (0.4, "fail")])
def test_an_all_reduce_that_became_slower_is_a_warning_also_of_two_vms(site, monkeypatch, count, share, status):
    here = site(count)
    for vm, node in here.nodes.items():
        rails = tuple(replace(rail, speed=SPEED, rdma_device="mlx5_0") for rail in node.rails)
        here.nodes[vm] = replace(node, rails=rails)
    line = accept_fabric.line_rate(here.nodes.values())
    results = [
        BenchmarkResult(
            at=at, set="train", benchmark="nccl", operation="all_reduce", ranks=2 * count, size=1, value=line * v
        )
        for at, v in enumerate((0.97, share))
    ]
    trend = trends(results)[-1]
    measure = here.bench_nccl

    def bench(request, emit):
        found = measure(request, emit)
        return found if request.options.pairwise else replace(found, reference=results[-1].value, trend=trend)

    monkeypatch.setattr(accept_fabric, "bench_nccl", bench)
    made, _ = here.accept()
    (whole,) = [m for g in made.gates for m in g.measurements if m.name == accept_fabric.ALL_REDUCE]
    assert (whole.status, "slower than" in whole.text) == (status, share < 0.97)


def test_a_baseline_that_is_given_later_judges_the_run_of_all_vms_anew(site):
    here = site(20)
    baseline = here.request.baseline
    here.request = replace(here.request, baseline=None)
    made, _ = here.accept()
    assert worst_gate(made) == "warn"
    assert here.accept()[1] == 0
    here.request = replace(here.request, baseline=baseline)
    made, taken = here.accept()
    assert (worst_gate(made), taken) == ("pass", 1)
