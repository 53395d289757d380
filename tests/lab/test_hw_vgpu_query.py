"""`nvidia-smi vgpu -q` in the lab: keys, indentation and columns are those of a capture."""

import re
from pathlib import Path

import pytest

from vsphere_ai.gpu.smi.running import parse_running
from vsphere_ai.lab.hardware import parts, vgpu
from vsphere_ai.lab.hardware.gpu import LabGpu
from vsphere_ai.lab.hardware.host import LabGuest, LabHost
from vsphere_ai.lab.ledger import Ledger
from vsphere_ai.lab.shell.run import run_line

CAPTURED = (Path(__file__).parents[1] / "gpu" / "fixtures" / "vgpu-q-t4.txt").read_text("utf-8")


@pytest.fixture
def host():
    gpus = [LabGpu.of(n, pci, "a100-40gb", device_id=0x20F1) for n, pci in enumerate(("0000:3b:00.0", "0000:86:00.0"))]
    for gpu in gpus:
        gpu.configured, gpu.mig_pending, gpu.mig_current = "sharedDirect", True, True
    vibs = [*parts.default_vibs("7.0.2", "17867351"), parts.driver_vib("535.261.03")]
    return LabHost("esx01.lab.local", Ledger(), gpus=gpus, vibs=vibs)


def query(host, line="nvidia-smi vgpu -q"):
    result = run_line(host, line)
    assert result.status == 0
    return result.stdout


def shape(text):
    """Return the lines without their values."""
    return [re.sub(r"(GPU ).*|( : ).*", r"\1\2", line) for line in text.splitlines()]


def test_it_looks_like_a_capture(host):
    vgpu.power_on(host, "train-01", ["grid_a100-3-20c"])
    assert shape(query(host, "nvidia-smi vgpu -q -i 0")) == shape(CAPTURED)


def test_it_tells_vm_instance_licence_and_driver(host):
    host.guest_of = {"train-01": LabGuest("525.60.13", "unlicensed"), "train-02": LabGuest("")}.get
    vgpu.power_on(host, "train-01", ["grid_a100-3-20c"])
    vgpu.power_on(host, "train-02", ["grid_a100-1-5c"])
    vgpu.power_on(host, "train-03", ["grid_a100-7-40c"])
    seen = {v.vm_name: v for v in parse_running(0, query(host))}
    held = {v.vm: (gpu.pci, v.gi) for gpu in host.gpus for v in gpu.vgpus}
    assert {name: (v.pci, v.gi) for name, v in seen.items()} == held
    assert None not in [gi for _, gi in held.values()]
    assert [seen[n].guest_driver for n in sorted(seen)] == ["525.60.13", None, "535.261.03"]
    assert [seen[n].licensed for n in sorted(seen)] == [False, None, True]


def test_a_host_whose_driver_does_not_tell_the_instance(host):
    host.shows_instances = False
    vgpu.power_on(host, "train-01", ["grid_a100-3-20c"])
    assert [v.gi for v in parse_running(0, query(host))] == [None]


def test_a_guest_that_is_not_up_has_no_licence_state(host):
    host.guest_of = {"train-01": LabGuest("")}.get
    vgpu.power_on(host, "train-01", ["grid_a100-3-20c"])
    assert "License Status                    : N/A (Expiry: N/A)" in query(host)
    assert "Placement ID" not in query(host), "R535"


def test_places_of_a_gpu_with_mixed_sizes_from_r550_on():
    gpu = LabGpu.of(0, "0000:3b:00.0", "l40-48gb")
    gpu.configured, gpu.vgpu_mode = "sharedDirect", "mixedSize"
    vibs = [*parts.default_vibs("8.0.3", "24022510"), parts.driver_vib("550.90.05")]
    host = LabHost("esx01.lab.local", Ledger(), gpus=[gpu], vibs=vibs, version="8.0.3")
    for number, size in enumerate((24, 12, 8)):
        vgpu.power_on(host, f"vm-{number}", [f"nvidia_l40-{size}c"])
    rows = re.findall(r"Placement ID +: (\S+)", query(host))
    assert len(rows) == 3
    assert rows == ["0", "24", "40"], "in GB: a 12C begins at 0, 12, 24 or 36, an 8C at 0, 16, 24 or 40"
    assert [v.placement for v in parse_running(0, query(host))] == [0, 24, 40]
    host.shows_instances = False
    assert re.findall(r"Placement ID +: (\S+)", query(host)) == ["N/A"] * 3
    gpu.vgpus.clear()
    gpu.vgpu_mode = "sameSize"
    vgpu.power_on(host, "vm-9", ["nvidia_l40-12c"])
    assert re.findall(r"Placement ID +: (\S+)", query(host)) == ["N/A"]
