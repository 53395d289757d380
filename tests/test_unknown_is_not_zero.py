"""What was not read is not taken for nothing: a rule over all modules that read what programs and people write.

``value or 0`` and ``values.get(key, 0)`` make a number out of one that is not known; ``or ""`` in a text or a
comparison makes a name. A count that goes up (``counts[key] = counts.get(key, 0) + 1``) begins at nothing, and is none
of them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "vsphere_ai"
READERS = (
    "addresses", "benchmarks", "fabric", "gpu", "guests", "health", "kubernetes", "language", "report", "training"
)  # fmt: skip
"""Rooms that read GPUs, benchmarks, kernels, networks, guests and files of others, and that show what was read."""


def is_zero(node: ast.expr) -> bool:
    """Zero as a number, or as digits that a number is made of."""
    value = node.value if isinstance(node, ast.Constant) else None
    digits = isinstance(value, str) and value.isdigit() and int(value) == 0
    return digits or (isinstance(value, int | float) and not isinstance(value, bool) and value == 0)


def is_empty(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == ""


def stand_ins(node: ast.AST) -> Iterator[ast.expr]:
    """What stands for a value that is missing: the last of an ``or``, the second argument of ``get``."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        yield node.values[-1]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) == 2:
        yield from node.args[1:] if node.func.attr == "get" and not is_environment(node.func.value) else ()


def is_environment(node: ast.expr) -> bool:
    """The variables of a program's own process, of which an unset one is a setting, not an unknown."""
    return isinstance(node, ast.Attribute) and node.attr == "environ"


def is_tally(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """A count of a table that goes up."""
    above = parents[node]
    assignment = parents.get(above)
    if not isinstance(node, ast.Call) or not isinstance(above, ast.BinOp) or not isinstance(above.op, ast.Add):
        return False
    target = assignment.targets[0] if isinstance(assignment, ast.Assign) else None
    table = node.func.value if isinstance(node.func, ast.Attribute) else None
    return isinstance(target, ast.Subscript) and table is not None and ast.unparse(target.value) == ast.unparse(table)


def taken_for_nothing(source: str) -> list[int]:
    """The lines of a module at which a value that is missing becomes a number, or a name that is shown or judged."""
    tree = ast.parse(source)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    lines = []
    for node in ast.walk(tree):
        for value in stand_ins(node):
            shown = isinstance(parents[node], ast.FormattedValue | ast.Compare)
            if (is_zero(value) and not is_tally(node, parents)) or (is_empty(value) and shown):
                lines.append(node.lineno)
    return lines


def test_no_reader_takes_what_is_unknown_for_nothing():
    paths = [path for room in READERS for path in (PACKAGE / room).rglob("*.py")]
    assert len(paths) > 200
    wrong = [
        f"{path.relative_to(PACKAGE.parent)}:{line}"
        for path in sorted(paths)
        for line in taken_for_nothing(path.read_text("utf-8"))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "line",
    [
        "size = memory or 0",
        "share = value or 0.0",
        "number = int(text or '0')",
        "rank = entry.get('rank', 0)",
        "most = max(number, counts.get(key, 0))",
        "text = f'{name or \"\"} is slow'",
        "same = (name or '') == other",
        "same = words.get('name', '') != other",
        "counts[key] = others.get(key, 0) + 1",
    ],
)
def test_the_rule_sees(line):
    assert taken_for_nothing(line) == [1]


@pytest.mark.parametrize(
    "line",
    [
        "counts[key] = counts.get(key, 0) + 1",
        "size = None if memory is None else memory // 2",
        "name = found or other",
        "index = int(os.environ.get('LOCAL_RANK', '0'))",
        "name = match[2] or ''",
        "on = flag or False",
    ],
)
def test_the_rule_lets_pass(line):
    assert taken_for_nothing(line) == []
