"""Places of a plan: where the playbook asks for it, and which VMs are on the hosts that it changes."""

from __future__ import annotations

import json
from dataclasses import replace

from support.estates import ESX1, ESX2, estate, guest, host, made, vgpu_device, vm, wants

from vsphere_ai.errors import Mark
from vsphere_ai.planning.document import PlanDocument
from vsphere_ai.planning.scheduling.expected_time import estimate, step_times
from vsphere_ai.planning.scheduling.placed import RequestedAt
from vsphere_ai.resources.host_graphics import HostGraphics
from vsphere_ai.resources.vm_hardware import VmHardware

PROFILE = "grid_a100-20c"
FARM = estate(
    host(ESX1),
    host(ESX2),
    guest(vm(1), ESX1, config__hardware__device=(vgpu_device(13000, PROFILE),)),
    guest(vm(2), ESX1),
    guest(vm(3), ESX2),
)


def asking(state, line, column=5):
    return replace(wants(state), marks={state.kind: Mark("farm.yml", line, column)})


def test_places_of_a_kind_are_those_of_all_its_targets():
    state = VmHardware(version=19)
    plan = made(FARM, {vm(1): asking(state, 9), vm(2): asking(state, 9), vm(3): asking(state, 20, 7)})
    assert plan.asked == (
        RequestedAt("hardware", "farm.yml", 9, 5, (vm(1).ref, vm(2).ref)),
        RequestedAt("hardware", "farm.yml", 20, 7, (vm(3).ref,)),
    )


def test_all_vms_are_placed_on_the_hosts_that_change_with_their_vgpus():
    plan = made(FARM, {ESX1: wants(HostGraphics(default_type="shared_direct"))})
    (found,) = plan.placed
    assert found.host == ESX1
    assert [(each.vm, each.vgpus, each.planned) for each in found.vms] == [
        (vm(1), (PROFILE,), (PROFILE,)),
        (vm(2), (), ()),
    ]


def test_a_host_is_placed_whose_vm_changes_and_no_other():
    assert [each.host for each in made(FARM, {vm(3): wants(VmHardware(version=21))}).placed] == [ESX2]
    assert made(FARM, {vm(3): wants(VmHardware(version=19))}).placed == ()


def test_the_document_keeps_places_and_expected_times_and_reads_those_without():
    plan = made(FARM, {vm(1): asking(VmHardware(version=21), 9)})
    expected = estimate(plan.steps, step_times(plan.steps, {}, 0, 8))
    written = PlanDocument.of(plan, expected)
    read = PlanDocument.model_validate(json.loads(json.dumps(written.as_json())))
    assert (read.asked, read.placed, read.expected) == (plan.asked, plan.placed, expected)
    assert set(read.expected.steps) == {p.id for p in plan.steps}
    assert read.approved().expected == expected
    old = {k: v for k, v in written.as_json().items() if k not in ("asked", "placed", "expected")}
    assert PlanDocument.model_validate(old).approved().expected is None
