"""Restarts by HA over the API: which VMs, in which order, on which hosts, and what vCenter says of the others."""

from __future__ import annotations

import re

import pytest
from pyVmomi import vim
from support.failover_farm import FARM, at, events, fail, with_devices

pytestmark = pytest.mark.lab
RESTARTED, REFUSED, FAILED = (
    "VmRestartedOnAlternateHostEvent",
    "NotEnoughResourcesToStartVmEvent",
    "DasHostFailedEvent",
)


@pytest.fixture
def lab(make_lab):
    return make_lab(FARM)


@pytest.fixture
def soap(lab, new_client):
    return new_client(lab)


@pytest.fixture
def lenient(make_lab, new_client):
    """A lab whose HA keeps so little that vCenter powers VMs on, and a client."""
    lab = make_lab(FARM.replace("_percent: 99", "_percent: 1"))
    return lab, new_client(lab)


def prioritize(soap, **levels):
    settings = [
        vim.cluster.DasVmConfigSpec(
            operation="add",
            info=vim.cluster.DasVmConfigInfo(
                key=soap.vm(name), dasSettings=vim.cluster.DasVmSettings(restartPriority=level)
            ),
        )
        for name, level in levels.items()
    ]
    spec = vim.cluster.ConfigSpecEx(dasVmConfigSpec=settings)
    soap.wait(soap.host("esx1").parent.ReconfigureComputeResource_Task(spec, True))


def test_vms_are_restarted_where_a_host_admits_them_in_the_order_of_their_priority(lab, soap):
    prioritize(soap, plain="lowest", low="high", never="disabled")
    with pytest.raises(vim.fault.InsufficientFailoverResourcesFault):
        soap.wait(soap.vm("off").PowerOnVM_Task())
    fail(lab, soap, "esx1")
    # apart-1 finds both other hosts taken; esx2 has a place for one vGPU; the rule that keeps together counts nothing
    soap.until(lambda: len(events(soap, RESTARTED)) == 3 and len(events(soap, REFUSED)) == 2)
    assert at(soap, "plain", "low", "never", "off", "vgpu", "vgpu-2", "apart-1") == {
        "plain": "esx3", "low": "esx3", "never": "", "off": "", "vgpu": "esx2", "vgpu-2": "", "apart-1": "",
    }  # fmt: skip
    assert [event.vm.name for event in events(soap, RESTARTED)] == ["low", "vgpu", "plain"]
    assert {event.sourceHost.name for event in events(soap, RESTARTED)} == {"esx1.lab.local"}
    left = {event.vm.name: event.reason for event in events(soap, REFUSED)}
    assert "affinity" in left["apart-1"]
    assert set(left) == {"vgpu-2", "apart-1"}
    (failed,) = events(soap, FAILED)
    assert failed.failedHost.name == "esx1.lab.local"


def test_a_vm_that_found_no_host_is_restarted_once_its_own_one_is_back(lab, soap):
    fail(lab, soap, "esx1", returns=True)
    soap.until(lambda: at(soap, "vgpu-2", "apart-1") == {"vgpu-2": "esx1", "apart-1": "esx1"})
    assert at(soap, "plain", "vgpu") == {"plain": "esx3", "vgpu": "esx2"}
    assert {e.vm.name for e in events(soap, "VmPoweredOnEvent")} >= {"vgpu-2", "apart-1"}
    graphics = soap.host("esx1").config.graphicsInfo
    assert [vm.name for info in graphics for vm in info.vm or ()] == ["vgpu-2"]


@pytest.mark.parametrize("option", ["false", None])
def test_whether_vms_are_kept_apart_is_an_option(make_lab, new_client, option):
    told = ' options: {das.respectVmVmAntiAffinityRules: "true"}'
    lab = make_lab(FARM.replace(told, told.replace('"true"', '"false"') if option else " options: {}"))
    soap = new_client(lab)
    fail(lab, soap, "esx1")
    soap.until(lambda: {e.vm.name for e in events(soap, REFUSED)} >= {"vgpu-2"} and at(soap, "plain")["plain"])
    assert bool(at(soap, "apart-1")["apart-1"]) is (option == "false")


def test_a_device_of_the_failed_host_keeps_its_vm_off_until_it_is_back(lenient):
    lab, soap = lenient
    with_devices(soap, held=False)
    fail(lab, soap, "esx1", returns=True)
    soap.until(lambda: "fixed" in {e.vm.name for e in events(soap, REFUSED)})
    soap.until(lambda: at(soap, "fixed") == {"fixed": "esx1"})


def test_a_device_by_its_model_is_one_that_a_host_has_free(lenient):
    lab, soap = lenient
    soap.wait(soap.vm("low").PowerOffVM_Task())
    with_devices(soap, held=True)
    soap.wait(soap.vm("low").PowerOnVM_Task())
    fail(lab, soap, "esx1")
    soap.until(lambda: "low" in {e.vm.name for e in events(soap, REFUSED)})
    assert at(soap, "low") == {"low": ""}


def test_nothing_is_restarted_without_ha(make_lab, new_client):
    lab = make_lab(re.sub(r"ha: {.*\n.*}}", "ha: false", FARM))
    soap = new_client(lab)
    fail(lab, soap, "esx1", returns=True)
    soap.until(lambda: soap.vm("plain").runtime.powerState == "poweredOff")
    assert not events(soap, RESTARTED)
    assert not events(soap, FAILED)
