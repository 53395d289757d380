"""Every file is opened in one module: product code names files, and only `security/files.py` opens them."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest
from support.places import ROOT

PACKAGE = ROOT / "vsphere_ai"
GUARD = PACKAGE / "security" / "files.py"
METHODS = ("open", "read_text", "read_bytes", "write_text", "write_bytes", "touch")
"""Methods of a path that open a file."""
FUNCTIONS = {
    "builtins": {"open"},
    "io": {"open", "FileIO"},
    "os": {"open", "fdopen", "mkfifo", "mknod"},
    "codecs": {"open"},
    "gzip": {"open"},
    "shutil": {"copy", "copy2", "copyfile", "copytree", "move"},
    "tempfile": {"NamedTemporaryFile", "TemporaryFile", "mkstemp"},
}
OPENERS = {"from_private_key_file", "from_path", "load_cert_chain", "load_host_keys", "load_system_host_keys"}
"""Methods of libraries that open a file by its name."""
BY_KEYWORD = {"cafile", "capath", "certfile", "keyfile", "key_filename"}
"""Arguments with which a library opens a file by its name."""
READERS = {
    "json": {"load", "loads"},
    "yaml": {"load", "load_all", "safe_load", "safe_load_all", "full_load", "unsafe_load", "compose", "compose_all"},
    "ElementTree": {"fromstring", "parse", "iterparse", "XML"},
    "minidom": {"parse", "parseString"},
}
"""Readers of a text that a small text can make large, or deep."""


def sent_to_nodes(path: Path) -> bool:
    """Whether a module runs on the machines of a job: its folder hands out the text of its own modules."""
    package = path.parent / "__init__.py"
    return path.name != "__init__.py" and package.exists() and "files(__package__)" in package.read_text("utf-8")


def modules() -> list[Path]:
    """The modules of the tool: without the lab, which is another machine, and what runs on the machines of a job."""
    found = (p for p in sorted(PACKAGE.rglob("*.py")) if not {"lab", "examples"} & {*p.relative_to(PACKAGE).parts[:-1]})
    return [p for p in found if not sent_to_nodes(p)]


class Scope:
    """The names of a module: what is imported under each."""

    def __init__(self, tree: ast.Module) -> None:
        self.names: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self.names |= {a.asname or a.name.partition(".")[0]: a.name for a in node.names}
            elif isinstance(node, ast.ImportFrom):
                self.names |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}

    def full(self, function: ast.expr) -> str:
        """The full name of a function that is called; empty for a method of a value."""
        if isinstance(function, ast.Name):
            return self.names.get(function.id, f"builtins.{function.id}")
        if isinstance(function, ast.Attribute):
            above = self.full(function.value) if isinstance(function.value, ast.Name | ast.Attribute) else ""
            return f"{above}.{function.attr}" if above and not above.startswith("builtins.") else ""
        return ""


def is_resource(value: ast.expr, scope: Scope) -> bool:
    """Whether a value is a file of the package: `resources.files(...)` is in its expression."""
    calls = (node for node in ast.walk(value) if isinstance(node, ast.Call))
    return any(scope.full(call.func) in ("importlib.resources.files", "resources.files") for call in calls)


def takes(method: str, call: ast.Call) -> bool:
    """Whether a path's method would take the arguments of a call: `opener.open(request, timeout=10)` opens no file."""
    try:
        inspect.signature(getattr(Path, method)).bind(
            None, *([None] * len(call.args)), **{k.arg or "more": None for k in call.keywords}
        )
    except TypeError:
        return False
    return True


def openings(tree: ast.Module) -> list[str]:
    """The calls of a module that open a file."""
    scope, found = Scope(tree), []
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        full = scope.full(call.func)
        module, _, name = full.rpartition(".")
        if name in FUNCTIONS.get(module, ()):
            found.append(f"line {call.lineno}: {full}")
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        own = full.startswith("vsphere_ai.")
        if method in METHODS and not own and takes(method, call) and not is_resource(call.func, scope):
            found.append(f"line {call.lineno}: .{method}()")
        if (method or name) in OPENERS or {k.arg for k in call.keywords} & BY_KEYWORD:
            found.append(f"line {call.lineno}: {method or name}")
    return found


def readings(tree: ast.Module) -> list[str]:
    """The calls of a module that read a text with a reader that has no limits."""
    scope, found = Scope(tree), []
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        module, _, name = scope.full(call.func).rpartition(".")
        if name in READERS.get(module.rpartition(".")[2], ()) and not any(is_resource(a, scope) for a in call.args):
            found.append(f"line {call.lineno}: {module}.{name}")
    return found


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


def test_only_one_module_opens_files():
    wrong = {str(p.relative_to(ROOT)): found for p in modules() if p != GUARD and (found := openings(tree_of(p)))}
    assert not wrong, "open files with vsphere_ai.security.files"


def test_the_guard_is_seen_to_open_files():
    assert len(openings(tree_of(GUARD))) >= 6, "else the test above sees nothing"


@pytest.mark.parametrize(
    "text",
    [
        "open('x')",
        "from pathlib import Path\nPath('x').open()",
        "path.open('rb')",
        "path.read_text(encoding='utf-8')",
        "(folder / 'x').write_text('')",
        "self.path.read_bytes()",
        "import os\nos.open('x', os.O_RDONLY)",
        "from os import open\nopen('x', 0)",
        "import os as o\no.fdopen(3)",
        "import ssl\nssl.create_default_context(cafile='x')",
        "paramiko.PKey.from_path('x')",
        "from tempfile import NamedTemporaryFile\nNamedTemporaryFile()",
    ],
)
def test_each_way_to_open_a_file_is_seen(text):
    assert openings(ast.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "from importlib import resources\n(resources.files('a') / 'b').read_text('utf-8')",
        "from importlib.resources import files\nfiles('a').joinpath('b').read_text('utf-8')",
        "opener.open(request, timeout=3)",
        "from vsphere_ai.connect import address_ledger\naddress_ledger.read_text(vcenter)",
        "from vsphere_ai.security.files import read_text\nread_text(path, 10)",
    ],
)
def test_what_opens_no_file_by_a_name_is_not(text):
    assert not openings(ast.parse(text))


def test_only_one_module_reads_json_yaml_and_xml_without_limits():
    """`language/yaml_files/yaml.py` takes events, which is no reader of values."""
    bounded = PACKAGE / "model" / "bounded.py"
    wrong = {str(p.relative_to(ROOT)): found for p in modules() if p != bounded and (found := readings(tree_of(p)))}
    assert not wrong, "read texts with vsphere_ai.model.bounded"
    assert len(readings(tree_of(bounded))) >= 2, "else this test sees nothing"
