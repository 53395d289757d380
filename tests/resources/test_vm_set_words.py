"""Words of Terraform, Ansible, govc and PowerCLI in `vm_set`: the key that exists is named, with its place."""

from __future__ import annotations

import re

import pytest

from vsphere_ai.errors import InputError
from vsphere_ai.language.playbooks.playbook import load_playbook
from vsphere_ai.language.yaml_files.validation import settable
from vsphere_ai.model.names.suggestion import same_word
from vsphere_ai.resources import kinds
from vsphere_ai.resources.vm_set import VmSet
from vsphere_ai.resources.vm_set.settings import SetDisk, SetNic, SetUser

MODELS = (VmSet, SetNic, SetDisk, SetUser)
HEAD = "- vms: t-[01:02]\n  vm_set:\n    name: t\n    source: x\n"
NIC = "    nics:\n      - {{name: mgmt, port_group: lan, {}: x}}\n"
DISK = "    disks:\n      - {{name: data, gb: 10, {}: x}}\n"


def faults(text, tmp_path):
    path = tmp_path / "play.yml"
    path.write_text(HEAD + text, encoding="utf-8")
    with pytest.raises(InputError) as refused:
        load_playbook(path, kinds())
    return [(f.mark.line, f.mark.column, f.message, f.help) for f in refused.value.diagnostics]


@pytest.mark.parametrize(
    ("word", "help"),
    [
        ("num_cpus", "write 'cpus'"),
        ("NumCpu", "write 'cpus'"),
        ("annotation", "write 'notes'"),
        ("Notes", "did you mean 'notes'?"),
        ("customvalues", "write 'custom_attributes'"),
        ("memory", "write 'memory_gb', in GB: the number there is in MB"),
        ("template", "write 'source'"),
        ("network_interface", "write 'nics'"),
        ("num_cores_per_socket", "write 'tuning: {cores_per_socket: N}' beside vm_set: it goes into the clone"),
        ("cores_per_socket", "write 'tuning: {cores_per_socket: N}' beside vm_set: it goes into the clone"),
        ("datastore-cluster", "write 'datastore'"),
        ("linked_clone", "write 'linked'"),
        ("esxi_hostname", "write 'placement: {hosts: [PATTERN]}'"),
    ],
)
def test_a_word_of_another_tool_names_the_key_that_exists(word, help, tmp_path):
    assert faults(f"    {word}: 4\n", tmp_path) == [(5, 5, f"unknown key '{word}'", help)]


@pytest.mark.parametrize(
    ("text", "word", "help"),
    [(NIC, "network_id", "write 'port_group'"), (NIC, "adapter_type", "write 'type'"), (DISK, "size", "write 'gb'")],
)
def test_also_of_nics_and_disks(text, word, help, tmp_path):
    ((line, _column, message, said),) = faults(text.format(word), tmp_path)
    assert (line, message, said) == (6, f"unknown key '{word}'", help)


@pytest.mark.parametrize("model", MODELS)
def test_each_word_leads_to_a_key_that_exists(model):
    keys = settable(model)
    assert model.other_words
    assert not [word for word in model.other_words if word in keys]
    named = {key for words in model.other_words.values() if (key := "".join(re.findall(r"^write '(\w+)'", words)))}
    assert named <= set(keys)
    sentences = "\n".join(model.other_words.values())
    beside = set(re.findall(r"^write .(\w+): .*beside vm_set", sentences, re.MULTILINE))
    assert beside <= {*kinds(), "vcenter", "placement"}
    twice = [(a, b) for a in model.other_words for b in model.other_words if a < b and same_word(a, b)]
    assert not [(a, b) for a, b in twice if model.other_words[a] != model.other_words[b]]


def test_more_than_ten_nics_in_words_of_vsphere(tmp_path):
    nics = "".join(f"      - {{name: n{i}, port_group: lan}}\n" for i in range(12))
    ((line, _column, message, help),) = faults(f"    nics:\n{nics}", tmp_path)
    assert (line, message) == (6, "a VM has at most 10 network adapters in vSphere, and these are 12")
    assert help == "remove 2 of them"
