"""MIG through both doors: the mode over SSH, vGPUs and their GPU instances through the API."""

import shlex

import paramiko
import pytest
from pyVmomi import vim

DEV = vim.vm.device
PCI = DEV.VirtualPCIPassthrough


@pytest.fixture
def shell(lab):
    """Run a command on a host of the lab: `shell("esx01", "nvidia-smi", "-L")`."""
    password = (lab.directory / "ssh_password").read_text(encoding="utf-8").strip()

    def run(host, *argv):
        address = next(h["ssh"]["address"] for h in lab.get("/lab/farm")["hosts"] if h["name"] == f"{host}.lab.local")
        client = paramiko.SSHClient()
        client.load_host_keys(str(lab.directory / "known_hosts"))
        port = int(address.rpartition(":")[2])
        client.connect("127.0.0.1", port, "root", password, look_for_keys=False, allow_agent=False)
        try:
            _, out, _ = client.exec_command(shlex.join(argv))
            text = out.read().decode()
            return out.channel.recv_exit_status(), text
        finally:
            client.close()

    return run


def make_ready(soap, shell):
    host = soap.host("esx02")
    manager = host.configManager.graphicsManager
    config = manager.graphicsConfig
    config.hostDefaultGraphicsType = "sharedDirect"
    for device in config.deviceType:
        device.graphicsType = "sharedDirect"
    manager.UpdateGraphicsConfig(config)
    for index in ("0", "1"):
        assert shell("esx02", "nvidia-smi", "-i", index, "-mig", "1")[0] == 0
    soap.wait(soap.vm("train-03").PowerOffVM_Task())
    before = host.runtime.bootTime
    soap.wait(host.EnterMaintenanceMode_Task(5))
    assert shell("esx02", "esxcli", "system", "shutdown", "reboot", "-d", "10", "-r", "MIG")[0] == 0
    soap.until(lambda: host.runtime.bootTime > before and host.runtime.connectionState == "connected")
    soap.wait(host.ExitMaintenanceMode_Task(5))
    return host


def give(soap, name, *profiles):
    vm = soap.vm(name)
    devices = [
        DEV.VirtualDeviceSpec(operation="add", device=PCI(key=-1 - n, backing=PCI.VmiopBackingInfo(vgpu=p)))
        for n, p in enumerate(profiles)
    ]
    soap.wait(vm.ReconfigVM_Task(vim.vm.ConfigSpec(memoryReservationLockedToMax=True, deviceChange=devices)))
    return vm


def test_vsphere_makes_and_removes_the_gpu_instance_of_a_vm(soap, shell, lab):
    host = make_ready(soap, shell)
    types = host.config.sharedPassthruGpuTypes
    assert "grid_a100-3-20c" in types
    assert "grid_a100-20c" not in types
    vm = give(soap, "train-04", "grid_a100-3-20c")
    soap.wait(vm.PowerOnVM_Task())
    gpus = next(h for h in lab.get("/lab/farm")["hosts"] if h["name"] == host.name)["gpus"]
    made = [(g["pci"], i["profile"], i["vm"]) for g in gpus for i in g["instances"]]
    assert [(p, v) for _, p, v in made] == [("3g.20gb", "train-04")]
    used = next(i for i in host.config.graphicsInfo if i.vm)
    assert (used.pciId, used.vm) == (made[0][0], [vm])
    soap.wait(vm.PowerOffVM_Task())
    gpus = next(h for h in lab.get("/lab/farm")["hosts"] if h["name"] == host.name)["gpus"]
    assert not any(g["instances"] for g in gpus)
    calls = [c for _, c in soap.calls()]
    assert calls.count("EnterMaintenanceMode_Task") == calls.count("ExitMaintenanceMode_Task") == 1
    assert "RebootHost_Task" not in calls


def test_a_time_sliced_type_does_not_power_on_in_mig_mode(soap, shell):
    make_ready(soap, shell)
    vm = give(soap, "train-04", "grid_a100-20c")
    with pytest.raises(vim.fault.GenericVmConfigFault) as caught:
        soap.wait(vm.PowerOnVM_Task())
    assert "No graphics device is available for vGPU 'grid_a100-20c'." in [m.message for m in caught.value.faultMessage]


def test_a_gpu_in_use_keeps_its_graphics_type_and_mig_mode(soap, shell):
    host = make_ready(soap, shell)
    vm = give(soap, "train-04", "grid_a100-3-20c")
    soap.wait(vm.PowerOnVM_Task())
    manager = host.configManager.graphicsManager
    config = manager.graphicsConfig
    for device in config.deviceType:
        device.graphicsType = "shared"
    with pytest.raises(vim.fault.HostConfigFault, match="in use"):
        manager.UpdateGraphicsConfig(config)
    host.configManager.serviceSystem.StartService("TSM-SSH")  # off since the boot
    _, text = shell("esx02", "nvidia-smi", "--query-gpu=mig.mode.current,mig.mode.pending", "--format=csv,noheader")
    assert text.split("\n")[:2] == ["Enabled, Enabled"] * 2


def test_the_shells_reboot_refuses_outside_maintenance_mode(soap, shell):
    before = soap.host("esx01").runtime.bootTime
    status, _ = shell("esx01", "esxcli", "system", "shutdown", "reboot", "-d", "10", "-r", "x")
    assert status != 0
    assert soap.host("esx01").runtime.bootTime == before
