"""What only explicit starts make room for, and what depends on the order in which VMs power on."""

from __future__ import annotations

from itertools import product

from support import estates as make
from support.capacity_judges import pci

from vsphere_ai.capacity.solve import solve
from vsphere_ai.capacity.verdict import GpuHosts, NoFit, VmDemand
from vsphere_ai.gpu.catalog import board
from vsphere_ai.gpu.mig.search import Instance
from vsphere_ai.gpu.vgpus.ondemand import claims, mig_state
from vsphere_ai.gpu.vgpus.slot import GpuSlot
from vsphere_ai.planning.moves.power_on_order import order_notes, power_on_orders

A100 = board("a100-40gb")
ONE = frozenset({"esx1"})


def test_every_start_that_could_be_stated():
    profile = A100.profile("2g.10gb")
    assert [start for _, start in claims(A100, mig_state(A100, []), profile)] == [0, 2, 4]
    # an idle instance serves the VM; nothing is made
    assert [start for _, start in claims(A100, mig_state(A100, [Instance("2g.10gb", 2)]), profile)] == [2]
    whole = A100.profile("7g.40gb")
    assert claims(A100, mig_state(A100, [Instance("7g.40gb", 0, in_use=True)]), whole) == ()


def wanted(*sizes):
    return [VmDemand(f"vm{n}", (f"grid_a100-{s}",), ONE) for n, s in enumerate(sizes)]


def test_the_explanation_says_when_a_layout_would_do():
    slot = GpuSlot("esx1", pci(0), A100, "mig")
    answer = solve(GpuHosts((slot,)), wanted("4-20c", "1-10c", "1-5c", "1-5c"))
    assert isinstance(answer, NoFit)
    assert answer.exact
    assert "they would with explicit starts" in answer.explanation
    never = solve(GpuHosts((slot,)), wanted("7-40c", "1-5c"))
    assert isinstance(never, NoFit)
    assert "explicit" not in never.explanation


def noted(*sizes, hosts=(make.ESX1,), running=()):
    info = tuple(make.gpu_info(p, "sharedDirect") for p in make.PCI)
    listed = tuple(f"grid_a100-{s}c" for s in ("1-5", "1-10", "2-10", "3-20", "4-20", "7-40"))
    probes = make.smi(dict.fromkeys(make.PCI, make.ON))
    more = {"config__graphicsInfo": info, "config__sharedPassthruGpuTypes": listed}
    facts = [make.host(h, active="sharedDirect", probes=probes, **more) for h in hosts]
    for number, (host, size) in enumerate(product(hosts, sizes), 1):
        devices = (make.vgpu_device(1000, f"grid_a100-{size}"),)
        power = "poweredOn" if number in running else "poweredOff"
        facts.append(make.guest(make.vm(number), host, config__hardware__device=devices, runtime__powerState=power))
    refs = frozenset(make.vm(n).ref for n in range(1, len(sizes) * len(hosts) + 1))
    return order_notes(power_on_orders(make.view(make.estate(*facts)), refs))


def test_an_order_that_matters_is_told_to_host_and_vms():
    notes = noted("2-10c", "2-10c", "3-20c", "7-40c")
    assert set(notes) == {make.ESX1, *(make.vm(n) for n in range(1, 5))}
    (note,) = set(notes.values())
    assert "do not all power on in every order" in note
    assert "a MIG layout with explicit starts" in note
    assert noted("3-20c", "3-20c") == noted("7-40c", "3-20c") == {}


def test_hosts_that_are_alike_are_told_the_same_and_vms_that_run_nothing():
    sizes = ("2-10c", "2-10c", "3-20c", "7-40c")
    notes = noted(*sizes, hosts=(make.ESX1, make.ESX2))
    assert set(notes) == {make.ESX1, make.ESX2, *(make.vm(n) for n in range(1, 9))}
    assert notes[make.vm(8)].startswith(f"VMs on {make.ESX2.name} do not")
    assert make.vm(4) not in noted(*sizes, running=(4,))
