"""Tests compiled ahead are what pytest would keep, and are not rewritten again."""

from __future__ import annotations

import sys

import pytest
from _pytest.assertion import rewrite
from support import compiled

TEST = "def test_it():\n    one = 1\n    assert one == 2, 'said'\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (tmp_path / "test_it.py").write_text(TEST)
    (tmp_path / "plain.py").write_text("def plain():\n    assert 1 == 2\n")
    (tmp_path / "test_broken.py").write_text("def test_it(:\n")
    return tmp_path


def test_what_is_compiled_ahead_is_read_by_pytest(folder, request):
    compiled.ahead(request.config, [folder])
    kept = folder / "__pycache__" / f"test_it{rewrite.PYC_TAIL}"
    code = rewrite._read_pyc(folder / "test_it.py", kept)
    assert code == rewrite._rewrite_test(folder / "test_it.py", request.config)[1]
    assert "@pytest_ar" in code.co_names
    names = {p.name for p in (folder / "__pycache__").iterdir()}
    assert names == {kept.name, f"plain.{sys.implementation.cache_tag}.pyc"}


def test_what_is_there_is_not_compiled_again(folder, request):
    compiled.ahead(request.config, [folder])
    kept = {p: p.stat().st_mtime_ns for p in (folder / "__pycache__").iterdir()}
    compiled.ahead(request.config, [folder])
    assert {p: p.stat().st_mtime_ns for p in (folder / "__pycache__").iterdir()} == kept
    (folder / "test_it.py").write_text(TEST.replace("2", "3"))
    compiled.ahead(request.config, [folder])
    changed = {p for p in kept if p.stat().st_mtime_ns != kept[p]}
    assert {p.name for p in changed} == {f"test_it{rewrite.PYC_TAIL}"}


def test_nothing_is_kept_where_python_is_to_keep_nothing(folder, request, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    compiled.ahead(request.config, [folder])
    assert not (folder / "__pycache__").exists()
