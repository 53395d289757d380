"""`bench crossover` on the lab: what is planted in a VM or its host is named, and everything is put back."""

from __future__ import annotations

import pytest

from vsphere_ai.app import ApplyRequest, EstateRequest, NodesRequest, apply
from vsphere_ai.app.crossover import CrossoverOptions, CrossoverRequest, bench_crossover

COMMON = """
name: crossed
timing: {boot_seconds: 0.2, task_seconds: 0.01, guest_seconds: 0.05, shutdown_seconds: 0.1, vmotion_seconds: 0.05}
clusters: [{name: gpu-a, drs: manual}]
vcenter: {vgpu_vmotion: true}
switches:
  - {name: dvs-rdma, mtu: 9000, uplinks: 1, port_groups: [{name: dvpg-rdma, vlan: 100}]}
  - {name: dvs-lan, port_groups: [{name: dvpg-lan}]}
"""
NICS = """
    nics:
      - {name: vmnic0, pci: 0000:18:00.0, model: X710, switch: dvs-lan}
      - {name: vmnic4, pci: 0000:5e:00.0, model: ConnectX-6, switch: dvs-rdma, rdma: vmrdma0}
    vmkernel: [{name: vmk0, port_group: dvpg-lan}, {name: vmk2, port_group: dvpg-rdma}]
"""
GPU, OWN = "0000:3b:00.0", "trn-02"
VGPUS = f"""{COMMON}
hosts:
  - name: esx[01:05].lab.local
    cluster: gpu-a
    nvidia_driver: 535.161.05
    graphics_default: sharedDirect
    gpus: [{{pci: "{GPU}", board: a100-40gb, device_id: 20f1, graphics_type: sharedDirect}}]{NICS}
vms:
  - name: trn-[01:04]
    host: esx[01:04].lab.local
    network: dvpg-lan
    power: on
    vgpu: [grid_a100-40c]
    pvrdma: [dvpg-rdma]
    memory_reservation_locked: true
    extra_config: {{pciPassthru.use64bitMMIO: "TRUE", pciPassthru.64bitMMIOSizeGB: "128"}}
"""
CASES = {
    "gpu of the host": ({"kind": "gpu-slow", "host": "esx02*", "factor": 0.75}, "host"),
    "gpu driver in the VM": ({"kind": "gpu-slow", "vm": OWN, "factor": 0.75}, "vm"),
    "uplink of the host": ({"kind": "rail-slow", "host": "esx02*", "nic": "vmnic4", "factor": 0.5}, "host"),
    "RDMA settings of the VM": ({"kind": "rail-down", "vm": OWN}, "vm"),
    "nothing": (None, "not-reproduced"),
}


HOSTS = "esx01.lab.local,esx02.lab.local,esx03.lab.local,esx04.lab.local,esx05.lab.local"
WHOLE = f"""{COMMON}
hosts:
  - name: esx[01:05].lab.local
    cluster: gpu-a
    nvidia_driver: 535.161.05
    gpus:
      - {{pci: "{GPU}", board: a100-40gb, device_id: 20f1}}
      - {{pci: "0000:86:00.0", board: a100-40gb, device_id: 20f1}}{NICS}
    ssh: {{running: true, policy: off}}
vms:
  - name: trn-[01:04]
    host: esx[01:04].lab.local
    network: dvpg-lan
    pvrdma: [dvpg-rdma]
    hardware: 19
"""
PASSED = f"""
- hosts: esx[01:04].lab.local
  passthrough: {{"{GPU}": true}}
- hosts: esx05.lab.local
  passthrough: {{"0000:86:00.0": true}}
- vms: trn-[01:03]
  pci_devices: [{{host_device: "{GPU}"}}]
- vms: trn-04
  pci_devices: [{{vendor: 10de, device: 20f1}}]
"""


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
    for case, (defect, verdict) in CASES.items():
        whole.lab.set_defects(*([defect] if defect else []))
        for way in WAYS if verdict in ("vm", "host") else WAYS[:1]:
            result = whole.run(**way)
            assert (case, way, result.verdict) == (case, way, verdict)
            assert whole.places() == whole.before
            assert len(result.before) + len(result.after) <= 4
    assert all(each["ok"] for each in whole.lab.check(since=0)["invariants"])
