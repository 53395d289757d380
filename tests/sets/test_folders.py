"""Folders of new VMs in the spellings of vCenter, govc, Terraform and Ansible; those of hosts and networks are none."""

from __future__ import annotations

import pytest

from vsphere_ai.model.facts import About, Estate, Facts
from vsphere_ai.sets.places import VM_FOLDER, ObjectMissing, named

TREE = {
    "Folder:root": ("Datacenters", None),
    "Folder:sites": ("sites", "Folder:root"),
    "Datacenter:1": ("DC0", "Folder:sites"),
    "Folder:vm": ("vm", "Datacenter:1"),
    "Folder:host": ("host", "Datacenter:1"),
    "Folder:ai": ("ai", "Folder:vm"),
    "Folder:training": ("training", "Folder:ai"),
    "Folder:other": ("other", "Folder:vm"),
    "Folder:other-ai": ("ai", "Folder:other"),
    "Folder:racks": ("racks", "Folder:host"),
}
ESTATE = Estate(
    About("vCenter", "8.0", "1", "8.0.0.1", "i"),
    {r: Facts(r, {"name": n, **({"parent": p} if p else {})}) for r, (n, p) in TREE.items()},
)


@pytest.mark.parametrize(
    ("written", "ref"),
    [
        ("/sites/DC0/vm/ai/training", "Folder:training"),
        ("sites/DC0/vm/ai/training", "Folder:training"),
        ("ai/training", "Folder:training"),
        ("/ai/training", "Folder:training"),
        ("vm/ai/training", "Folder:training"),
        ("/vm/ai/training/", "Folder:training"),
        ("training", "Folder:training"),
        ("/ai", "Folder:ai"),
        ("other/ai", "Folder:other-ai"),
        ("vm", "Folder:vm"),
        ("/sites/DC0/vm", "Folder:vm"),
    ],
)
def test_a_folder_is_found_by_each_spelling(written, ref):
    assert named(ESTATE, VM_FOLDER, written, ("Folder",)).ref == ref


def test_a_name_that_two_folders_have_needs_a_path():
    with pytest.raises(ObjectMissing) as missing:
        named(ESTATE, VM_FOLDER, "ai", ("Folder",))
    assert missing.value.fault.rule == "ambiguous"
    assert missing.value.fault.help == "write the path: /sites/DC0/vm/ai, /sites/DC0/vm/other/ai"


@pytest.mark.parametrize("written", ["racks", "host", "sites", "/sites/DC0/host/racks", "training/ai"])
def test_only_vm_folders_are_found_and_listed(written):
    with pytest.raises(ObjectMissing) as missing:
        named(ESTATE, VM_FOLDER, written, ("Folder",))
    assert missing.value.fault.rule == "not-found"
    assert missing.value.fault.help == "there is: ai, ai/training, other, other/ai, vm"
