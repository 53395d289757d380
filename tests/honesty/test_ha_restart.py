"""A restart by vSphere HA on random farms: what the product answers for a host is what the lab then does."""

from __future__ import annotations

import pytest
from honesty import cases
from honesty.labs import Labs
from pyVmomi import vim
from support import failover_farm

from vsphere_ai.admission.admit import admit
from vsphere_ai.admission.machines import Machines
from vsphere_ai.admission.situation import Situation
from vsphere_ai.connect.tls import Endpoint
from vsphere_ai.connect.vcenter import VCenter
from vsphere_ai.lab.admission import Occasion, admits, case_of
from vsphere_ai.lab.build import build
from vsphere_ai.lab.managed.running_vms import powered_on
from vsphere_ai.lab.managed.vm_tasks import failover
from vsphere_ai.lab.scenario_file import load
from vsphere_ai.model.view import View
from vsphere_ai.planning.observing import observe
from vsphere_ai.reading.collector import CollectorRequest, Depth, collect
from vsphere_ai.reading.requirements import wanted_paths
from vsphere_ai.resources import kinds

pytestmark = pytest.mark.lab
RESPECTED = "das.respectVmVmAntiAffinityRules"
FARMS = 24


@pytest.fixture(scope="module")
def labs():
    started = Labs()
    yield started
    started.close()


def drawn(number):
    """Return a farm on which little is left, with HA on; whether HA keeps VMs apart is set, or it is not."""
    case = cases.case(7, cases.PRESSED + number)
    cluster = next(iter(case.clusters.values()))
    option = {RESPECTED: ("true", "false")[number % 3]} if number % 3 < 2 else {}
    cluster["ha"] = {**cluster.get("ha", {"admission_control": "off"}), "enabled": True, "options": option}
    return case


def read(lab):
    """Return the estate of a lab as the product reads it."""
    endpoint = Endpoint(
        "127.0.0.1",
        lab.port,
        "administrator@vsphere.local",
        (lab.directory / "password").read_text().strip(),
        lab.directory / "ca.pem",
    )

    def everything(seen):
        hosts = frozenset(h.ref for h in seen.hosts)
        return Depth(hosts, frozenset(v.ref for v in seen.vms))

    with VCenter.connect(endpoint) as vcenter:
        return collect(vcenter, None, CollectorRequest(wanted_paths(), everything))


@pytest.mark.parametrize("held", [False, True])
def test_devices_of_hosts(make_lab, new_client, held):
    """A device by its address is that of its host; one by its model is what another host has free, or has not."""
    lab = make_lab(failover_farm.FARM.replace("_percent: 99", "_percent: 1"))
    soap = new_client(lab)
    names = ("plain", "low", "vgpu", "vgpu-2", "apart-1", "fixed")
    if held:
        soap.wait(soap.vm("low").PowerOffVM_Task())
    failover_farm.with_devices(soap, held=held)
    soap.wait(soap.vm("low" if held else "off").PowerOnVM_Task())
    estate = read(lab)
    view = View(estate, observe(estate, kinds()))
    situation, hosts = Situation.as_read(view, Machines(view)).copy(), {h.name: h for h in estate.hosts}
    refs = {v.name: v.ref for v in estate.vms if estate.is_on(v.ref)}
    ran = [name for name in names if situation.home(refs.get(name, "")) == hosts["esx1.lab.local"].ref]
    assert {"plain", "vgpu", "low" if held else "fixed"} <= {*ran}
    failover_farm.fail(lab, soap, "esx1")
    for name in ran:
        situation.leave(refs[name])
    kinds_of = (vim.event.VmRestartedOnAlternateHostEvent, vim.event.NotEnoughResourcesToStartVmEvent)

    def outcome():
        found = soap.content.eventManager.QueryEvents(vim.event.EventFilterSpec())
        return [event for event in found if isinstance(event, kinds_of)]

    soap.until(lambda: {*ran} <= {event.vm.name for event in outcome()})
    for event in outcome():
        if event.vm.name not in ran:
            continue
        machine = situation.machines.present(refs[event.vm.name])
        answers = {h: admit(machine, estate[hosts[h].ref], situation, "ha_restart") for h in hosts if "esx1" not in h}
        if isinstance(event, kinds_of[0]):
            assert answers[event.host.name].answer == "yes", answers
            situation.arrive(machine, hosts[event.host.name].ref)
        else:
            assert {a.answer for a in answers.values()} == {"no"}, (event.vm.name, answers)


class Farm:
    """One farm twice: as the product reads it, and in the lab."""

    def __init__(self, labs, folder, number):
        folder.mkdir()
        drawn(number).write(folder)
        lab = labs.start(folder / "lab", folder / "scenario.yml")
        try:
            self.estate = read(lab)
        finally:
            from vsphere_ai.lab.front import process

            process.stop(folder / "lab", timeout=2.0)
        self.view = View(self.estate, observe(self.estate, kinds()))
        self.situation = Situation.as_read(self.view, Machines(self.view)).copy()
        self.farm = build(load(folder / "scenario.yml"), "test")
        self.cluster = next(iter(self.farm.store.of(vim.ClusterComputeResource)))
        self.hosts = {h["name"]: h for h in self.farm.store.of(vim.HostSystem)}
        self.refs = {self.estate[v.ref].name: v.ref for v in self.estate.vms}
        self.host_refs = {h.name: h.ref for h in self.estate.hosts}

    def fail(self, name):
        """Let a host go dark for good; return its VMs in the order in which HA restarts them."""
        machine = self.farm.host(self.hosts[name])
        machine.never_returns = True
        with self.farm.store.lock:
            ran = powered_on(self.farm, self.hosts[name])
            machine.lose_power()
            self.farm.settle()
        for vm in ran:
            self.situation.leave(self.refs[vm["name"]])
        return list(self.cluster.extra.get(failover.WAITING, ()))

    def answer(self, vm, host):
        """Return what the product says of the restart of a VM on a host."""
        machine = self.situation.machines.present(self.refs[vm["name"]])
        return admit(machine, self.estate[self.host_refs[host]], self.situation, "ha_restart")

    def lab_admits(self, vm, host):
        """Return whether the lab restarts a VM there."""
        return admits(case_of(self.farm, vm, self.hosts[host], Occasion.HA_RESTART))


def test_each_host_answers_as_the_lab_does_and_every_vm_is_where_it_may_be(labs, tmp_path):
    said = {"yes": 0, "no": 0, "unknown": 0}
    for number in range(FARMS):
        farm = Farm(labs, tmp_path / str(number), number)
        lost = max(farm.hosts, key=lambda name: len(powered_on(farm.farm, farm.hosts[name])))
        waiting = farm.fail(lost)
        others = sorted({*farm.hosts} - {lost})
        with farm.farm.store.lock:
            for vm in waiting:
                for host in others:
                    answer = farm.answer(vm, host)
                    said[answer.answer] += 1
                    expected = {"yes": True, "no": False}.get(answer.answer)
                    does = farm.lab_admits(vm, host)
                    assert expected in (None, does), (number, vm["name"], host, does, answer.words)
            failover.restart(farm.farm, farm.cluster)
        check_restarted(farm, number, waiting, lost, others)
        farm.farm.close()
    assert all(said.values()), said


def check_restarted(farm, number, waiting, lost, others):
    """Go through the VMs as HA did: none was restarted where the product says no, none left where it says yes."""
    for vm in waiting:
        at = farm.farm.host_of(vm)["name"]
        answers = {host: farm.answer(vm, host).answer for host in others}
        if at == lost:
            assert "yes" not in answers.values(), (number, vm["name"], answers)
        else:
            assert vm["runtime"].powerState == "poweredOn"
            assert answers[at] != "no", (number, vm["name"], at, farm.answer(vm, at).words)
            machine = farm.situation.machines.present(farm.refs[vm["name"]])
            farm.situation.arrive(machine, farm.host_refs[at])
