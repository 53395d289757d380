"""Measures of the whole product against ceilings: a number may fall, and then its ceiling falls with it."""

from __future__ import annotations

import ast
from functools import cache

import pytest
from test_architecture import modules, tree

CEILINGS = {
    "Any in signatures of functions": 78,
    "bare Any at the doors of modules": 20,
    "getattr with a default": 13,
}


@cache
def product() -> tuple[str, ...]:
    """The modules that are shipped for use, without the simulated farm."""
    return tuple(name for name in modules() if name != "lab" and not name.startswith("lab."))


def annotations(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr]:
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return [a.annotation for a in every if a and a.annotation] + [function.returns] * bool(function.returns)


def anys(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How often a signature says Any, alone or inside of another type."""
    said = (node for each in annotations(function) for node in ast.walk(each))
    return sum(isinstance(node, ast.Name) and node.id == "Any" for node in said)


def bare(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many parameters, or the result, are Any and nothing else."""
    return sum(isinstance(each, ast.Name) and each.id == "Any" for each in annotations(function))


def functions(name: str, *, public: bool = False) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions of a module; those at its door are the public ones of the module and of its public classes."""
    own = (ast.FunctionDef, ast.AsyncFunctionDef)
    if not public:
        return [node for node in ast.walk(tree(modules()[name])) if isinstance(node, own)]
    body = tree(modules()[name]).body
    classes = [n for n in body if isinstance(n, ast.ClassDef) and not n.name.startswith("_")]
    return [n for n in (*body, *(m for c in classes for m in c.body)) if isinstance(n, own) and n.name[0] != "_"]


def defaults(name: str) -> int:
    """How often a module asks for an attribute that may not be there."""
    calls = (node for node in ast.walk(tree(modules()[name])) if isinstance(node, ast.Call))
    return sum(isinstance(c.func, ast.Name) and c.func.id == "getattr" and len(c.args) == 3 for c in calls)


@cache
def measures() -> dict[str, float]:
    return {
        "Any in signatures of functions": sum(anys(f) for name in product() for f in functions(name)),
        "bare Any at the doors of modules": sum(bare(f) for n in product() for f in functions(n, public=True)),
        "getattr with a default": sum(map(defaults, product())),
    }


@pytest.mark.parametrize("name", CEILINGS)
def test_no_measure_rises(name):
    assert measures()[name] <= CEILINGS[name]
