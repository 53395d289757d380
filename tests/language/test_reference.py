"""References to outputs of other playbooks: put in the place of values with their types, refused with their place."""

from __future__ import annotations

import pytest
from support.vm_sets import play

from vsphere_ai.errors import InputError
from vsphere_ai.language.playbooks.playbook import load_playbook
from vsphere_ai.language.playbooks.reference import Unresolved
from vsphere_ai.resources import kinds

VALUES = {"lan": "dvpg-lan", "cpus": 8, "pools": ("mgmt", "storage"), "text": "a ${b}", "range": "[01:02]"}


def load(tmp_path, text, *, resolves=True):
    (tmp_path / "network.yml").write_text("")
    path = tmp_path / "play.yml"
    path.write_text(text)

    def resolve(reference):
        assert reference.file == tmp_path / "network.yml"
        if reference.name not in VALUES:
            raise Unresolved("it has no such output", "take another")
        return VALUES[reference.name]

    return load_playbook(path, kinds(), resolve) if resolves else load_playbook(path, kinds())


def stated(playbook):
    return playbook.plays[0].states[0].state


def test_a_value_takes_the_type_of_the_output_and_a_text_takes_it_as_text(tmp_path):
    text = play("train-01", nics=1, cpus="${ref:network.cpus}", folder="${ref:network.yml.lan}-vms")
    text = text.replace("addresses: mgmt", "addresses: '${ref:network.pools}'")
    found = stated(load(tmp_path, text))
    assert (found.cpus, found.folder, found.nics[0].addresses) == (8, "dvpg-lan-vms", ("mgmt", "storage"))


def test_a_pattern_may_hold_one_and_an_output_gives_one_on_as_it_is(tmp_path):
    playbook = load(tmp_path, play("train-${ref:network.range}") + "\n- outputs: {x: '${ref:network.text}'}\n")
    assert playbook.plays[0].pattern == "train-[01:02]"
    assert "".join(playbook.outputs[0].items[0]) == "a ${b}"


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("${ref:network.other}", "it has no such output"),
        ("${ref:missing.lan}", "there is no playbook"),
        ("${ref:lan}", "does not name a playbook and an output"),
        ("${ref:}", "does not name a playbook and an output"),
        ("${ref:../../etc/passwd.lan}", "there is no playbook"),
        ("x${ref:network.pools}", "this output is a list"),
    ],
)
def test_a_reference_without_a_value_is_named_at_its_place(tmp_path, reference, message):
    with pytest.raises(InputError) as caught:
        load(tmp_path, play("train-01", folder=f"'{reference}'"))
    (found,) = (d for d in caught.value.diagnostics if message in d.message)
    line = (tmp_path / "play.yml").read_text().splitlines()[found.mark.line - 1]
    assert line[found.mark.column - 1 :].startswith("${ref:")


def test_a_value_of_another_type_is_named_with_the_value(tmp_path):
    with pytest.raises(InputError) as caught:
        load(tmp_path, play("train-01", cpus="${ref:network.lan}"))
    (found,) = caught.value.diagnostics
    assert found.message == "expected a whole number, but this is 'dvpg-lan'"
    assert "${ref:network.lan}" in found.excerpt


def test_without_a_vcenter_there_is_no_value(tmp_path):
    with pytest.raises(InputError):
        load(tmp_path, play("train-01", folder="${ref:network.lan}"), resolves=False)
