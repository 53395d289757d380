"""Windows without a reboot on hosts whose GPUs are full: all kinds are drawn, and a way is found where one is."""

from __future__ import annotations

import pytest
import yaml
from honesty import cases, full_gpus
from honesty.case import VERSIONS
from honesty.labs import Labs

from vsphere_ai.lab.build import build
from vsphere_ai.lab.scenario_file import load

A100 = {"pci": "0000:3b:00.0", "board": "a100-40gb", "device_id": "20f1", "graphics_type": "sharedDirect"}
H100 = {"pci": "0000:3b:00.0", "board": "h100-80gb-pcie", "device_id": "2331", "graphics_type": "sharedDirect"}
VM = {"host": "esx01.lab.local", "power": "on", "memory_gb": 8, "tools": "running", "memory_reservation_locked": True}


@pytest.fixture(scope="module")
def drawn():
    return [cases.case(1, n) for n in range(cases.NO_REBOOT, cases.NO_REBOOT + 120)]


def test_all_that_is_promised_is_drawn(drawn):
    windows = [w for c in drawn for w in c.job["windows"]]
    assert {w.get("vgpu_mode", "") for w in windows} == {"", "sameSize", "mixedSize"}
    assert {w.get("mig") for w in windows} == {None, True, False}
    assert {w["way"] for w in windows} == {"power_off", "vmotion"}
    bodies = [p.body for c in drawn for p in c.plays if p.of == "hosts"]
    assert {key for b in bodies for nic in b.get("nics", {}).values() for key in nic} == {"pause", "speed"}
    assert {key for c in drawn for change in c.job["changes"].values() for key in change} == {"cpus", "vgpu"}
    gpus = [gpu for c in drawn for h in c.hosts for gpu in h.more["gpus"]]
    assert {(gpu["mig"], gpu["vgpu_mode"]) for gpu in gpus} == {
        (mig, mode) for mig in (True, False) for mode in ("sameSize", "mixedSize")
    }
    assert {c.release for c in drawn} == {*full_gpus.RELEASES} <= {*VERSIONS}


def test_the_lab_starts_with_the_vms_that_run(tmp_path, drawn):
    """Those that found no place are off: of the others each has its own."""
    for number, made in enumerate(drawn[:30]):
        (tmp_path / str(number)).mkdir()
        made.write(tmp_path / str(number))
        build(load(tmp_path / str(number) / "scenario.yml"), "test").close()
    assert any(vm.vgpu and not vm.on for case in drawn for vm in case.vms), "no GPU is full"


@pytest.fixture(scope="module")
def way(tmp_path_factory):
    labs = Labs()

    def found(gpu, vms, changes, **window):
        path = tmp_path_factory.mktemp("way") / "scenario.yml"
        host = {"name": "esx01.lab.local", "nvidia_driver": "550.90.05", "version": "8.0.3", "build": "24022510",
                "graphics_default": "sharedDirect", "gpus": [gpu]}  # fmt: skip
        farm = {"name": "way", "vcenter": {"version": "8.0.3", "build": "24022515"}, "hosts": [host],
                "vms": [{**VM, "name": name, "vgpu": [vgpu]} for name, vgpu in vms.items()]}  # fmt: skip
        path.write_text(yaml.safe_dump(farm))
        return labs.ways(path, {"windows": [{"host": host["name"], "way": "power_off", **window}], "changes": changes})

    yield found
    labs.close()


MIXED = {**A100, "vgpu_mode": "mixedSize"}


@pytest.mark.parametrize(
    ("gpu", "vms", "changes", "window", "expected"),
    [
        (MIXED, {"a": "grid_a100-10c", "b": "grid_a100-20c"}, {}, {}, True),
        (MIXED, {"a": "grid_a100-10c", "b": "grid_a100-20c"}, {}, {"vgpu_mode": "sameSize"}, False),
        (MIXED, {"a": "grid_a100-10c", "b": "grid_a100-20c"}, {"b": {"vgpu": ["grid_a100-10c"]}},
         {"vgpu_mode": "sameSize"}, True),
        (H100, {"a": "nvidia_h100-40c"}, {}, {"mig": True}, False),
        (H100, {"a": "nvidia_h100-40c"}, {"a": {"vgpu": ["nvidia_h100-3-40c"]}}, {"mig": True}, True),
        (MIXED, {"a": "grid_a100-20c", "b": "grid_a100-20c"}, {"a": {"vgpu": ["grid_a100-40c"]}}, {}, False),
    ],
)  # fmt: skip
def test_a_way_is_found_where_one_is(way, gpu, vms, changes, window, expected):
    assert way(gpu, vms, changes, **window) is expected
