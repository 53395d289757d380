"""A session is made once: its scope, its connection and what is desired are never set from outside."""

from __future__ import annotations

import ast
from contextlib import suppress
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from vsphere_ai.app.estate.connection import LASTS, PrivilegeMemory
from vsphere_ai.app.estate.scope import EstateRequest, EstateScope
from vsphere_ai.app.estate.session import session_of
from vsphere_ai.errors import UsageError
from vsphere_ai.language.inventories.inventory import load_inventory
from vsphere_ai.planning.privileges import PrivilegeNeed

ROOT = Path(__file__).parents[2]
TYPES = {"Session", "EstateScope", "EstateConnection"}
MAKERS = {"open_session", "session_of", "scope_of", "again", "reading_also", *TYPES}
PARTS = {"scope", "connection", "session", "_session", "_scope", "_connection"}
INVENTORY = """
vcenters: {vc: {address: vc.lab.local, username: reader, password: "env:NEVER_READ"}}
"""


def _called(node: ast.AST) -> str:
    function = node.func if isinstance(node, ast.Call) else None
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _sessions(tree: ast.AST) -> set[str]:
    """The names in a module that hold a session or a part of one: by annotation, or by what makes them.

    Where a module names one of the types, or what makes one, attributes that are called so are such, too. `connect` has
    sessions with a SOAP service, which are something else.
    """
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names = set(PARTS) if used & {*TYPES, *MAKERS} else set()
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation and {*ast.unparse(node.annotation).split(" | ")} & TYPES:
            names.add(node.arg)
        elif isinstance(node, ast.Assign) and _called(node.value) in MAKERS:
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.withitem) and _called(node.context_expr) in MAKERS:
            names |= {node.optional_vars.id} if isinstance(node.optional_vars, ast.Name) else set()
    return names


def _is_one(node: ast.AST, names: set[str]) -> bool:
    """Whether an expression is a session or a part of one, or the dictionary in which that keeps its attributes."""
    if isinstance(node, ast.Attribute):
        return node.attr in names & PARTS or (node.attr == "__dict__" and _is_one(node.value, names))
    return isinstance(node, ast.Name) and node.id in names


def _is_updated(node: ast.AST, names: set[str]) -> bool:
    """Whether a call changes the dictionary of a session, or sets an attribute by its name."""
    if _called(node) in {"setattr", "delattr", "__setattr__"}:
        return any(_is_one(given, names) for given in node.args)
    changes = _called(node) in {"update", "pop", "setdefault", "clear"} and isinstance(node.func, ast.Attribute)
    held = node.func.value if changes else None
    return isinstance(held, ast.Attribute) and held.attr == "__dict__" and _is_one(held.value, names)


def set_from_outside(source: str) -> list[str]:
    """The places that set, delete or overwrite an attribute of a session, as ``LINE: CODE``."""
    tree = ast.parse(source)
    names = _sessions(tree)
    places = []
    for node in ast.walk(tree):
        stored = isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load)
        if (stored and _is_one(node.value, names)) or _is_updated(node, names):
            places.append(f"{node.lineno}: {ast.unparse(node)}")
    return places


def test_no_attribute_is_set_from_outside():
    files = [*(ROOT / "vsphere_ai").rglob("*.py"), *(ROOT / "tests").rglob("*.py"), *(ROOT / "tools").rglob("*.py")]
    assert len(files) > 1000
    faults = [f"{f.relative_to(ROOT)}:{place}" for f in files for place in set_from_outside(f.read_text("utf-8"))]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    "code",
    [
        "def f(session: Session): session.locks = 1",
        "def f(scope: EstateScope | None): scope.limit += 'x'",
        "with open_session(request) as opened: opened.more_paths = {}",
        "other = session.again()\nother.__dict__.update(vcenter=1)",
        "connection = EstateConnection(scope)\ndel connection.vcenter",
        "class A:\n    def f(self, s: Session): self._session.lacking = 1",
        "def f(mine: Session): mine.connection.locks = 1",
        "def f(mine: Session): setattr(mine, 'locks', 1)",
        "def f(mine: Session): object.__setattr__(mine.scope, 'limit', '')",
        "def f(mine: Session): mine.__dict__['vcenter'] = 1",
    ],
)
def test_what_sets_one_is_found(code):
    assert len(set_from_outside(code)) == 1


def test_what_a_class_sets_of_itself_is_its_own():
    assert not set_from_outside("class A:\n    def f(self, session: Session): self._session = session")


@pytest.fixture
def session(tmp_path):
    (tmp_path / "inventory.yml").write_text(INVENTORY, "utf-8")
    return session_of(load_inventory(tmp_path / "inventory.yml"), None, EstateRequest(limit="esx01"))


def test_a_scope_does_not_change(session):
    with pytest.raises(FrozenInstanceError):
        vars(EstateScope)["__setattr__"](session.scope, "options", EstateRequest())
    with pytest.raises(AttributeError):
        vars(type(session))["scope"].__set__(session, session.scope)


def test_another_reading_goes_over_the_same_connection(session):
    paths = {"HostSystem": ("config.option",)}
    more = session.reading_also(paths)
    assert more.connection is session.connection
    assert (more.scope.more_paths, session.scope.more_paths) == (paths, {})
    again = more.again()
    assert again.connection is session.connection
    assert not again.scope.more_paths


def test_without_ssh_in_the_inventory_there_is_no_shell(session):
    assert session.connection.shells is None
    with pytest.raises(UsageError, match="over SSH"):
        session.connection.shell(None)


def test_locks_are_held_until_their_block_ends(session):
    locks = object()
    with suppress(KeyError), session.connection.holding(locks):
        assert session.connection.locks is locks
        raise KeyError
    assert session.connection.locks is None


def test_an_answer_about_privileges_holds_for_its_needs_and_its_time(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("vsphere_ai.app.estate.connection.time.monotonic", lambda: now[0])
    refs = "HostSystem:1", "HostSystem:2"
    one, other = (PrivilegeNeed("esx01", ref, "Host.Config.Power", "reboot") for ref in refs)
    memory = PrivilegeMemory()
    assert memory.lacking((one,)) is None
    memory.keep((one,), [])
    assert memory.lacking((one,)) == []
    assert memory.lacking((other,)) is None
    now[0] += LASTS
    assert memory.lacking((one,)) == []
    now[0] += 0.1
    assert memory.lacking((one,)) is None
