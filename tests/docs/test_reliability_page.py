"""The page of promises: each has tests, and every test it names exists."""

from __future__ import annotations

import ast
import re

import pytest
from support.places import ROOT

PAGE = ROOT / "docs" / "reliability.md"
TEXT = PAGE.read_text("utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", TEXT)


def test_there_are_25_promises_and_each_has_a_test():
    promises = re.split(r"(?m)^(?=\d+\. \*\*)", TEXT)[1:]
    assert [int(p.split(".")[0]) for p in promises] == list(range(1, 26))
    assert [p for p in promises if "`tests/" not in p] == []


@pytest.mark.parametrize(("path", "test"), sorted(set(NAMED)), ids=lambda v: v or "all")
def test_a_named_test_exists(path, test):
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    names = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")}
    assert names
    assert test in names | {""}
