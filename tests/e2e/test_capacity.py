"""A plan whose VMs could not all power on is refused before anything is touched; the lab agrees with the verdict."""

from __future__ import annotations

import pytest
from support.places import PLAYBOOKS

pytestmark = pytest.mark.lab
SLICED = (
    "- hosts: gpu_hosts\n  graphics: {default_type: shared_direct}\n  mig: {mode: enabled}\n"
    "  rolling: {evacuate: power_off}\n"
)


def test_a_profile_that_finds_no_gpu_left_is_refused(cli, ledger):
    assert cli("apply", PLAYBOOKS / "time-sliced.yml", "--yes") == 0
    done = ledger()
    # train-02 holds 20 GB of one GPU and train-01 would need two whole GPUs
    assert cli("plan", cli.file("- vms: train-01\n  vgpu: [grid_a100-40c, grid_a100-40c]\n")) == 1
    assert "[capacity.no-room]" in cli.out
    assert ledger() == done


def test_what_fits_powers_on_and_what_does_not_is_refused(cli, farm, ledger):
    play = SLICED + "- vms: 'train-[01:02]'\n  vgpu: [grid_a100-4-20c]\n"
    assert cli("apply", cli.file(play), "--yes") == 0, cli.out
    assert [farm()["vms"][f"train-0{n}"]["power"] for n in (1, 2)] == ["poweredOn"] * 2
    done = ledger()
    full = cli.file(
        "- vms: train-03\n  vgpu: [grid_a100-7-40c]\n- vms: train-04\n  vgpu: [grid_a100-7-40c]\n", "full.yml"
    )
    assert cli("apply", full, "--yes") == 0, cli.out
    assert len(ledger()) > len(done)


def test_a_spare_host_is_asked_for(cli, ledger):
    fits = SLICED + "- vms: training\n  vgpu: [grid_a100-3-20c]\n"
    assert cli("plan", cli.file(fits + "  spare_hosts: 1\n")) == 0, cli.out
    tight = SLICED + "- vms: training\n  vgpu: [grid_a100-7-40c]\n"
    assert cli("plan", cli.file(tight)) == 0, cli.out
    assert cli("plan", cli.file(tight + "  spare_hosts: 1\n")) == 1
    assert "[capacity.no-spare]" in cli.out
    assert ledger() == []


@pytest.mark.parametrize("given", ["-1", "two", "1.5", "true"])
def test_spare_hosts_is_a_number(cli, given):
    assert cli("plan", cli.file(f"- vms: train-01\n  vgpu: []\n  spare_hosts: {given}\n")) == 65
    assert ":3:16" in cli.err
