"""Layers: what is planted in simulated guests is named by runs that leave data only some ways."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from vsphere_ai.benchmarks.nccl.nccl_checks import nccl_checks
from vsphere_ai.benchmarks.nccl.nccl_command import NcclTest, command
from vsphere_ai.benchmarks.nccl.nccl_text import parse_text
from vsphere_ai.benchmarks.slow_part.layers import (
    LAYERS,
    NIC,
    NO_NVLINK,
    NVLINK,
    SOCKET,
    measure_layers,
    separate,
    slow_ways,
)
from vsphere_ai.benchmarks.slow_part.search import search
from vsphere_ai.benchmarks.slow_part.trials import Judge, Trial, can_share, together
from vsphere_ai.benchmarks.slow_part.verdict import accused
from vsphere_ai.errors import UsageError
from vsphere_ai.lab.guest import nccl
from vsphere_ai.lab.guest.defects import Defects, read
from vsphere_ai.lab.guest.machine import GuestGpu, LabGuestNic
from vsphere_ai.model.nodes import Node, NodeGpu, Rail

TEST = NcclTest(least="256M", most="1G", suffix="_mpi")


class Rack:
    """Guests of the lab, without SSH: `mpirun` is answered as there."""

    def __init__(self, gpus, rails, *planted, count=6, vgpu=False, monkeypatch=None):
        self.defects = Defects()
        self.defects.set(read(list(planted)))
        self.rounds = 0
        self.machines = {f"10.0.0.{at}": self.machine(at, gpus, rails, vgpu) for at in range(count)}
        self.nodes = {
            f"vm-{at}": Node(
                f"vm-{at}", f"10.0.0.{at}", "ens192", host=f"esx{at}",
                gpus=tuple(NodeGpu(g, host_pci=f"0000:{g:02x}:00.0") for g in range(gpus)),
                rails=tuple(
                    Rail(f"ens{r}", "", r, f"mlx5_{r}", vmnic=f"vmnic{r}", switch_port=f"leaf{r} Eth{at}")
                    for r in range(rails)
                ),
            )
            for at in range(count)
        }  # fmt: skip

    def machine(self, at, gpus, rails, vgpu):
        name, host, defects = f"vm-{at}", f"esx{at}", self.defects
        each = [
            GuestGpu(
                g, f"0000:{g:02x}:00.0", "A100", f"GPU-{g}", 40960, SimpleNamespace(pci=f"0000:{g:02x}:00.0"), vgpu
            )
            for g in range(gpus)
        ]
        nics = [
            LabGuestNic(f"ens{r}", "", (), 9000, f"mlx5_{r}", SimpleNamespace(name=f"vmnic{r}")) for r in range(rails)
        ]
        return SimpleNamespace(
            name=name, host=SimpleNamespace(name=host), gpus=each, nics=nics, defects=defects,
            at=lambda gpu: {"vm": name, "host": host, "gpu": gpu.physical.pci},
            on=lambda nic: {"vm": name, "host": host, "nic": nic.pnic.name},
        )  # fmt: skip

    def carry_out(self, running):
        try:
            trials = next(running)
            while True:
                assert can_share(trials)
                self.rounds += 1
                trials = running.send({t: self.peak(t) for t in trials})
        except StopIteration as done:
            return done.value

    def peak(self, trial):
        argv = command(TEST, trial, self.nodes, {})
        head = self.machines[self.nodes[trial.vms[0]].address]
        done = nccl.mpirun(head, argv[1:], self.machines.get)
        (run,) = parse_text(done.stdout.splitlines())
        return run.peak

    def verdict(self):
        nodes, judge = list(self.nodes.values()), Judge()
        outcome = self.carry_out(search(nodes, judge))
        bad = {each.vm for each in outcome.vms}
        good = [vm for vm in self.nodes if vm not in bad]
        found = self.carry_out(together([separate(each, self.nodes[each.vm], good, judge) for each in outcome.vms]))
        return found, accused(SimpleNamespace(vms=found, links=(), rails=(), all_slow=False), nodes)


@pytest.fixture(autouse=True)
def speeds(monkeypatch):
    """Rails of 200 Gb/s, as the lab has them, without its hosts."""
    monkeypatch.setattr(nccl, "is_down", lambda *_: False)
    monkeypatch.setattr(
        nccl, "speed_gb", lambda machine, nic: 200 * machine.defects.factor("rail-slow", **machine.on(nic))
    )


@pytest.mark.parametrize(
    ("planted", "layer", "kind", "names"),
    [
        ({"kind": "nvlink-slow", "vm": "vm-3", "factor": 0.05}, "nvlink", "nvlink", "NVLinks of vm-3 on esx3"),
        ({"kind": "gpu-pcie", "vm": "vm-3", "factor": 0.5}, "host", "vm", "PCIe and memory"),
        ({"kind": "gpu-slow", "vm": "vm-3", "gpu": "0000:02:00.0", "factor": 0.6}, "gpu", "gpu", "0000:02:00.0"),
        ({"kind": "rail-slow", "vm": "vm-3", "nic": "vmnic1", "factor": 0.5}, "rail", "uplink", "vmnic1, leaf1 Eth3"),
        ({"kind": "rail-slow", "vm": "vm-3", "factor": 0.5}, "nic", "nic", "rails of vm-3"),
    ],
)  # fmt: skip
def test_of_a_vm_with_nvlink_and_rails_the_layer_is_named(planted, layer, kind, names):
    (found,), (named,) = Rack(4, 2, planted).verdict()
    assert (found.vm, found.layer, named.kind, named.host) == ("vm-3", layer, kind, "esx3")
    assert names in named.message


@pytest.mark.parametrize(
    ("planted", "layer", "kind", "names"),
    [
        ({"kind": "rail-slow", "vm": "vm-3", "factor": 0.5}, "nic", "uplink", "vmnic0, leaf0 Eth3 (NIC only 1"),
        ({"kind": "gpu-pcie", "vm": "vm-3", "factor": 0.5}, "host", "vm", "0000:00:00.0"),
        ({"kind": "gpu-slow", "vm": "vm-3", "factor": 0.6}, "host", "vm", "or its GPU 0000:00:00.0"),
    ],
)  # fmt: skip
def test_of_a_vm_with_one_gpu_and_one_rail_both_are_told_apart(planted, layer, kind, names):
    (found,), (named,) = Rack(1, 1, planted, vgpu=True).verdict()
    assert (found.layer, named.kind) == (layer, kind)
    assert names in named.message
    assert "its inside" not in named.message


def test_no_layer_is_asked_about_where_nothing_is_slow_or_too_few_vms_are_healthy():
    rack = Rack(4, 2)
    assert rack.verdict() == ([], ())
    slow = Rack(1, 1, {"kind": "gpu-slow", "vm": "vm-1", "factor": 0.6}, count=3)
    (found,), _ = slow.verdict()
    assert (found.layer, found.ways) == ("vm", ())


def test_the_way_is_closed_by_the_variables_of_nccl():
    rack = Rack(4, 2)

    def variables(way):
        argv = command(TEST, Trial(("vm-0", "vm-1"), layer=way), rack.nodes, {"NCCL_DEBUG": "WARN"})
        return dict(argv[n + 1].split("=", 1) for n, word in enumerate(argv) if word == "-x" and "=" in argv[n + 1])

    assert variables("") == {"NCCL_DEBUG": "WARN"}
    assert variables(NIC) == {"NCCL_DEBUG": "WARN", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}
    assert variables(NVLINK) == {"NCCL_DEBUG": "WARN", "NCCL_P2P_LEVEL": "NVL", "NCCL_NET": "Socket"}
    assert variables(NO_NVLINK) == {"NCCL_DEBUG": "WARN", "NCCL_P2P_DISABLE": "1"}
    assert variables(SOCKET).items() >= {"NCCL_IB_DISABLE": "1", "NCCL_NET": "Socket"}.items()
    assert set(LAYERS) == {NVLINK, NO_NVLINK, NIC, SOCKET}


@pytest.mark.parametrize("count", [2, 4, 5])
@pytest.mark.parametrize(
    ("planted", "slow"),
    [
        ([], set()),
        ([{"kind": "nvlink-slow", "vm": "vm-1", "factor": 0.05}], {"", NVLINK}),
        ([{"kind": "rail-slow", "vm": "vm-1", "factor": 0.5}], {"", NIC}),
        ([{"kind": "gpu-pcie", "vm": "vm-1", "factor": 0.5}], {"", NO_NVLINK, NIC, SOCKET}),
    ],
)
def test_every_way_is_measured_on_every_vm(count, planted, slow):
    rack = Rack(4, 2, *planted, count=count)
    found = rack.carry_out(measure_layers(list(rack.nodes), list(rack.nodes), Judge()))
    for way in ("", *LAYERS):
        assert {vm for trial in found if trial.layer == way for vm in trial.vms} == set(rack.nodes)
    bad = slow_ways(found, Judge())
    # a single pair has nothing to be compared with
    assert {t.layer for t in bad} == {way for way in slow if count > 2 or way == NVLINK}
    assert all("vm-1" in trial.vms for trial in bad)


@pytest.mark.parametrize("name", nccl.FACTORS)
def test_every_collective_of_the_lab_agrees_with_its_ranks(name):
    rack = Rack(3, 2, count=4)
    argv = command(replace(TEST, operation=name), Trial(tuple(rack.nodes)), rack.nodes, {"NCCL_DEBUG": "INFO"})
    (run,) = parse_text(nccl.mpirun(rack.machines["10.0.0.0"], argv[1:], rack.machines.get).stdout.splitlines())
    assert {c.rule for c in nccl_checks(run, 12)} == {"nccl.rdma", "nccl.no-gpudirect"}


def test_two_vms_without_a_reference_are_compared_with_nothing():
    rack = Rack(1, 1, count=2)
    nodes = list(rack.nodes.values())
    assert rack.carry_out(search(nodes, Judge())).unresolved == ("vm-0", "vm-1")
    assert rack.carry_out(search(nodes, Judge(reference=23.0))).is_clean
    assert rack.carry_out(search(nodes, Judge(reference=46.0))).unresolved == ("vm-0", "vm-1")


def test_sizes_go_from_small_to_large():
    with pytest.raises(UsageError, match="above the largest"):
        NcclTest(least="1G", most="8")
    assert NcclTest(least="1024K", most="1M").most == "1M"


def test_arguments_of_nccl_tests_are_handed_on_and_checked():
    usual = NcclTest(least="8", most="1G")
    assert " ".join(usual.arguments) == "-b 8 -e 1G -f 2 -g 1 -n 20 -w 5"
    other = NcclTest(least="8", most="1G", warmup=0, type="bfloat16", reduction="max", root=3, check=False, graph=2)
    assert " ".join(other.arguments) == "-b 8 -e 1G -f 2 -g 1 -n 20 -w 0 -d bfloat16 -o max -r 3 -G 2 -c 0"
    for wrong in ({"type": "float7"}, {"reduction": "median"}):
        with pytest.raises(UsageError, match="nccl-tests has no"):
            NcclTest(**wrong)
