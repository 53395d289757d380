"""What is asked about the number of adapters, how often, and what is kept of the answer."""

from __future__ import annotations

import pytest
from support.estates import CLUSTER, ESX1, ESX2, estate, guest, host, view, vm, wants

from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.reading import requirements
from vsphere_ai.resources._helpers import adapter_limits
from vsphere_ai.resources.adapters import Adapters
from vsphere_ai.resources.pvrdma import Pvrdma
from vsphere_ai.resources.vgpu import Vgpu
from vsphere_ai.resources.vm_hardware import VmHardware

RANGE = {"_typeName": "IntOption", "min": 0, "max": 4, "defaultValue": 0}
CONTROLLER = {
    "_typeName": "VirtualPCIControllerOption",
    "numEthernetCards": {**RANGE, "max": 10},
    "numVmxnet3VrdmaEthernetCards": {**RANGE, "max": 1},
    "numSCSIControllers": RANGE,
}


def asked(wanted, seen):
    plans = {target: wants(*states) for target, states in wanted.items()}
    return [(q.on, q.args["spec"]["key"]) for q in requirements.questions(plans, seen)]


def farm(count, **more):
    return estate(host(ESX1), host(ESX2), *(guest(vm(n), ESX1, **more) for n in range(1, count + 1)))


def test_the_number_of_questions_does_not_grow_with_the_vms():
    for count in (1, 40):
        wanted = {vm(n): (Pvrdma(adapters=()), Adapters(adapters=())) for n in range(1, count + 1)}
        assert asked(wanted, farm(count, config__version="vmx-17")) == [(CLUSTER, "vmx-17")]


def test_only_versions_in_question_are_asked_for():
    seen = farm(3, config__version="vmx-08")
    wanted = {
        vm(1): (Pvrdma(adapters=()), VmHardware(version=19)),
        vm(2): (Pvrdma(adapters=()), VmHardware(firmware="efi")),
        vm(3): (Vgpu(profiles=()), VmHardware(version=20)),
    }
    assert asked(wanted, seen) == [(CLUSTER, "vmx-08"), (CLUSTER, "vmx-19")]
    assert asked({vm(1): (Vgpu(profiles=()),)}, seen) == []


def test_a_vm_whose_version_or_host_is_not_known_is_not_asked_about():
    wanted = {vm(1): (Pvrdma(adapters=()),)}
    assert asked(wanted, estate(host(ESX1), guest(vm(1), ESX1, config__version=None))) == []
    assert asked(wanted, estate(host(ESX2), guest(vm(1), ESX1))) == []
    assert asked(wanted, estate(host(ESX1))) == []


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        (None, {}),
        ({}, {}),
        ({"hardwareOptions": {}}, {}),
        ({"hardwareOptions": {"virtualDeviceOption": ({"_typeName": "VirtualCdromOption"},)}}, {}),
        (
            {"hardwareOptions": {"virtualDeviceOption": ({"_typeName": "VirtualCdromOption"}, CONTROLLER)}},
            {"numEthernetCards": 10, "numVmxnet3VrdmaEthernetCards": 1},
        ),
        (
            {"hardwareOptions": {"virtualDeviceOption": ({**CONTROLLER, "numVmxnet3VrdmaEthernetCards": None},)}},
            {"numEthernetCards": 10},
        ),
    ],
)
def test_of_a_huge_answer_two_numbers_are_kept(answer, kept):
    assert adapter_limits.offered(answer) == kept


@pytest.mark.parametrize(
    ("answer", "cards", "pvrdma"),
    [
        (None, 10, 10),
        ({}, 10, 10),
        ({"numEthernetCards": 8}, 8, 8),
        ({"numEthernetCards": 10, "numVmxnet3VrdmaEthernetCards": 0}, 10, 0),
    ],
)
def test_where_there_is_no_answer_the_general_maximum_counts(answer, cards, pvrdma):
    seen = farm(1, config__version="vmx-19")
    told = {"name": "gpu-a"} | ({} if answer is None else {"query:config-option:vmx-19": answer})
    seen = Estate(seen.about, {**seen.objects, CLUSTER: Facts(CLUSTER, told)})
    found = adapter_limits.limits(vm(1), view(seen))
    assert (found.cards, found.pvrdma) == (cards, pvrdma)
