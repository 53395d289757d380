"""VMs with vGPUs on a host that enters maintenance mode: moved by DRS where the product does, waited for elsewhere."""

from __future__ import annotations

import pytest
from pyVmomi import vim, vmodl

pytestmark = pytest.mark.lab

EIGHT = "version: 8.0.2, build: 22385739, api: 8.0.2.0"
U3F = "version: 7.0.3, build: 20051473, api: 7.0.3.0"
OPT_IN = 'drs_options: {VgpuMMAutomationTimeoutSecs: "-1"}'


def farm(vcenter=EIGHT, cluster="", host="", switch="true", drs="fullyAutomated"):
    return f"""
name: leaves
vcenter: {{{vcenter}, vgpu_vmotion: {switch}}}
timing: {{boot_seconds: 0.3, task_seconds: 0.005, shutdown_seconds: 0.1, vmotion_seconds: 0.05}}
clusters: [{{name: a, drs: {drs}, {cluster}}}]
hosts:
  - name: esx[01:02].lab.local
    cluster: a
    nvidia_driver: 525.147.05
    version: 8.0.2
    build: 22380479
    gpus: [{{pci: "0000:3b:00.0", board: a100-40gb, device_id: 20f1, graphics_type: sharedDirect}}]
    {host}
vms:
  - {{name: gpu, host: esx01.lab.local, power: on, memory_reservation_locked: true, vgpu: [grid_a100-20c]}}
"""


def leaves(soap):
    """Put the first host into maintenance mode; tell where its VM is then, None when the host got nowhere."""
    esx = soap.host("esx01")
    try:
        soap.wait(esx.EnterMaintenanceMode_Task(1))
    except vim.fault.Timedout:
        assert not esx.runtime.inMaintenanceMode
        assert soap.vm("gpu").runtime.host == esx
        return None
    assert soap.vm("gpu").runtime.powerState == "poweredOn"
    return soap.vm("gpu").runtime.host.name


@pytest.mark.parametrize(
    ("scenario", "moves"),
    [
        (farm(), True),
        (farm(switch="false"), False),
        (farm(drs="manual"), False),
        (farm(host="vgpu_migration: false"), False),
        (farm(vcenter=U3F), False),
        (farm(vcenter=U3F, cluster=OPT_IN), True),
        (farm(vcenter=U3F.replace("20051473", "20051472"), cluster=OPT_IN), False),
        (farm(vcenter="version: 8.0.1, build: 21560480, api: 8.0.1.0"), False),
        (farm(vcenter="version: 8.0.1, build: 21560480, api: 8.0.1.0", cluster=OPT_IN), True),
    ],
)
def test_drs_moves_a_vgpu_where_the_product_does(make_lab, new_client, scenario, moves):
    soap = new_client(make_lab(scenario))
    assert leaves(soap) == ("esx02.lab.local" if moves else None)
    assert [e["call"] for e in soap.lab.get("/lab/ledger")["entries"] if e["object"] == "gpu"] == (
        ["DrsMigration"] if moves else []
    )
    shown = [i.vm for i in soap.host("esx02").config.graphicsInfo]
    assert shown == [[soap.vm("gpu")] if moves else []]


def test_without_a_free_slot_the_host_waits(make_lab, new_client):
    more = "".join(f"  - {{name: other-{n}, host: esx02.lab.local, power: on, memory_reservation_locked: true, "
                   "vgpu: [grid_a100-20c]}\n" for n in (1, 2))  # fmt: skip
    assert leaves(new_client(make_lab(farm() + more))) is None


def test_a_vm_that_finds_no_place_does_not_keep_the_others(make_lab, new_client):
    more = "".join(f"  - {{name: other-{n}, host: esx02.lab.local, power: on, memory_reservation_locked: true, "
                   "vgpu: [grid_a100-20c]}\n" for n in (1, 2))  # fmt: skip
    soap = new_client(make_lab(farm() + more + "  - {name: plain, host: esx01.lab.local, power: on}\n"))
    assert leaves(soap) is None
    assert soap.vm("plain").runtime.host == soap.host("esx02")


def test_what_the_server_tells_of_a_vgpu(make_lab, new_client):
    lab = make_lab(farm())
    soap = new_client(lab, version="vim.version.v8_0_2_0")
    (device,) = (d for d in soap.vm("gpu").config.hardware.device if hasattr(d.backing, "vgpu"))
    told = device.backing.migrateSupported, device.backing.vgpuMigrateDataSizeMB
    assert told == (True, 20 * 1024)
    esx = soap.host("esx01")
    assert {c.migrateSupported for c in esx.config.sharedGpuCapabilities} == {True}
    manager = esx.configManager.graphicsManager
    infos = {i.profileName: i for i in manager.RetrieveVgpuProfileInfo()}
    mine = infos["grid_a100-20c"]
    assert (mine.fbSizeInGib, mine.profileSharing, mine.profileClass) == (20, "timeSliced", "compute")
    assert [(e.migrationBW, e.stunTime) for e in mine.stunTimeEstimates] == [(10_000, 25), (25_000, 10)]
    assert infos["grid_a100-3-20c"].profileSharing == "mig"


def test_what_an_older_api_does_not_know(make_lab, new_client):
    soap = new_client(make_lab(farm(vcenter="version: 7.0.2, build: 17958471, api: 7.0.2.0")))
    with pytest.raises(vmodl.fault.MethodNotFound):
        soap.host("esx01").configManager.graphicsManager.RetrieveVgpuProfileInfo()
    (device,) = (d for d in soap.vm("gpu").config.hardware.device if hasattr(d.backing, "vgpu"))
    assert (device.backing.migrateSupported, device.backing.vgpuMigrateDataSizeMB) == (True, None)
