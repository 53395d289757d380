"""The ESXi Shell: esxcli, vim-cmd, small commands and the forms of nvidia-smi no transcript covers."""

import threading
import time

import pytest
from support.gates import LONG

from vsphere_ai.lab.hardware import parts, vgpu
from vsphere_ai.lab.hardware.gpu import LabGpu
from vsphere_ai.lab.hardware.host import HostRefused, LabHost
from vsphere_ai.lab.ledger import Ledger
from vsphere_ai.lab.shell.run import run_line

FIRST, SECOND = "0000:3b:00.0", "0000:86:00.0"


@pytest.fixture
def host():
    gpus = [LabGpu.of(n, pci, "a100-40gb", device_id=0x20F1) for n, pci in enumerate((FIRST, SECOND))]
    rdma = parts.Pnic(
        "vmnic4", "0000:5e:00.0", "0c:42:a1:00:00:01", "nmlx5_core", vendor_id=0x15B3, device_id=0x101B,
        description="Mellanox Technologies MT28908 Family [ConnectX-6]", speed_mb=100_000, mtu=9000,
        rdma=parts.LabRdmaDevice("vmrdma0", vmknic="vmk2"),
    )  # fmt: skip
    return LabHost(
        "esx01.lab.local",
        Ledger(),
        gpus=gpus,
        pnics=[parts.Pnic("vmnic0", "0000:18:00.0", "0c:42:a1:00:00:00", link_up=False), rdma],
        vibs=[*parts.default_vibs("7.0.2", "17867351"), parts.driver_vib("470.256.02")],
        boot_seconds=0.0,
        shutdown_seconds=0.0,
    )


def out(host, line, status=0):
    result = run_line(host, line)
    assert (result.status, result.stderr) == (status, ""), result
    return result.stdout


def calls(host):
    return [e.call for e in host.ledger.entries()]


def shared_direct(host, *, mig=False):
    for gpu in host.gpus:
        gpu.configured = "sharedDirect"
        gpu.mig_pending = mig
    host.power_cycle()
    return host


def test_version(host):
    assert out(host, "vmware -vl") == "VMware ESXi 7.0.2 build-17867351\nVMware ESXi 7.0 Update 2\n"
    assert "   Version: 7.0.2\n   Build: Releasebuild-17867351\n   Update: 2\n" in out(
        host, "esxcli system version get"
    )
    host.version = "7.0.0"
    assert out(host, "vmware -l") == "VMware ESXi 7.0 GA\n"
    host.version = "6.7.0"
    assert out(host, "vmware -l") == "VMware ESXi 6.7.0 GA\n"


def test_small_commands(host):
    assert out(host, "uname -n") == "esx01\n"
    assert out(host, "uname -a").startswith("VMkernel esx01 7.0.2 #1 SMP Release build-17867351 ")
    assert out(host, "hostname") == "esx01.lab.local\n"
    assert out(host, "echo 'a  b' c") == "a  b c\n"
    assert out(host, "vmkload_mod -l | grep nvidia") == "nvidia                   51    35792\n"
    assert out(host, "esxcfg-info | grep 'HV Support'").rstrip().endswith(".3")
    assert out(host, "/bin/true") == ""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("false && echo no; echo yes", ("yes\n", 0)),
        ("false || echo yes", ("yes\n", 0)),
        ("true || echo no", ("", 0)),
        ("echo one; false", ("one\n", 1)),
        ("echo abc | grep -c b", ("1\n", 0)),
        ("echo abc | grep x", ("", 1)),
        ("echo ABC | grep -i b", ("ABC\n", 0)),
        ("echo abc | grep -v b", ("", 1)),
        ("", ("", 0)),
    ],
)
def test_shell_connectors(host, line, expected):
    result = run_line(host, line)
    assert (result.stdout, result.status) == expected


def test_unknown_commands(host):
    result = run_line(host, "docker ps")
    assert (result.status, result.stderr) == (127, "sh: docker: not found\n")
    assert run_line(host, "echo a | sed s/a/b/").status == 127
    assert run_line(host, "echo 'open").status == 2
    assert run_line(host, "echo a 2>/dev/null").stderr == "sh: syntax error: the lab's shell has no '>'\n"
    assert run_line(host, "reboot &").status == 2
    assert host.up
    assert out(host, "echo '' 'a > b'") == " a > b\n"
    assert out(host, "esxcli graphics vgpu list", 1) == "Error: Unknown command or namespace graphics vgpu\n"
    assert out(host, "esxcli nope", 1) == "Error: Unknown command or namespace nope\n"
    assert "Available: device, host" in out(host, "esxcli graphics", 1)
    assert run_line(host, "vim-cmd vmsvc/nope").status == 255


def test_graphics_tables_in_every_state(host):
    assert out(host, "esxcli graphics device list").startswith(
        "0000:3b:00.0\n   Vendor Name: NVIDIA Corporation\n   Device Name: NVIDIAA100-PCIE-40GB\n"
        "   Module Name: nvidia\n   Graphics Type: Shared\n   Memory Size in KB: 41943040\n   Number of VMs: 0\n"
    )
    host.configure_graphics(default="sharedDirect", policy="consolidation", devices={})
    assert "Shared Passthru\n" not in out(host, "esxcli graphics device list")
    expected = "   Default Graphics Type: SharedPassthru\n   Shared Passthru Assignment Policy: Consolidation\n"
    assert out(host, "esxcli graphics host get") == expected
    host.power_cycle()
    vgpu.power_on(host, "train-01", ["grid_a100-20c"])
    listing = out(host, "esxcli graphics device list")
    assert listing.count("Graphics Type: Shared Passthru\n") == 2
    assert listing.count("Number of VMs: 1\n") == 1
    host.vibs.clear()
    host.power_cycle()
    bare = out(host, "esxcli graphics device list")
    assert "Device Name: GA100 [A100 PCIe 40GB]\n   Module Name: None\n   Graphics Type: Basic\n" in bare


def test_graphics_host_set_leaves_the_devices_alone(host):
    line = "esxcli graphics host set --default-type SharedPassthru --shared-passthru-assignment-policy=Consolidation"
    assert out(host, line) == ""
    assert out(host, line) == ""
    assert (host.graphics_default, host.assignment_policy) == ("sharedDirect", "consolidation")
    assert [g.configured for g in host.gpus] == ["shared", "shared"]
    assert calls(host) == ["esxcli graphics host set"]
    assert "Invalid value" in out(host, "esxcli graphics host set --default-type Fast", 1)


def test_network_tables(host):
    nics = out(host, "esxcli network nic list").splitlines()
    assert nics[0].split() == [
        "Name",
        "PCI",
        "Device",
        "Driver",
        "Admin",
        "Status",
        "Link",
        "Status",
        "Speed",
        "Duplex",
        "MAC",
        "Address",
        "MTU",
        "Description",
    ]
    assert set(nics[1]) == {"-", " "}
    assert nics[2].split()[:7] == ["vmnic0", "0000:18:00.0", "igbn", "Up", "Down", "0", "Half"]
    assert nics[3].endswith("0c:42:a1:00:00:01  9000  Mellanox Technologies MT28908 Family [ConnectX-6]")
    assert out(host, "esxcli rdma device list").splitlines()[2] == (
        "vmrdma0  nmlx5_rdma  Active  4096  100 Gbps  vmnic4         MT28908 Family [ConnectX-6]"
    )
    assert out(host, "esxcli rdma device vmknic list").splitlines()[2].split() == [
        "vmrdma0",
        "vmk2",
        "defaultTcpipStack",
    ]
    assert out(host, "esxcli rdma device protocol list").splitlines()[2].split() == ["vmrdma0", "true", "true", "false"]


def test_firewall(host):
    assert out(host, "esxcli network firewall ruleset list -r pvrdma").splitlines()[2].split() == ["pvrdma", "false"]
    for _ in range(2):
        assert out(host, "esxcli network firewall ruleset set --ruleset-id=pvrdma --enabled true") == ""
    assert out(host, "esxcli network firewall ruleset list -r pvrdma").splitlines()[2].split() == ["pvrdma", "true"]
    assert len(out(host, "esxcli network firewall ruleset list").splitlines()) == 4
    assert "Invalid ruleset id" in out(host, "esxcli network firewall ruleset list -r nope", 1)
    assert "Invalid boolean" in out(host, "esxcli network firewall ruleset set -r pvrdma -e maybe", 1)
    assert "Missing required parameter --enabled" in out(host, "esxcli network firewall ruleset set -r pvrdma", 1)
    assert calls(host) == ["esxcli network firewall ruleset set"]


def test_advanced_settings(host):
    assert "   String Value: \n" in out(host, "esxcli system settings advanced list -o /Net/PVRDMAVmknic")
    for _ in range(2):
        assert out(host, "esxcli system settings advanced set -o /Net/PVRDMAVmknic -s vmk2") == ""
    assert "   String Value: vmk2\n" in out(host, "esxcli system settings advanced list -o /Net/PVRDMAVmknic")
    assert "Unable to find" in out(host, "esxcli system settings advanced list -o /Net/Nope", 1)
    assert "--string-value" in out(host, "esxcli system settings advanced set -o /Net/PVRDMAVmknic -i 1", 1)
    assert "Invalid option" in out(host, "esxcli system settings advanced list -z 1", 1)
    assert "Missing value" in out(host, "esxcli system settings advanced list -o", 1)
    assert calls(host) == ["esxcli system settings advanced set"]


def test_kernel_settings_take_effect_at_boot(host):
    line = "esxcli system settings kernel list -o atsSupport"
    assert out(host, line).splitlines()[2].split()[:5] == ["atsSupport", "Bool", "FALSE", "FALSE", "FALSE"]
    assert out(host, "esxcli system settings kernel set -s atsSupport -v TRUE") == ""
    assert out(host, line).splitlines()[2].split()[:5] == ["atsSupport", "Bool", "TRUE", "FALSE", "FALSE"]
    assert host.reboot_required
    host.power_cycle()
    assert out(host, line).splitlines()[2].split()[:5] == ["atsSupport", "Bool", "TRUE", "TRUE", "FALSE"]


def test_settings_refuse_what_they_do_not_know(host):
    host.advanced_options["Misc.Limit"] = 5
    assert "   Int Value: 5\n" in out(host, "esxcli system settings advanced list -o /Misc/Limit")
    assert out(host, "esxcli system settings advanced list").count("   Path: ") == 2
    assert "Invalid number" in out(host, "esxcli system settings advanced set -o /Misc/Limit -i few", 1)
    assert out(host, "esxcli system settings advanced set -o /Misc/Limit -i 7") == ""
    assert host.advanced_options["Misc.Limit"] == 7
    assert "Unable to find" in out(host, "esxcli system settings advanced set -o /Misc/Nope -i 7", 1)
    assert "Invalid Key" in out(host, "esxcli system settings kernel list -o nope", 1)
    assert "Invalid Key" in out(host, "esxcli system settings kernel set -s nope -v TRUE", 1)
    assert "Invalid ruleset" in out(host, "esxcli network firewall ruleset set -r nope -e true", 1)
    assert out(host, "esxcli system hostname get").splitlines()[2] == "   Host Name: esx01"


def test_packages_and_modules(host):
    listed = out(host, "esxcli software vib list")
    assert listed.splitlines()[0].split() == ["Name", "Version", "Vendor", "Acceptance", "Level", "Install", "Date"]
    (row,) = [line for line in listed.splitlines() if "NVIDIA" in line]
    assert row.split()[:3] == ["NVIDIA-AIE_ESXi_7.0.2_Driver", "470.256.02-1OEM.702.0.0.17630552", "NVIDIA"]
    host.kernel_modules["nmlx5_core"].options = "pfctx=0x08"
    assert "pfctx        uint           0x08" in out(host, "esxcli system module parameters list -m nmlx5_core")
    assert "Unable to find module" in out(host, "esxcli system module parameters list -m nope", 1)


def test_pci_list_and_its_filter(host):
    shared_direct(host)
    everything = out(host, "esxcli hardware pci list")
    assert everything.count("   Address: ") == 1 + 2 + 2 + 32
    assert "   VMkernel Name: PF_0.59.0_VF_15\n" in everything
    gpus = out(host, "esxcli hardware pci list -c 0x0302 -m 0xffff")
    assert gpus.count("   Address: ") == 34
    assert gpus.count("   Configured Owner: VMkernel\n") == 2
    display = out(host, "esxcli hardware pci list -c 0x0300 -m 0xff00")
    assert display.count("Address") == 35
    assert "Invalid number" in out(host, "esxcli hardware pci list -c zz", 1)


def test_maintenance_mode(host):
    assert out(host, "esxcli system maintenanceMode get") == "Disabled\n"
    assert out(host, "esxcli system maintenanceMode set --enable true") == ""
    assert out(host, "esxcli system maintenanceMode get") == "Enabled\n"
    assert "already enabled" in out(host, "esxcli system maintenanceMode set -e true", 1)
    assert "exitMaintenanceMode" in out(host, "vim-cmd hostsvc/maintenance_mode_exit")
    assert run_line(host, "vim-cmd hostsvc/maintenance_mode_exit").status == 255
    assert "inMaintenanceMode = false" in out(host, "vim-cmd hostsvc/hostsummary")
    assert calls(host) == ["enterMaintenanceMode", "exitMaintenanceMode"]


def test_maintenance_mode_waits_for_running_vms(host):
    running = ["train-01"]
    host.running_vms = lambda: running
    begin = time.monotonic()
    assert "timed out" in out(host, "esxcli system maintenanceMode set -e true -t 1", 1)
    assert time.monotonic() - begin >= 1
    threading.Timer(0.1, running.clear).start()
    assert out(host, "esxcli system maintenanceMode set -e true -t 10") == ""
    assert host.in_maintenance


def test_maintenance_mode_can_be_refused_by_the_farm(host):
    def refuse(enabled, timeout):
        raise HostRefused("not now")

    host.maintenance = refuse
    assert out(host, "esxcli system maintenanceMode set -e true", 1) == "not now\n"
    assert calls(host) == []


def test_esxcli_reboots_only_in_maintenance_mode(host):
    line = "esxcli system shutdown reboot --delay=10 --reason=graphics"
    assert "not in maintenance mode" in out(host, line, 1)
    assert "Missing required parameter --reason" in out(host, "esxcli system shutdown reboot -d 10", 1)
    host.set_maintenance(True)
    assert "at least 10" in out(host, "esxcli system shutdown reboot -d 5 -r x", 1)
    before = host.boot_time
    assert out(host, line) == ""
    end = time.monotonic() + LONG
    while host.boot_time == before:
        assert time.monotonic() < end
        time.sleep(0.005)
    assert host.in_maintenance
    assert calls(host) == ["esxcli system shutdown reboot"]


@pytest.mark.parametrize(
    "name", ["0", "0000:3b:00.0", "00000000:3B:00.0", "0000:3B:00.0", "GPU-ac754595-49cb-5983-890c-e6ee43f01508"]
)
def test_gpus_by_every_spelling(host, name):
    assert out(host, f"nvidia-smi -i {name} --query-gpu=index --format=csv,noheader") == "0\n"


def test_query_units_header_and_boards_without_mig(host):
    line = "nvidia-smi --query-gpu=memory.total,index,count,mig.mode.current --format="
    assert out(host, f"{line}csv").splitlines()[:2] == [
        "memory.total [MiB], index, count, mig.mode.current",
        "40960 MiB, 0, 2, Disabled",
    ]
    assert out(host, f"{line}csv,noheader,nounits").splitlines()[1] == "40960, 1, 2, Disabled"
    assert run_line(host, f"{line}xml").status == 2
    odd = LabHost("esx-odd", Ledger(), gpus=[LabGpu.of(0, FIRST, "t4-16gb")], vibs=[parts.driver_vib("470.256.02")])
    assert out(odd, "nvidia-smi --query-gpu=name,mig.mode.current --format=csv,noheader") == "Tesla T4, [N/A]\n"
    assert out(odd, "nvidia-smi mig -lgi", 6) == "No MIG-enabled devices found.\n"
    assert "|                  N/A |" in out(odd, "nvidia-smi")


@pytest.mark.parametrize(("driver", "width"), [("470.256.02", 79), ("550.163.01", 91)])
def test_overview_is_aligned_and_stars_a_pending_mode(host, driver, width):
    host.vibs = [parts.driver_vib(driver)]
    shared_direct(host)
    vgpu.power_on(host, "train-01", ["grid_a100-20c"])
    host.gpus[0].set_mig(True)
    text = out(host, "nvidia-smi")
    assert {len(line) for line in text.splitlines()[1:]} == {width, 0}
    assert "|            Disabled* |" in text
    assert "20486MiB / 40960MiB" in text
    assert "CUDA Version: N/A" in text
    assert "train-01" in text
    assert text.count("N/A   34C") == 2


def test_set_mig_is_recorded_only_when_it_changes_something(host):
    for _ in range(2):
        assert "Reboot the system" in out(host, "nvidia-smi -i 0 -mig 1")
    assert [dict(e.detail) for e in host.ledger.entries()] == [{"gpu": FIRST, "enabled": True, "pending": True}]
    assert "Disabled MIG Mode" in out(host, "nvidia-smi -i 0 -mig 0")
    assert len(host.ledger) == 2
    assert host.gpus[1].mig_pending is False


def test_partial_creation_is_recorded_as_far_as_it_went(host):
    shared_direct(host, mig=True)
    assert run_line(host, "nvidia-smi mig -i 0 -cgi 9,5,5 -C").status == 23
    assert run_line(host, "nvidia-smi mig -i 1 -cgi 2").status == 2
    (entry,) = host.ledger.entries()
    assert entry.detail == {"gpu": FIRST, "created": ["3g.20gb@4"], "compute_instances": True}
    assert run_line(host, "nvidia-smi mig -dci").status == 0
    assert run_line(host, "nvidia-smi mig -dgi").status == 0
    assert calls(host)[1:] == ["nvidia-smi mig -dci", "nvidia-smi mig -dgi"]


def test_an_instance_of_a_running_vm_cannot_be_destroyed(host):
    shared_direct(host, mig=True)
    vgpu.power_on(host, "train-01", ["grid_a100-3-20c"])
    assert "In use by another client" in out(host, "nvidia-smi mig -dgi", 19)
    assert out(host, "nvidia-smi mig -lci", 6) == "No compute instances found: Not Found\n"
    assert "In use by another client" in out(host, "nvidia-smi -i 0 -mig 0")
    vgpu.power_off(host, "train-01")
    assert out(host, "nvidia-smi mig -lgi", 6) == "No GPU instances found: Not Found\n"


def test_vgpu_listings(host):
    assert out(host, "nvidia-smi vgpu") == "No supported devices in vGPU mode\n"
    assert "Virtualization Mode               : VSGA" in out(host, "nvidia-smi -q")
    shared_direct(host)
    assert "    GRID A100-20C\n" in out(host, "nvidia-smi vgpu -s -i 0")
    vgpu.power_on(host, "train-01", ["grid_a100-20c"])
    first, second = out(host, "nvidia-smi vgpu -c").split(f"GPU 0000{SECOND.upper()}\n")
    assert first.splitlines()[1:] == ["    GRID A100-20C"]
    assert "    GRID A100-40C\n" in second
    detail = out(host, "nvidia-smi vgpu -q -i 0")
    assert "    Active vGPUs                          : 1\n" in detail
    assert "        VM Name                           : train-01\n" in detail
    assert "        GPU Instance ID                   : N/A\n" in detail
    table = out(host, "nvidia-smi vgpu")
    assert "GRID A100-20C" in table
    assert {len(line) for line in table.splitlines()[1:]} == {79}
    assert "        GPU Instance Profile ID           : 9\n" in out(host, "nvidia-smi vgpu -s -v")
    query = out(host, "nvidia-smi -q -i 0")
    assert (
        "        Virtualization Mode               : Host VGPU\n        Host VGPU Mode                    : SR-IOV"
        in query
    )


def test_creatable_needs_a_free_gpu_instance_when_mig_is_on(host):
    shared_direct(host, mig=True)
    assert out(host, "nvidia-smi vgpu -c -i 0") == f"GPU 0000{FIRST.upper()}\n"
    out(host, "nvidia-smi mig -i 0 -cgi 9")
    assert out(host, "nvidia-smi vgpu -c -i 0") == f"GPU 0000{FIRST.upper()}\n    GRID A100-3-20C\n"


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("nvidia-smi --nope", 1),
        ("nvidia-smi -i", 2),
        ("nvidia-smi mig -i 0", 1),
        ("nvidia-smi mig -i 9 -lgi", 6),
        ("nvidia-smi vgpu -i", 2),
        ("nvidia-smi vgpu -i 9", 6),
        ("nvidia-smi vgpu --nope", 2),
        ("nvidia-smi -r -i 0", 3),
        ("nvidia-smi -mig 7 -i 9", 6),
        ("nv-hostengine --nope", 1),
        ("uname -z", 1),
        ("vmware", 1),
        ("vmkload_mod nvidia", 1),
    ],
)
def test_bad_arguments_change_nothing(host, line, status):
    assert run_line(host, line).status == status
    assert len(host.ledger) == 0


def test_compute_instances_of_a_double_memory_slice_and_of_a_whole_gpu(host):
    host.vibs = [parts.driver_vib("550.163.01")]
    shared_direct(host, mig=True)
    out(host, "nvidia-smi mig -i 0 -cgi 15 -C")
    assert "   7         0" in out(host, "nvidia-smi mig -i 0 -lci")
    out(host, "nvidia-smi mig -i 1 -cgi 0")
    assert out(host, "nvidia-smi mig -i 1 -cci 3c.7g.40gb,2:4").count("Successfully created compute instance") == 2
    free = [line.split()[6] for line in out(host, "nvidia-smi mig -i 1 -lcip").splitlines() if " MIG " in line]
    assert free == ["1/7", "0/3", "0/2", "0/1", "0/1"]
    assert run_line(host, "nvidia-smi mig -i 1 -cci 9").status == 2
    assert run_line(host, "nvidia-smi mig -i 1 -cci 0:9").status == 2
    assert run_line(host, "nvidia-smi mig -C").status == 0
