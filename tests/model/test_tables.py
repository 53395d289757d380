"""Tables of the package are read in their compiled form, which says what the YAML says."""

from __future__ import annotations

import sys
from datetime import date

import pytest

from tools.docgen.tables import PACKAGE, compiled_form, tables
from vsphere_ai.model import tables as module
from vsphere_ai.model.bounded import yaml_value
from vsphere_ai.model.tables import compiled, packaged_table

TEXT = 'read: 2026-01-31\nbuilds: {7: first, 8: [2025-02-28, 1.5, null, true]}\nname: "!date"\n'
VALUES = {"read": date(2026, 1, 31), "builds": {7: "first", 8: [date(2025, 2, 28), 1.5, None, True]}, "name": "!date"}


@pytest.fixture
def package(tmp_path, monkeypatch):
    (tmp_path / "facts_of_a_test").mkdir()
    (tmp_path / "facts_of_a_test" / "t.yaml").write_text(TEXT, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path / "facts_of_a_test"
    sys.modules.pop("facts_of_a_test", None)


@pytest.mark.parametrize("table", list(tables()), ids=lambda path: path.stem)
def test_each_table_has_its_compiled_form(table):
    assert compiled_form(table).read_text("utf-8") == compiled(table.read_bytes()), "run: make docs"


@pytest.mark.parametrize("table", list(tables()), ids=lambda path: path.stem)
def test_the_compiled_form_is_read_and_has_the_same_values(table, monkeypatch):
    own = yaml_value(table.read_text("utf-8"))
    monkeypatch.delattr(module, "yaml_value")
    assert packaged_table("vsphere_ai", table.relative_to(PACKAGE).as_posix()) == own


def test_dates_and_keys_that_are_no_texts_come_back(package, monkeypatch):
    compiled_form(package / "t.yaml").write_text(compiled(TEXT.encode()), "utf-8")
    monkeypatch.delattr(module, "yaml_value")
    assert packaged_table("facts_of_a_test", "t.yaml") == VALUES == yaml_value(TEXT)


@pytest.mark.parametrize(
    "form", [None, compiled(b"read: 2020-01-01\n"), compiled(TEXT.encode())[:-9], "", "[]", '{"values": {}}']
)
def test_a_form_that_is_not_there_or_of_another_table_is_not_read(package, form):
    if form is not None:
        compiled_form(package / "t.yaml").write_text(form, "utf-8")
    assert packaged_table("facts_of_a_test", "t.yaml") == VALUES
