"""Requests of commands, counted by the lab: a constant, pages, and calls of those hosts whose devices need them."""

from __future__ import annotations

from collections import Counter

import pytest
from support.places import INVENTORY

from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import session_of
from vsphere_ai.connect import vcenter_lock
from vsphere_ai.language.inventories.inventory import load_inventory

pytestmark = pytest.mark.lab
SESSION = {"RetrieveServiceContent": 1, "Login": 1, "Logout": 1}
LOOK = {**SESSION, "CreateContainerView": 1}
READ = "RetrievePropertiesEx"
OF_HOSTS = {"fetchSoftwarePackages", "QueryOptions", "QueryConfiguredModuleOptionString"}
BASE = """\
name: requests
timing: {{boot_seconds: 0.1, task_seconds: 0.005, shutdown_seconds: 0.02, vmotion_seconds: 0.02}}
clusters: [{{name: gpu-a}}]
switches:
  - {{name: dvs-lan, port_groups: [{{name: dvpg-lan}}]}}
  - {{name: dvs-rdma, mtu: 9000, uplinks: 1, port_groups: [{{name: dvpg-rdma, vlan: 100}}]}}
hosts:
  - name: esx[01:{hosts:02}].lab.local
    cluster: gpu-a
{gpu}    nics:
      - {{name: vmnic0, pci: "0000:18:00.0", switch: dvs-lan}}
{rdma}    ssh: {{running: true, policy: on}}
vms:
  - {{name: "train-[01:{vms:02}]", host: "esx[01:{hosts:02}].lab.local", network: dvpg-lan}}
"""
GPU = """\
    nvidia_driver: 535.261.03
    graphics_default: sharedDirect
    gpus: [{pci: "0000:3b:00.0", board: a100-80gb, graphics_type: sharedDirect}]
"""
RDMA = '      - {name: vmnic4, pci: "0000:5e:00.0", model: ConnectX-6, switch: dvs-rdma, rdma: vmrdma0}\n'
KEY = "- {{vms: 'train-[01:{vms:02}]', tuning: {{extra_config: {{a.key: '1'}}}}}}\n"
VGPU = "- {vms: train-01, vgpu: [grid_a100dx-20c]}\n"


@pytest.fixture
def farm(make_lab, monkeypatch):
    """Start a farm with hosts of a kind; return what carries out a command there and returns its requests."""

    def begun(cli, hosts, *, gpu=False, rdma=False, vms=None):
        text = BASE.format(hosts=hosts, vms=vms or hosts, gpu=GPU if gpu else "", rdma=RDMA if rdma else "")
        lab = make_lab(text)
        monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))

        def counted(*command, codes=(0,)):
            before = Counter(lab.get("/lab/traffic")["calls"])
            assert cli(*command, "-i", INVENTORY) in codes, cli.out + cli.err
            return Counter(lab.get("/lab/traffic")["calls"]) - before

        return counted

    return begun


def of_hosts(calls):
    return {method: number for method, number in calls.items() if method in OF_HOSTS}


def others(calls):
    return {method: number for method, number in calls.items() if method not in OF_HOSTS}


@pytest.mark.parametrize("command", [("show",), ("capacity",), ("check",), ("show", "--kind", "hardware")])
def test_hosts_without_devices_are_read_together(cli, farm, command):
    few, many = (farm(cli, hosts)(*command, codes=(0, 1)) for hosts in (3, 9))
    assert few == many
    assert sum(few.values()) <= 11
    clusters = {"QueryConfigOptionEx"}  # what their virtual hardware can have
    assert {m: n for m, n in few.items() if m not in clusters} == {**LOOK, READ: few[READ]}


@pytest.mark.parametrize(
    ("command", "gpu", "rdma"),
    [
        (
            ("show",),
            {"fetchSoftwarePackages": 1, "QueryOptions": 2},
            {"QueryOptions": 2, "QueryConfiguredModuleOptionString": 2},
        ),
        (
            ("check",),
            {"fetchSoftwarePackages": 1, "QueryOptions": 2},
            {"QueryOptions": 2, "QueryConfiguredModuleOptionString": 2},
        ),
        (("capacity",), {}, {}),
        (("show", "--kind", "hardware"), {}, {}),
        (("show", "--kind", "pvrdma_host"), {"QueryOptions": 1}, {"QueryOptions": 1}),
        (("show", "--kind", "roce"), {}, {"QueryConfiguredModuleOptionString": 2}),
        (("doctor",), {"fetchSoftwarePackages": 1}, {}),
    ],
)
def test_hosts_are_asked_for_what_their_devices_and_the_kinds_need(cli, farm, command, gpu, rdma):
    for hosts in (2, 4):
        for devices, each in (({"gpu": True}, gpu), ({"rdma": True}, rdma)):
            calls = farm(cli, hosts, **devices)(*command, codes=(0, 1))
            assert of_hosts(calls) == {method: number * hosts for method, number in each.items()}
            assert sum(others(calls).values()) <= 11


def test_a_plan_asks_hosts_for_what_its_kinds_need(cli, farm):
    counted = farm(cli, 4, gpu=True, rdma=True)
    keys, vgpu = cli.file(KEY.format(vms=1), "keys.yml"), cli.file(VGPU, "vgpu.yml")
    assert of_hosts(counted("plan", keys, "--no-ssh-login")) == {}
    assert of_hosts(counted("plan", vgpu, "--no-ssh-login", codes=(0, 1))) == {"fetchSoftwarePackages": 4}
    host = cli.file("- {hosts: esx01.lab.local, pvrdma_host: {firewall: true}}\n", "host.yml")
    assert of_hosts(counted("plan", host, "--no-ssh-login"))["QueryOptions"] <= 4


def test_a_run_asks_nothing_twice_but_what_it_compares(cli, farm):
    calls = {}
    for vms in (1, 6):
        counted = farm(cli, 3, gpu=True, rdma=True, vms=8)
        calls[vms] = counted("apply", cli.file(KEY.format(vms=vms)), "--yes")
        once = calls[vms]
        assert once["HasPrivilegeOnEntities"] == 1
        assert once["CheckVmConfig_Task"] == once["ReconfigVM_Task"] == vms
        assert once["Login"] == once["CreatePropertyCollector"] == once["CreateListView"] == once["CreateFilter"] == 1
        assert (once["CreateContainerView"], once["FindChild"]) == (1, 0)
        assert of_hosts(once) == {}
    # of each further VM: a check, a change, a look before it and one after it, the end of its task; looks at checks
    assert sum((calls[6] - calls[1]).values()) <= 5 * 8


def test_a_vgpu_for_one_vm(cli, farm):
    counted = farm(cli, 1, gpu=True)
    calls = counted("apply", cli.file(VGPU), "--yes")
    looks = calls[READ] - 4  # all objects, the VM and its hosts closely, the VM before and after the change
    assert {m: n for m, n in calls.items() if m not in (READ, "WaitForUpdatesEx")} == {
        **LOOK,
        **dict.fromkeys(("fetchSoftwarePackages", "CheckVmConfig_Task", "HasPrivilegeOnEntities"), 1),
        **dict.fromkeys(("ReconfigVM_Task", "CreatePropertyCollector", "CreateListView", "CreateFilter"), 1),
    }
    assert 1 <= looks <= 3
    assert 1 <= calls["WaitForUpdatesEx"] <= 3
    again = counted("apply", cli.file(VGPU), "--yes")
    assert sum(again.values()) <= 10


def test_the_lock_of_another_run_is_seen_in_what_is_read(cli, farm):
    """The folder for locks stays; only where there is a lock in it, a run asks who has it."""
    counted, keys = farm(cli, 2), cli.file(KEY.format(vms=2))
    counted("apply", keys, "--yes", "--lock", "vcenter")
    assert counted("apply", keys, "--yes")["FindChild"] == 0
    with session_of(load_inventory(INVENTORY), None, EstateRequest()) as session:
        vcenter_lock.acquire(
            session.connection.vcenter, vcenter_lock.LockHolder("ann", "build7", 1, "a"), announce=lambda _ref: None
        )
        calls = counted("apply", keys, "--yes", codes=(7,))
    assert "another run works on this vCenter: ann on build7" in cli.err
    assert others(calls) == {**LOOK, "FindChild": 2, "CurrentTime": 1, READ: 3}, "nothing is read closely"


def test_verify_reads_pages(cli, farm):
    few, many = (farm(cli, h, gpu=True, rdma=True)("verify", cli.file(KEY.format(vms=2)), codes=(2,)) for h in (2, 8))
    assert few == many
    assert sum(few.values()) <= 8
