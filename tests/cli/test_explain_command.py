"""`explain`: text of at most 80 columns and JSON say the same, with a source for each part."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from vsphere_ai.cli.main import command
from vsphere_ai.errors import UsageError
from vsphere_ai.resources import kinds


def explain(*words):
    done = CliRunner().invoke(command, ["explain", *words], standalone_mode=False)
    if done.exception:
        raise done.exception
    return done.output


def parts():
    found = json.loads(explain("rdma-options", "--format", "json"))
    return [*found["modes"], *found["devices"]]


def test_text_is_narrow_and_says_what_json_says():
    text = explain("rdma-options")
    assert max(map(len, text.splitlines())) <= 80
    flat = " ".join(text.split())
    for part in parts():
        for value in part.values():
            for each in value if isinstance(value, list) else [value]:
                assert each in flat


def test_the_four_modes_and_three_devices_have_sources_and_name_kinds_that_there_are():
    assert [part["name"] for part in parts()] == [
        "InfiniBand SR-IOV", "IPoIB", "RoCE SR-IOV", "RoCE macvlan or ipvlan, shared",
        "PVRDMA", "SR-IOV virtual function", "DirectPath I/O",
    ]  # fmt: skip
    assert all(part["sources"] for part in parts())
    assert all(part["kind"].split()[0] in kinds() for part in parts() if "kind" in part)


@pytest.mark.parametrize(("name", "help"), [("rdma-option", "did you mean"), ("x", "there are: busbw, rdma-options")])
def test_an_unknown_topic_is_refused_with_what_there_is(name, help):
    with pytest.raises(UsageError) as refused:
        explain(name)
    assert (refused.value.rule, refused.value.remedy.startswith(help)) == ("usage.topic", True)
