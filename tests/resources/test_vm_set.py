"""The kind `vm_set`: what a playbook may say of a set, and which faults are found before anything is read."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from support.vm_sets import FARM as FARM
from support.vm_sets import KEY, play

from vsphere_ai.resources.vm_set import VmSet

ALONE = """
- vms: new-[01:02]
  vm_set: {name: new, source: ubuntu-22.04, cluster: gpu-a, folder: ai, power_state: off}
"""
APART = "it makes VMs of a template, which the farm of the other kinds does not have"
NIC = {"name": "mgmt", "port_group": "dvpg-lan"}


def test_what_is_left_out_has_its_default():
    made = VmSet(name="train", source="ubuntu", nics=(NIC,))
    (nic,) = made.wanted_set().nics
    assert (nic.type, nic.pools, nic.primary) == ("vmxnet3", (), False)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "1st"},
        {"nics": ({**NIC, "name": "a name with spaces"},)},
        {"nics": ({**NIC, "name": "longer-than-fifteen"},)},
        {"nics": (NIC,) * 11},
        {"nics": ({**NIC, "mtu": 100},)},
        {"users": ({"name": "ops", "ssh_authorized_keys": ("not a key",)},)},
        {"users": ({"name": "ops", "ssh_authorized_keys": ()},)},
        {"users": ({"name": "ops", "password": "secret"},)},
        {"users": ({"name": "Ops", "ssh_authorized_keys": (KEY,)},)},
        {"cpus": 0},
        {"power_state": "suspended"},
    ],
)
def test_what_cannot_be_is_refused(wrong):
    with pytest.raises(ValidationError):
        VmSet(**{"name": "train", "source": "ubuntu", **wrong})


@pytest.mark.parametrize("pattern", ["train-*", "all", "/DC0/vm/train-01", "train-[01:04]:&gpu"])
def test_a_pattern_that_only_finds_makes_nothing(pattern, tmp_path):
    from vsphere_ai.errors import InputError
    from vsphere_ai.language.playbook import load_playbook
    from vsphere_ai.resources import kinds

    path = tmp_path / "play.yml"
    path.write_text(play(pattern), encoding="utf-8")
    with pytest.raises(InputError) as refused:
        load_playbook(path, kinds())
    (fault,) = refused.value.diagnostics
    assert (fault.mark.line, fault.mark.column) == (2, 8)
