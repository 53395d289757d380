"""`render ... --check`: what is printed, and the exit code that a pipeline goes by."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from vsphere_ai.cli.main import command

API = "apiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderIPPool\nmetadata: {name: a}\nspec:\n"
GOOD, BAD = f"{API}  subnet: 10.0.0.0/24\n", f"{API}  subnet: 10.0.0.1/24\n"
OTHER = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"


def render(text: str, *more: str):
    done = CliRunner().invoke(
        command, ["render", "spiderpool", "--check", "-", *more], input=text, standalone_mode=False
    )
    return done.return_value, done.output


@pytest.mark.parametrize(("text", "code"), [(GOOD, 0), (BAD, 2), (f"{GOOD}---\n{OTHER}", 0), (OTHER, 1), ("", 1)])
def test_a_file_without_such_objects_is_no_success(text, code):
    assert render(text)[0] == code


def test_json_has_place_and_rule_of_each_fault():
    code, output = render(BAD, "-o", "json")
    (fault,) = [f for f in json.loads(output)["findings"] if f["verdict"] == "fail"]
    assert (code, fault["target"]["file"], fault["target"]["line"], fault["rule"]) == (
        2,
        "stdin",
        5,
        "spiderpool.subnet",
    )
