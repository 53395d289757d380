"""`bench crossover` on the lab: what is planted in a VM or its host is named, and everything is put back."""

from __future__ import annotations

import pytest
from reliability.harness import picture
from support.crossovers import PASSED, VGPUS, WHOLE
from support.seeds import FULL
from support.vm_sets import FARM, INVENTORY, Sets
from support.vm_sets import FULL as WHOLE_SET

from vsphere_ai.app import ApplyRequest, EstateRequest, NodesRequest, apply
from vsphere_ai.app.training.benchmarks import crossover_trials
from vsphere_ai.app.training.benchmarks.crossover import CrossoverOptions, CrossoverRequest, bench_crossover

OWN = "trn-02"
CASES = {
    "gpu of the host": ({"kind": "gpu-slow", "host": "esx02*", "factor": 0.75}, "host"),
    "gpu driver in the VM": ({"kind": "gpu-slow", "vm": OWN, "factor": 0.75}, "vm"),
    "uplink of the host": ({"kind": "rail-slow", "host": "esx02*", "nic": "vmnic4", "factor": 0.5}, "host"),
    "RDMA settings of the VM": ({"kind": "rail-down", "vm": OWN}, "vm"),
    "nothing": (None, "not-reproduced"),
}


class Farm:
    """A lab, and crossovers on it."""

    def __init__(self, lab, soap):
        self.lab, self.soap = lab, soap
        self.before = self.places()

    def places(self):
        """Return of each VM its host, power state, and the parts of the host that its devices name."""
        found = {}
        for name in ("trn-01", "trn-02", "trn-03", "trn-04"):
            vm = self.soap.vm(name)
            devices = [d for d in vm.config.hardware.device if hasattr(d.backing, "systemId")]
            named = [(d.key, getattr(d.backing, "id", ""), getattr(d.backing, "systemId", "")) for d in devices]
            found[name] = (vm.runtime.host.name, vm.runtime.powerState, named)
        return found

    def run(self, *, lock=None, **options):
        estate = EstateRequest(inventory=self.lab.directory / "connection.yml")
        nodes = NodesRequest(("trn-*",), estate=estate)
        given = CrossoverOptions(**{"vm": OWN, "suffix": "_mpi", "timeout": 30, "boot_timeout": 30, **options})
        return bench_crossover(CrossoverRequest(nodes, given, yes=True, lock=lock))


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(crossover_trials, "AGAIN", 0.2)


@pytest.fixture
def vgpus(make_lab, new_client):
    lab = make_lab(VGPUS)
    return Farm(lab, new_client(lab))


@pytest.mark.parametrize("way", [{}, {"swap_with": "trn-03"}], ids=["move", "swap"])
@pytest.mark.parametrize("case", CASES)
def test_with_vgpus(vgpus, case, way):
    defect, verdict = CASES[case]
    vgpus.lab.set_defects(*([defect] if defect else []))
    result = vgpus.run(**way)
    assert result.verdict == verdict
    assert vgpus.places() == vgpus.before
    assert len(result.before) + len(result.after) <= 4


@pytest.fixture
def whole(make_lab, new_client, tmp_path):
    lab = make_lab(WHOLE)
    file = tmp_path / "passed.yml"
    file.write_text(PASSED, encoding="utf-8")
    estate = EstateRequest(inventory=lab.directory / "connection.yml")
    assert apply(ApplyRequest(file, estate, yes=True)).exit_code == 0
    soap = new_client(lab)
    for name in ("trn-01", "trn-02", "trn-03", "trn-04"):
        soap.wait(soap.vm(name).PowerOnVM_Task())
    soap.until(lambda: soap.vm("trn-04").guest.toolsRunningStatus == "guestToolsRunning")
    return Farm(lab, soap)


WAYS = ({}, {"swap_with": "trn-03"}, {"swap_with": "trn-04"})


def test_with_whole_devices(whole):
    for number, (case, (defect, verdict)) in enumerate(CASES.items()):
        whole.lab.set_defects(*([defect] if defect else []))
        for way in WAYS if FULL else WAYS[number % len(WAYS) :][:1]:
            result = whole.run(**way)
            assert (case, way, result.verdict) == (case, way, verdict)
            assert whole.places() == whole.before
            assert len(result.before) + len(result.after) <= 4
    bad = {each["name"] for each in whole.lab.check(since=0)["invariants"] if not each["ok"]}
    assert bad <= {"sessions"}  # the test has one of its own


def test_a_vm_of_a_set_on_the_command_line(cli, make_lab, monkeypatch):
    """A playbook names the VMs; on the screen stand the moves, the figures and the verdict; the set is as before."""
    lab = make_lab(FARM.replace("esx[01:02]", "esx[01:05]"))
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    sets = Sets(cli, lab, cli.file(INVENTORY, "inventory.yml"))
    made = WHOLE_SET.replace("esx[01:02]", "esx[01:05]").replace("grid_a100-10c", "grid_a100-40c, grid_a100-40c")
    playbook = cli.file(made, "train.yml")
    assert sets("apply", playbook, "--yes") == 0, cli.err
    before = picture(lab)
    host = sets.vms()["train-02"]["host"]
    lab.set_defects({"kind": "gpu-slow", "host": host, "factor": 0.75})
    asked = ("bench", "crossover", playbook, "--vm", "train-02", "--suffix", "_mpi")
    assert cli(*asked, "-i", sets.inventory, "--dry-run") == 0, cli.err
    assert f"power off, to be moved from {host} to " in cli.out
    assert "1 VM power-cycled: train-02" in cli.out
    assert picture(lab) == before
    assert cli(*asked, "-i", sets.inventory, "--yes") == 2, cli.err
    assert f"the slowdown stays with {host}: train-02 is fast on " in cli.out, cli.out + cli.err
    assert cli(*asked, "-i", sets.inventory, "--yes", "-o", "json") == 2, cli.err
    *_, verdict, summary = cli.lines
    assert (verdict["type"], verdict["answer"], verdict["host"]) == ("verdict", "host", host)
    (found,) = verdict["findings"]
    assert (found["rule"], found["verdict"], found["target"]["name"]) == ("bench.crossover", "fail", host)
    assert (summary["type"], summary["exit_code"]) == ("summary", 2)
    assert picture(lab) == before
    assert sets("plan", playbook, "--detailed-exitcode") == 0, cli.out
    assert cli("run", "list") == 0
    assert "bench crossover of train-02: host" in cli.out
    assert cli(*asked, "-i", sets.inventory, "--to-host", "esx09", "--yes") == 64
    assert "esx09" in cli.err
