"""Growth of what it takes to start a lab, in counted operations: no test here looks at a clock."""

from __future__ import annotations

import pytest
from support.growing import Calls

from vsphere_ai.lab.admission import Occasion
from vsphere_ai.lab.build import build
from vsphere_ai.lab.managed.vm_tasks import power
from vsphere_ai.lab.managed.vms import virtual_machine
from vsphere_ai.lab.scenario_file import load

SCENARIO = """
name: many
clusters: [{{name: gpu-a}}]
hosts: [{{name: "esx[001:{hosts:03}]", cluster: gpu-a}}]
vms: [{{name: "vm-[001:{vms:03}]", host: esx001, power: on, network: VM Network}}]
"""


def one_more(tmp_path, hosts, vms, occasion=Occasion.START):
    """How many functions are called to add a VM to a farm, and to power it on."""
    file = tmp_path / f"{hosts}-{vms}.yml"
    file.write_text(SCENARIO.format(hosts=hosts, vms=vms), "utf-8")
    scenario = load(file)
    farm = build(scenario, "")
    with farm.store.lock, Calls() as calls:
        host = farm.named["host:esx001"]
        vm = virtual_machine.add_vm(farm, farm.named["vmFolder"], host, "new", scenario.vms[0])
        power.power_on_now(farm, vm, host, "PowerOnVM_Task", occasion)
    farm.close()
    return calls.count


@pytest.mark.parametrize(("hosts", "vms"), [(1, 400), (200, 5)], ids=["VMs of its host", "hosts"])
def test_one_more_vm_takes_as_many_operations_in_a_large_farm(tmp_path, hosts, vms):
    one_more(tmp_path, 1, 1)  # finds out what is the same for all, such as the types
    assert one_more(tmp_path, hosts, vms) <= 1.02 * one_more(tmp_path, 1, 5)


def test_a_power_on_looks_at_no_other_host(tmp_path):
    one_more(tmp_path, 1, 1, Occasion.POWER_ON)
    assert one_more(tmp_path, 200, 5, Occasion.POWER_ON) <= 1.02 * one_more(tmp_path, 1, 5, Occasion.POWER_ON)
