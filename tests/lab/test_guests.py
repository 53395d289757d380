"""Guests of the lab over SSH: what their programs print follows the farm and the defects that are planted in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.guest_farm import guest_farm

from vsphere_ai import app
from vsphere_ai.connect.secure_shell.guest_ssh import GuestSsh, GuestTimedOut
from vsphere_ai.connect.secure_shell.ssh_endpoint import SshRefused
from vsphere_ai.errors import UsageError
from vsphere_ai.gpu.smi.device_paths import parse_device_paths, parse_gpu_list
from vsphere_ai.lab.hardware.gpu import LabGpu
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.hardware.parts import driver_vib
from vsphere_ai.lab.ledger import Ledger
from vsphere_ai.lab.shell.run import run_line
from vsphere_ai.language.inventories.inventory import load_inventory

FARM = guest_farm(4, "  - {name: plain, host: esx01.lab.local, folder: ai, network: dvpg-lan, power: on}\n")


@pytest.fixture
def guests(make_lab):
    lab = make_lab(FARM)
    settings = app.guest_settings(load_inventory(lab.directory / "connection.yml"))
    shells = {}

    def at(vm):
        if vm not in shells:
            shells[vm] = GuestSsh("10.0.0.1", settings, vm)
        return shells[vm]

    at.lab, at.settings = lab, settings
    yield at
    for shell in shells.values():
        shell.close()


def run(shell, *argv, **more):
    done = shell.run(argv, **more)
    assert done.code == 0, done
    return done.out


def test_a_guest_shows_its_gpu_its_rail_and_its_kernel(guests):
    assert set(guests.settings.addresses) == {f"trn-0{n}" for n in (1, 2, 3, 4)}
    shell = guests("trn-02")
    assert run(shell, "hostname") == "trn-02\n"
    fields = "index,uuid,driver_version,memory.total,ecc.errors.uncorrected.volatile.total"
    row = run(shell, "nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits").strip().split(", ")
    assert (row[0], row[2:]) == ("0", ["535.161.05", "40960", "[N/A]"])
    assert f"UUID: {row[1]}" in run(shell, "nvidia-smi", "-L")
    assert "CUDA Version: 12.2" in run(shell, "nvidia-smi")
    assert run(shell, "rdma", "link").split()[1:4] == ["roces224f1/1", "state", "ACTIVE"]
    assert "PORT_ACTIVE (4)" in run(shell, "ibv_devinfo")
    assert {each["ifname"] for each in json.loads(run(shell, "ip", "-j", "addr"))} == {"ens192", "ens224"}
    assert "Xid" not in run(shell, "dmesg")
    counters = run(shell, "sh", "-c", "grep -H . /sys/class/infiniband/*/ports/*/counters/* 2>/dev/null")
    assert "/sys/class/infiniband/roces224f1/ports/1/counters/link_downed:0\n" in counters
    assert shell.run(["no-such-program"]).code == 127


def named(text):
    """The names of the lines of ``ibv_devinfo``, in their order, and its state of the port."""
    lines = [line.partition(":") for line in text.splitlines() if ":" in line]
    return [name.strip() for name, _, _ in lines], next(v.strip() for n, _, v in lines if n.strip() == "state")


def test_ibv_devinfo_prints_what_real_ones_print(guests):
    """The lines are those of captured outputs, and of rdma-core's source for a PVRDMA adapter."""
    samples = {path.name: path.read_text("utf-8") for path in (Path(__file__).parent / "samples").glob("*ibv_devinfo*")}
    real = {name: named(text) for name, text in samples.items()}
    assert len(real) == 3
    up = run(guests("trn-02"), "ibv_devinfo")
    guests.lab.set_defects({"kind": "rail-down", "host": "esx02*", "nic": "vmnic4"})
    down = run(guests("trn-02"), "ibv_devinfo")
    for text, state in ((up, "PORT_ACTIVE (4)"), (down, "PORT_DOWN (1)")):
        names, seen = named(text)
        assert seen == state
        assert any(seen == other for _, other in real.values())
        assert all(names == other for other, _ in real.values())


def test_planted_defects_show_where_they_can_be_seen(guests):
    shell, other = guests("trn-02"), guests("trn-01")
    guests.lab.set_defects(
        {"kind": "xid", "vm": "trn-02", "number": 79},
        {"kind": "rail-down", "host": "esx02*", "nic": "vmnic4"},
        {"kind": "rail-flapping", "host": "esx02*", "count": 7},
        {"kind": "mtu", "vm": "trn-02", "nic": "ens224", "mtu": 1500},
        {"kind": "clock", "vm": "trn-02", "seconds": 5},
        {"kind": "gpu-busy", "vm": "trn-02"},
        {"kind": "driver", "vm": "trn-02", "version": "525.85.12"},
    )
    assert "NVRM: Xid (PCI:0000:02:00): 79" in run(shell, "dmesg")
    assert "Xid" not in run(other, "dmesg")
    assert "state DOWN" in run(shell, "rdma", "link")
    changes = run(shell, "sh", "-c", "grep -H . /sys/class/net/*/carrier_changes")
    assert "ens224/carrier_changes:16" in changes
    assert float(run(shell, "date", "+%s.%N")) - float(run(other, "date", "+%s.%N")) > 4
    assert "4559" in run(shell, "nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader")
    assert run(shell, "nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader") == "525.85.12\n"
    guests.lab.set_defects({"kind": "gpu-missing", "vm": "trn-02"})
    assert shell.run(["nvidia-smi", "-L"]).code == 6
    guests.lab.set_defects({"kind": "hang", "vm": "trn-02", "command": "nvidia-smi"})
    with pytest.raises(GuestTimedOut):
        shell.run(["nvidia-smi"], timeout=0.5)
    guests.lab.set_defects({"kind": "flood", "vm": "trn-02", "command": "dmesg"})
    assert shell.run(["dmesg"]).truncated
    with pytest.raises(UsageError, match="gpu-slwo") as refused:
        guests.lab.set_defects({"kind": "gpu-slwo"})
    assert "gpu-slow" in refused.value.remedy
    assert max(map(len, refused.value.remedy.splitlines())) <= 78


def nccl(shell, hosts, *more):
    ranks = str(len(hosts))
    argv = ["mpirun", "-np", ranks, "-H", ",".join(f"{h}:1" for h in hosts), *more, "all_reduce_perf_mpi"]
    return run(shell, *argv, "-b", "8M", "-e", "1G", "-f", "2", "-g", "1")


def peak(text):
    rows = [line.split() for line in text.splitlines() if line.strip()[:1].isdigit()]
    return float(rows[-1][7])


def test_nccl_tests_reach_what_the_farm_can(guests):
    head, every = guests("trn-01"), [f"trn-0{n}" for n in (1, 2, 3, 4)]
    text = nccl(head, every, "-x", "NCCL_DEBUG=INFO")
    assert "NET/IB : Using [0]roces224f1:1/RoCE" in text
    sound = peak(text)
    assert sound == pytest.approx(100 / 8 * 0.92, rel=0.05)
    guests.lab.set_defects({"kind": "gpu-slow", "host": "esx03*", "factor": 0.75})
    assert peak(nccl(head, every)) == pytest.approx(sound * 0.75, rel=0.08)
    assert peak(nccl(head, every[:2])) == pytest.approx(sound, rel=0.08)
    guests.lab.set_defects({"kind": "rail-slow", "host": "esx02*", "nic": "vmnic4", "factor": 0.5})
    assert peak(nccl(head, every[:2])) == pytest.approx(sound * 0.5, rel=0.08)
    guests.lab.set_defects({"kind": "pair-slow", "one": "esx01*", "other": "esx04*", "factor": 0.5})
    assert peak(nccl(head, [every[0], every[3]])) == pytest.approx(sound * 0.5, rel=0.08)
    assert peak(nccl(head, [every[0], every[2]])) == pytest.approx(sound, rel=0.08)
    assert head.run(["tee", "/tmp/hosts"], stdin=b"trn-01 slots=1\ntrn-02 slots=1\n").code == 0
    argv = ["mpirun", "--hostfile", "/tmp/hosts", "-np", "2", "all_reduce_perf", "-b", "1G", "-e", "1G"]
    assert peak(run(head, *argv)) == pytest.approx(sound, rel=0.08)
    assert head.run(["mpirun", "-H", "trn-09:1", "all_reduce_perf"]).code == 255


def test_perftest_shows_a_half_speed_rail(guests):
    client = guests("trn-01")
    assert "Waiting for client" in run(guests("trn-02"), "ib_write_bw", "-d", "roces224f1")
    whole = run(client, "ib_write_bw", "-d", "roces224f1", "--report_gbits", "trn-02")
    assert float(whole.splitlines()[-2].split()[3]) > 95
    guests.lab.set_defects({"kind": "rail-slow", "host": "esx02*", "factor": 0.5})
    half = run(client, "ib_write_bw", "-d", "roces224f1", "--report_gbits", "trn-02")
    assert 45 < float(half.splitlines()[-2].split()[3]) < 52


def test_a_guest_that_is_switched_off_is_gone_and_comes_back(guests, make_lab):
    from conftest import Client

    client = Client(guests.lab)
    vm = client.vm("trn-02")
    assert run(guests("trn-02"), "true") == ""
    client.wait(vm.PowerOffVM_Task())
    guests("trn-02").close()
    with pytest.raises(SshRefused, match="trn-02"):
        guests("trn-02").connect()
    client.wait(vm.PowerOnVM_Task())
    assert run(guests("trn-02"), "true") == ""
    guests.lab.post("/lab/reset")
    settings = app.guest_settings(load_inventory(guests.lab.directory / "connection.yml"))
    with GuestSsh("10.0.0.1", settings, "trn-02") as again:
        assert run(again, "hostname") == "trn-02\n"


def test_a_guest_shows_the_paths_between_its_gpus_and_its_rdma_devices(guests):
    """One host bridge, unless vCenter gives devices NUMA nodes of the guest (VirtualDevice.numaNode)."""
    shell = guests("trn-02")

    def shown():
        (gpu,) = parse_device_paths(0, run(shell, "nvidia-smi", "topo", "-m")).gpus
        return gpu

    assert [(nic.device, nic.path) for nic in shown().nics] == [("roces224f1", "PHB")]
    assert (shown().numa, shown().cpus) == (0, "0-15")
    (listed,) = parse_gpu_list(0, run(shell, "nvidia-smi", "-L")).gpus
    assert listed.devices == ()
    assert listed.uuid.startswith("GPU-")


@pytest.mark.parametrize(
    ("bridges", "nodes", "link", "path"),
    [
        ((("0000:3a:00.0",), ("0000:3a:00.0",)), (0, 0), "", "PIX"),
        ((("0000:3a:00.0", "0000:3a:01.0"), ("0000:3a:00.0",)), (0, 0), "", "PXB"),
        ((("0000:3a:00.0",), ("0000:5a:00.0",)), (0, 0), "", "NODE"),
        ((("0000:3a:00.0",), ("0000:5a:00.0",)), (0, 1), "", "SYS"),
        (((), ()), (0, 1), "a", "NV12"),
    ],
)
def test_a_host_shows_the_paths_between_its_gpus(bridges, nodes, link, path):
    gpus = [LabGpu.of(n, f"0000:{0x3B + n:02x}:00.0", "a100-40gb") for n in range(2)]
    for gpu, own, node in zip(gpus, bridges, nodes, strict=True):
        gpu.bridges, gpu.numa_node, gpu.link = own, node, link
    host = LabHost("esx01", Ledger(), gpus=gpus, vibs=[driver_vib("535.161.05")])
    done = run_line(host, "nvidia-smi topo -m")
    assert done.status == 0
    first, second = parse_device_paths(0, done.stdout).gpus
    assert (first.peers, second.peers) == (((1, path),), ((0, path),))
    assert run_line(host, "nvidia-smi topo -z").status == 1
