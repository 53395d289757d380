"""What test files declare of the thing that they test, such as a playbook or a table: read by tests of the whole."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

TESTS = Path(__file__).parents[1]


@cache
def loaded(path: Path) -> ModuleType:
    """Import a test file by its path: pytest gives such files no name that could be imported."""
    name = f"declared_by_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def of_rules(name: str) -> list[Any]:
    """Return what the files ``tests/compat/test_NAME_rule.py`` declare under a name, one after another."""
    files = sorted((TESTS / "compat").glob("test_*_rule.py"))
    return [getattr(loaded(path), name) for path in files if hasattr(loaded(path), name)]


@cache
def healthy(target: str) -> dict[str, Any]:
    """Return what rules read of a healthy host or VM, by property path, as their test files declare it."""
    return {path: value for each in of_rules("HEALTHY") for path, value in each.get(target, {}).items()}
