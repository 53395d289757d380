"""Outputs in a playbook: their small grammar, and every mistake with its place and what would work."""

from __future__ import annotations

import pytest
from support.vm_sets import play

from vsphere_ai.errors import InputError
from vsphere_ai.language.playbooks.output import FIELDS, NIC_FIELDS
from vsphere_ai.language.playbooks.playbook import load_playbook
from vsphere_ai.resources import kinds

PLAYS = play("train-[01:04]:!train-02") + play("data-[1:2]", name="data", nics=2)


def outputs(tmp_path, text, plays=PLAYS):
    path = tmp_path / "play.yml"
    path.write_text(f"{plays}\n- outputs:\n    {text}\n")
    return load_playbook(path, kinds()).outputs


def parts(tmp_path, text):
    (one,) = outputs(tmp_path, text)
    return [[p if isinstance(p, str | int | bool) else (p.set, p.index, p.path) for p in item] for item in one.items]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x: '${train[1].name}'", [[("train", 1, ("name",))]]),
        ("x: ${train[*].nics.rdma1.address}", [[("train", None, ("nics", "rdma1", "address"))]]),
        ("x: ${train-03.host}", [[("train", 3, ("host",))]]),
        ("x: ${ data[ 2 ].rank }", [[("data", 2, ("rank",))]]),
        ("x: 'a ${data-1.gpus} b'", [["a ", ("data", 1, ("gpus",)), " b"]]),
        ("x: [a, '${data-1.name}']", [["a"], [("data", 1, ("name",))]]),
        ("x: $${no}", [["${", "no}"]]),
        ("x: 29500", [[29500]]),
        ("x: true", [[True]]),
        ("x: ''", [[""]]),
    ],
)
def test_what_a_text_says(tmp_path, text, found):
    assert parts(tmp_path, text) == found


@pytest.mark.parametrize("field", [*FIELDS, *(f"nics.mgmt.{field}" for field in NIC_FIELDS)])
def test_every_field_is_known(tmp_path, field):
    assert parts(tmp_path, f"x: ${{train[1].{field}}}") == [[("train", 1, tuple(field.split(".")))]]


MISTAKES = [
    ("x: ${trian[1].name}", "no play makes a set 'trian'", "did you mean 'train'?", 8),
    ("x: ${train[2].name}", "the set 'train' has no VM 2", "it has 1, 3, 4", 8),
    ("x: ${train[0].name}", "the set 'train' has no VM 0", "", 8),
    ("x: ${train-02.name}", "no set makes a VM 'train-02'", "train-01", 8),
    ("x: ab ${train[1].nmae}", "a VM has no 'nmae'", "did you mean 'name'?", 11),
    ("x: '${train[1].nics.rdma2.mac}'", "have no NIC 'rdma2'", "did you mean 'rdma1'?", 9),
    ("x: ${data[1].nics.rdma1.mac}", "the VMs of 'data' have no NIC 'rdma1'", "mgmt, storage", 8),
    ("x: ${train[1].nics.mgmt.ip}", "a NIC has no 'ip'", "", 8),
    ("x: ${train[1].nics.mgmt}", "a NIC has no value of its own", "", 8),
    ("x: ${train[1].nics}", "a VM has no 'nics'", "nics.NAME.address", 8),
    ("x: ${train[1].name.first}", "'name' has nothing below it", "${train[1].name}", 8),
    ("x: ${train}", "'train' is no value of a VM", "${train[1].name}", 8),
    ("x: ${}", "'' is no value of a VM", "", 8),
    ("x: ${train[1].name", "'${' is not closed", "$${", 8),
    ("x: '${train[*].name} ${data[*].name}'", "one text is made for each VM of one set", "two outputs", 8),
    ("X: a", "'X' is no name of an output", "small letters", 5),
    ("x:", "expected text, but this is nothing", "", 7),
    ("x: {a: b}", "expected text, but this is a mapping", "", 8),
    ("x: [[a]]", "expected text, but this is a list", "", 9),
]


@pytest.mark.parametrize(("text", "message", "help", "column"), MISTAKES, ids=[m[0] for m in MISTAKES])
def test_a_mistake_is_named_at_its_column(tmp_path, text, message, help, column):
    with pytest.raises(InputError) as caught:
        outputs(tmp_path, text)
    (found,) = caught.value.diagnostics
    assert message in found.message
    assert help in found.help
    assert (found.mark.line, found.mark.column) == (len(PLAYS.splitlines()) + 3, column)


@pytest.mark.parametrize(
    "text",
    [
        "- outputs: {x: a}\n- outputs: {x: b}\n" + PLAYS,
        "- outputs: {x: a}\n  vms: train-01\n" + PLAYS,
        "- outputs: {x: a}\n",
        "- outputs: []\n" + PLAYS,
    ],
    ids=["twice", "with a play's key", "no play", "no mapping"],
)
def test_an_item_of_outputs_that_is_none(tmp_path, text):
    path = tmp_path / "play.yml"
    path.write_text(text)
    with pytest.raises(InputError):
        load_playbook(path, kinds())


def test_a_play_with_a_fault_is_named_and_not_that_its_set_is_missing(tmp_path):
    with pytest.raises(InputError) as caught:
        outputs(tmp_path, "x: ${train[1].name}", play(cpus="many"))
    assert [d.message for d in caught.value.diagnostics] == ["expected a whole number, but this is 'many'"]
