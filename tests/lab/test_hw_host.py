"""What a boot does to a host, and what only looks as if it had happened before."""

import threading
import time

import pytest
from support.gates import LONG

from vsphere_ai.lab.hardware import parts, vgpu
from vsphere_ai.lab.hardware.gpu import Activation, LabGpu, Nvml, NvmlError
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.hardware.pci import pci_devices
from vsphere_ai.lab.ledger import Ledger
from vsphere_ai.lab.shell.run import run_line


def make(board="a100-40gb", *, driver="470.256.02", count=2, **fields):
    gpus = [LabGpu.of(n, f"0000:{0x3B + n:02x}:00.0", board) for n in range(count)]
    vibs = [parts.driver_vib(driver)] if driver else []
    return LabHost("esx01.lab.local", Ledger(), gpus=gpus, vibs=vibs, boot_seconds=0.05, shutdown_seconds=0.0, **fields)


def wait_for(condition, seconds=LONG):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.005)


def test_configured_graphics_type_becomes_active_at_boot_only():
    host = make()
    assert [g.active for g in host.gpus] == ["shared", "shared"]
    assert host.configure_graphics(default="sharedDirect", policy="performance", devices={})
    assert [(g.configured, g.active) for g in host.gpus] == [("sharedDirect", "shared")] * 2
    assert host.reboot_required
    assert vgpu.supported_types(host) == []
    host.power_cycle()
    assert [g.active for g in host.gpus] == ["sharedDirect"] * 2
    assert not host.reboot_required
    assert "grid_a100x-40c" in vgpu.supported_types(host)
    assert not host.configure_graphics(default="sharedDirect", policy="performance", devices={})


def test_a_device_left_out_of_the_configuration_takes_the_default():
    host = make()
    host.configure_graphics(default="shared", policy="performance", devices={"0000:3b:00.0": "sharedDirect"})
    assert [g.configured for g in host.gpus] == ["sharedDirect", "shared"]
    host.configure_graphics(default="shared", policy="performance", devices={"0000:3c:00.0": "sharedDirect"})
    assert [g.configured for g in host.gpus] == ["shared", "sharedDirect"]


def test_starting_the_host_engine_activates_only_gpus_without_vms():
    host = make()
    host.configure_graphics(default="sharedDirect", policy="performance", devices={})
    host.power_cycle()
    vgpu.power_on(host, "vm", ["grid_a100x-40c"])
    host.configure_graphics(default="shared", policy="performance", devices={})
    assert run_line(host, "nv-hostengine -d").status == 1
    assert run_line(host, "nv-hostengine -t && nv-hostengine -d").status == 0
    assert [g.active for g in host.gpus] == ["sharedDirect", "shared"]
    assert [e.call for e in host.ledger.entries()] == ["nv-hostengine -d"]


def test_mig_mode_of_ampere_waits_for_the_boot_and_survives_the_next():
    host = make()
    gpu = host.gpus[0]
    assert gpu.set_mig(True) is Activation.NEEDS_RESET
    assert (gpu.mig_current, gpu.mig_pending) == (False, True)
    host.power_cycle()
    assert (gpu.mig_current, gpu.mig_pending) == (True, True)
    gpu.create(gpu.profile("9"))
    host.power_cycle()
    assert gpu.mig_current
    assert gpu.instances == []


def test_mig_mode_of_hopper_is_immediate_and_lost_at_boot():
    host = make("h100-80gb-pcie", driver="550.163.01")
    gpu = host.gpus[0]
    assert gpu.set_mig(True) is Activation.DONE
    assert gpu.mig_current
    host.power_cycle()
    assert (gpu.mig_current, gpu.mig_pending) == (False, False)


@pytest.mark.parametrize("board", ["a100-40gb", "h100-80gb-pcie"])
def test_a_busy_gpu_keeps_the_change_pending(board):
    gpu = make(board, driver="550.163.01").gpus[0]
    gpu.clients.add("dcgm")
    assert gpu.set_mig(True) is Activation.IN_USE
    assert (gpu.mig_current, gpu.mig_pending) == (False, True)
    assert gpu.set_mig(False) is Activation.DONE
    assert (gpu.mig_current, gpu.mig_pending) == (False, False)


def test_a_board_without_mig_refuses_it():
    host = make("t4-16gb", count=1)
    with pytest.raises(NvmlError) as refused:
        host.gpus[0].set_mig(True)
    assert refused.value.code is Nvml.NOT_SUPPORTED
    assert "Not Supported\nTreating as warning" in run_line(host, "nvidia-smi -mig 1").stdout
    assert len(host.ledger) == 0


def test_reboot_takes_the_host_down_and_brings_services_back_by_policy():
    host = make()
    host.boot_seconds = 0.2
    host.set_service("TSM-SSH", running=True)
    host.set_service("lbtd", running=False)
    seen, before = [], host.boot_time
    host.on_change(lambda h, what: seen.append((what, h.up)))
    assert host.reboot()
    assert not host.reboot(), "a second request while rebooting has no effect"
    wait_for(lambda: not host.up)
    assert not host.ssh_reachable
    wait_for(lambda: host.up)
    assert host.boot_time > before
    assert host.boot_time.tzinfo is not None
    assert not host.services["TSM-SSH"].running
    assert host.services["lbtd"].running
    wait_for(lambda: seen == [("down", False), ("up", True)])


def test_a_host_that_never_returns_stays_down():
    host = make(never_returns=True)
    host.reboot()
    wait_for(lambda: not host.up)
    time.sleep(0.15)
    assert not host.up


def test_a_driver_is_loaded_at_boot_not_at_installation():
    host = make(driver="")
    assert run_line(host, "nvidia-smi").status == 127
    assert [g.active for g in host.gpus] == ["basic", "basic"]
    host.vibs.append(parts.driver_vib("550.163.01"))
    assert host.reboot_required
    failed = run_line(host, "nvidia-smi")
    assert failed.status == 9
    assert failed.stdout.startswith("NVIDIA-SMI has failed because it couldn't communicate")
    host.power_cycle()
    assert host.driver == "550.163.01"
    assert run_line(host, "nvidia-smi -L").stdout.count("GPU-") == 2


def test_passthrough_hides_the_gpu_from_the_driver():
    host = make()
    host.gpus[0].passthrough = True
    host.power_cycle()
    assert host.gpus[0].active == "direct"
    assert run_line(host, "nvidia-smi --query-gpu=index --format=csv,noheader").stdout == "1\n"


def test_listeners_are_called_after_the_lock_is_free():
    host = make()
    free = []

    def take(lock):
        free.append(lock.acquire(timeout=2))
        lock.release()

    def listener(h, what):
        probe = threading.Thread(target=take, args=(h.lock,))
        probe.start()
        probe.join()

    host.on_change(listener)
    with host.changing():
        host.set_service("TSM-SSH", running=True)
        host.set_firewall("pvrdma", True)
        assert free == []
    assert free == [True, True]


def test_setting_what_is_set_changes_nothing():
    host = make()
    assert host.set_option("Net.PVRDMAVmknic", "vmk2")
    assert not host.set_option("Net.PVRDMAVmknic", "vmk2")
    assert not host.set_firewall("sshServer", True)
    assert host.set_service_policy("TSM-SSH", "on")
    assert not host.set_service_policy("TSM-SSH", "on")
    assert host.set_maintenance(True)
    assert not host.set_maintenance(True)
    for change in (
        lambda: host.set_service("nope", running=True),
        lambda: host.set_firewall("nope", True),
        lambda: host.set_option("No.Such", 1),
    ):
        with pytest.raises(KeyError):
            change()


def test_virtual_functions_appear_with_shared_direct():
    host = make(count=1)
    assert len(pci_devices(host)) == 2
    host.gpus[0].configured = "sharedDirect"
    host.power_cycle()
    virtual = [d for d in pci_devices(host) if d.parent]
    assert len(virtual) == 16
    assert (virtual[-1].address, virtual[-1].vmkernel_name) == ("0000:3b:02.3", "PF_0.59.0_VF_15")
    assert {d.parent for d in virtual} == {"0000:3b:00.0"}


def test_ledger_numbers_from_one_and_restarts_when_cleared():
    ledger = Ledger()
    threads = [threading.Thread(target=lambda n=n: ledger.record(f"h{n}", "Call", {"n": n})) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [e.number for e in ledger.entries()] == list(range(1, 21))
    assert {e["detail"]["n"] for e in ledger.as_json()} == set(range(20))
    ledger.clear()
    assert ledger.record("x", "y", channel="ssh").number == 1
    assert ledger.as_json()[0]["channel"] == "ssh"
