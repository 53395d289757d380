"""Rules of the house that no single file shows: who imports whom, sizes, a test and a page for every kind."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest
from pydantic import ValidationError
from support.gates import LONG
from support.required import required_module

from tools.docgen import architecture
from vsphere_ai.compat import gate
from vsphere_ai.model.bounded import yaml_value
from vsphere_ai.resources import kinds
from vsphere_ai.resources.base import Resource

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "vsphere_ai"

# the rooms by floor, the lowest first: a room imports only rooms of lower floors; docs/architecture.md is their list.
# A room that lies in another one is named with it; what lies in none of its rooms is the outer one's
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "vsphere_ai"),
    ("model", "security"),
    ("documents",),
    ("addresses", "guests", "gpu", "fabric", "connect"),
    ("capacity", "runs", "resources"),
    ("health", "training"),
    ("benchmarks",),
    ("compat", "language"),
    ("admission",),
    ("planning", "reading", "kubernetes", "lab"),
    ("execution", "sets"),
    ("report", "app.events"),
    ("app.estate",),
    ("app.runs",),
    ("app.vms", "app.project", "app.gpus"),
    ("fleet",),
    ("app.watching", "app.training.node_program"),
    ("app.training.nodes",),
    ("app.training.launch", "app.training.health"),
    ("app.training.benchmarks",),
    ("app.training.acceptance",),
    ("app",),
    ("web",),
    ("cli",),
    ("__main__",),
)
# folders of app that hold rooms and nothing else
DIVIDED = {"app.training"}
AT_THE_ROOT = {"__init__.py", "__main__.py", "errors.py"}
# rooms that talk to servers, to the disk or to the operator; every other one is pure
ROOMS_WITH_IO = ("connect", "security", "runs", "reading", "execution", "app", "fleet", "lab", "web", "cli", "__main__")
# folders of tests that are no rooms: whole runs on the lab, other people's clients, what several tests use
SUITES = {
    "browser",
    "docs",
    "e2e",
    "honesty",
    "integrations",
    "recorded",
    "reliability",
    "support",
    "tasks",
    "thirdparty",
    "tools",
    "vcsim",
}
IO_MODULES = ("socket", "ssl", "paramiko", "pyVmomi", "pyVim", "subprocess", "http.client", "urllib.request", "asyncio")
HEAVY = (
    "pyVmomi",
    "paramiko",
    "pydantic",
    "rich",
    "cryptography",
    "yaml",
    "sqlite3",
    "highspy",
    "numpy",
    "distributed",
)
MAX_FILE, MAX_FUNCTION, MAX_PARAMETERS = 400, 60, 5
MODULES_OF_A_FOLDER, LINES_OF_A_FOLDER = 25, 3_500
MAX_KIND, MAX_CONTRACT, MAX_METHODS = 250, 130, 9
# parameters of a method of the vSphere API are VMware's choice: every one is handed over by name
API_METHODS = "lab.managed"
# what the lab has in common with the tool: errors and the reader of YAML, which know nothing of vSphere
LAB_MAY_USE = ("errors", "language.yaml_files.document", "language.yaml_files.yaml")


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its name below ``vsphere_ai``; the package itself keeps its name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name or "vsphere_ai"] = path
    return found


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


@cache
def imports(name: str) -> tuple[tuple[str, int], ...]:
    """What a module imports anywhere in it, also inside of functions, as (full name, line)."""
    found = []
    for node in ast.walk(tree(modules()[name])):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}:{node.lineno}: a relative import"
            found += [(f"{node.module}.{alias.name}", node.lineno) for alias in node.names]
    return tuple(found)


@cache
def own_imports(name: str) -> tuple[tuple[str, int], ...]:
    """The modules of this package that a module imports, as (short name, line)."""
    found = []
    for full, line in imports(name):
        parts = full.split(".")
        if parts[0] != "vsphere_ai":
            continue
        inner = ".".join(parts[1:])
        while inner and inner not in modules():
            inner = inner.rpartition(".")[0]  # a name in a module
        found.append((inner or "vsphere_ai", line))
    return tuple(found)


def within(name: str, room: str) -> bool:
    return name == room or name.startswith(f"{room}.")


FLOORS = {each: floor for floor, named in enumerate(LAYERS) for each in named}


@cache
def room(name: str) -> str:
    """The innermost room a module is in."""
    found = [each for each in FLOORS if within(name, each)]
    assert found, f"{name} is in no room: add its folder to LAYERS"
    return max(found, key=len)


def layer(name: str) -> int:
    """The floor of the room a module is in."""
    return FLOORS[room(name)]


def door(name: str) -> str:
    """The folder of the package that a module is in."""
    return name.partition(".")[0]


def scopes(name: str):
    """Every function of a module."""
    kinds_of_function = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in ast.walk(tree(modules()[name])) if isinstance(node, kinds_of_function)]


# -- who imports whom


def test_three_files_lie_at_the_root():
    assert {path.name for path in PACKAGE.glob("*.py")} == AT_THE_ROOT


def test_every_room_has_a_floor_and_every_floor_has_its_rooms():
    assert sorted(each for named in LAYERS for each in named) == sorted({room(name) for name in modules()})
    folders = {n for n, path in modules().items() if path.name == "__init__.py"}
    inner = {n for n in folders if n.rpartition(".")[0] in {"app", *DIVIDED}} - DIVIDED
    assert not [n for n in inner if room(n) != n], "a folder of app is a room: name it in LAYERS"


def test_imports_go_down():
    wrong = [
        f"{name}, line {line}: {other}"
        for name in modules()
        for other, line in own_imports(name)
        if room(other) != room(name) and layer(other) >= layer(name)
    ]
    assert not wrong, "imported from its own floor or a higher one"


def folder(name: str) -> str:
    """The folder that a module lies in; a package lies in its own."""
    return name if modules()[name].name == "__init__.py" else name.rpartition(".")[0]


def test_no_folder_is_a_warehouse():
    inside: dict[str, list[Path]] = {}
    for name, path in modules().items():
        inside.setdefault(folder(name), []).append(path)
    lines = {each: sum(len(path.read_text("utf-8").splitlines()) for path in paths) for each, paths in inside.items()}
    too_many = [f"{each}: {len(paths)} modules" for each, paths in inside.items() if len(paths) > MODULES_OF_A_FOLDER]
    assert not too_many + [f"{each}: {count} lines" for each, count in lines.items() if count > LINES_OF_A_FOLDER]


def test_folders_of_a_room_import_each_other_in_one_direction():
    """What lies loose in a room may hold its folders together, so it is no part of this."""
    arrows: dict[str, set[str]] = {}
    for name in modules():
        for other, _ in own_imports(name):
            one, two = folder(name), folder(other)
            if door(one) == door(two) and door(one) not in (one, two) and not within(one, two) and not within(two, one):
                arrows.setdefault(one, set()).add(two)
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of folders: {' -> '.join(error.args[1])}")


# the type, its JSON form, and what readers of JUnit and SARIF take
FINDING_AND_ITS_FORMS = {"model.finding", "documents.findings", "report.pages.values"}
OF_FINDINGS = {"pass", "fail", "warn", "warning", "error", "ok", "broken"}


def scales(code: ast.Module) -> set[str]:
    """The names by which a module knows scales of verdicts: that of findings, and those that it declares itself."""
    names = {
        each.asname or each.name
        for node in ast.walk(code)
        if isinstance(node, ast.ImportFrom) and node.module == "vsphere_ai.model.finding"
        for each in node.names
        if each.name == "Verdict"
    }
    for node in code.body:
        if isinstance(node, ast.Assign) and getattr(getattr(node.value, "value", None), "id", "") == "Literal":
            words = {each.value for each in ast.walk(node.value) if isinstance(each, ast.Constant)}
            names |= {target.id for target in node.targets if isinstance(target, ast.Name) and words & OF_FINDINGS}
    return names


def second_findings(code: ast.Module) -> list[str]:
    """The classes with a verdict or a severity on a scale of findings, and a message."""
    known = scales(code)
    found = []
    for each in (node for node in ast.walk(code) if isinstance(node, ast.ClassDef)):
        fields = {
            f.target.id: f.annotation for f in each.body if isinstance(f, ast.AnnAssign) and hasattr(f.target, "id")
        }
        named = {k: {n.id for n in ast.walk(v) if isinstance(n, ast.Name)} for k, v in fields.items()}
        judges = "severity" in fields or any(named.get(name, set()) & known for name in ("verdict", "status"))
        found += [each.name] if judges and "message" in fields else []
    return found


def test_there_is_one_type_of_finding():
    wrong = {
        name: classes
        for name in modules()
        if name not in FINDING_AND_ITS_FORMS
        if (classes := second_findings(tree(modules()[name])))
    }
    assert not wrong, "hold a Finding of model/finding.py, or a tuple of them"


@pytest.mark.parametrize(
    ("code", "classes"),
    [
        ("class Fault:\n    severity: str\n    message: str", ["Fault"]),
        ("Verdict = Literal['ok', 'broken']\nclass Link:\n    verdict: Verdict\n    message: str", ["Link"]),
        ("from vsphere_ai.model.finding import Verdict\nclass A:\n    verdict: Verdict\n    message: str", ["A"]),
        ("Judged = Literal['pass', 'fail']\nclass Xid:\n    status: Judged\n    message: str", ["Xid"]),
        ("from vsphere_ai.model.finding import Verdict\nclass Limit:\n    verdict: Verdict\n    most: float", []),
        ("Verdict = Literal['no', 'unknown']\nclass Reason:\n    verdict: Verdict\n    message: str", []),
    ],
)
def test_a_second_type_of_finding_is_seen(code, classes):
    assert second_findings(ast.parse(code)) == classes


def test_the_page_is_the_list_of_the_rooms():
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    assert page == architecture.with_table(page, architecture.arrows()), "make docs"
    assert (ROOT / "docs" / "architecture.svg").read_text("utf-8") == architecture.picture(architecture.arrows())


def test_tests_lie_where_the_code_lies():
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and not path.name.startswith("__")}
    assert folders - SUITES <= {door(name) for name in modules()}
    assert folders >= SUITES


def test_no_module_imports_itself_in_a_circle():
    sorter = TopologicalSorter({name: {other for other, _ in own_imports(name) if other != name} for name in modules()})
    try:
        sorter.prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' -> '.join(error.args[1])}")


def test_pure_rooms_have_no_input_and_output():
    wrong = []
    for name in (n for n in modules() if not any(within(n, r) for r in ROOMS_WITH_IO)):
        io = [o for o in imports(name) if o[0] == "time.sleep" or any(within(o[0], each) for each in IO_MODULES)]
        wrong += [f"{name}, line {line}: {full}" for full, line in io]
        for node in ast.walk(tree(modules()[name])):
            if isinstance(node, ast.Attribute) and node.attr == "sleep" and getattr(node.value, "id", "") == "time":
                wrong.append(f"{name}, line {node.lineno}: time.sleep")
    assert not wrong


CONTRACT = {"resources"} | {
    f"resources.{name}"
    for name in ("base", "host_settings", "makes_vms", "mixins", "corrections", "playbook_files", "remedies", "topics")
}


def home(name: str) -> str:
    """The module or folder of `resources` that a module is or lies in."""
    return ".".join(name.split(".")[:2])


def names_of_kinds(code: ast.AST) -> list[str]:
    """Where code outside of `resources` makes the name of a kind itself, or compares one with a text.

    Whatever takes a kind takes a `KindName`, and no text is one (`make types`): a word that is spelt like a kind, such
    as ``pvrdma`` for a type of adapter, is none. So names are written where one is made of a text that stands there,
    or compared with one, which types do not tell.
    """
    named = []
    for node in ast.walk(code):
        texts: list[ast.expr] = []
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("KindName", "kind_names"):
            texts = node.args
        elif isinstance(node, ast.Compare) and getattr(node.left, "attr", "") == "kind":
            texts = node.comparators
        constants = (part for text in texts for part in ast.walk(text) if isinstance(part, ast.Constant))
        named += [f"line {part.lineno}: {part.value}" for part in constants if part.value in kinds()]
    return named


def test_no_other_room_names_a_kind():
    wrong = []
    for name in (n for n in modules() if not within(n, "resources") and not within(n, "lab")):
        wrong += [f"{name} imports {o}" for o, _ in own_imports(name) if within(o, "resources") and o not in CONTRACT]
        wrong += [f"{name}, {each}" for each in names_of_kinds(tree(modules()[name]))]
    assert not wrong


@pytest.mark.parametrize(
    "code",
    [
        'view.state(ref, KindName("mig"))',
        'Step(target, kinds=kind_names("mig", "vgpu"))',
        'state.kind == "mig"',
        'state.kind in ("pvrdma", "adapters")',
    ],
)
def test_a_name_of_a_kind_is_found_where_one_is_made(code):
    assert names_of_kinds(ast.parse(code))


def test_a_text_is_no_name_of_a_kind(tmp_path):
    """The type checker refuses a text where the name of a kind is taken, so that the test above finds all of them."""
    required_module("mypy", "dev")
    file = tmp_path / "named.py"
    file.write_text(
        "from vsphere_ai.model.state import Target\n"
        "from vsphere_ai.model.steps import Invoke\n"
        "from vsphere_ai.model.view import View\n"
        "def use(view: View, ref: str, host: Target) -> object:\n"
        '    return view.state(ref, "mig"), Invoke(target=host, kinds=("switches",))\n'
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", str(file)]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LONG, check=False)
    assert checked.returncode == 1
    assert 'expected "KindName"' in checked.stdout
    assert 'expected "tuple[KindName, ...]"' in checked.stdout


class Key(NamedTuple):
    """A key of a play: a field of a kind, or a kind that stands for its shorthand's field."""

    kind: type[Resource]
    field: str

    def takes(self, value: object) -> bool:
        try:
            self.kind.model_validate({self.field: value})
        except ValidationError:
            return False
        return True


@cache
def keys_of_words() -> dict[str, list[Key]]:
    """The keys of plays that take a number or one of some words, by name; none that takes any text."""
    keys: dict[str, list[Key]] = {}
    for cls in kinds().values():
        named = {**{field: field for field in cls.model_fields}, **({cls.kind: cls.shorthand} if cls.shorthand else {})}
        for name, field in named.items():
            if not Key(cls, field).takes("nosuchword"):
                keys.setdefault(name, []).append(Key(cls, field))
    return keys


def plays_in(code: ast.AST) -> list[str]:
    """Where text in code, other than a docstring, is a line of a play: a kind or a field of one, with its value.

    The value of a kind is in brackets. Of other keys a kind has to take the word or the number behind it, so that
    ``version: v1`` is none.
    """
    play = re.compile(rf"(?<![\w-])({'|'.join(kinds())}): ?[{{\[]")
    line = re.compile(rf"(?<![\w-])({'|'.join(keys_of_words())}): (true|false|[a-z][a-z_0-9-]*|[0-9]+)(?![\w:./])")
    docs = {id(node.value) for node in ast.walk(code) if isinstance(node, ast.Expr)}
    written = []
    for node in ast.walk(code):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            lines = ((keys_of_words()[m[1]], yaml_value(m[2])) for m in line.finditer(node.value))
            if play.search(node.value) or any(key.takes(value) for keys, value in lines for key in keys):
                written.append(f"line {node.lineno}: {node.value}")
    return written


def test_only_kinds_write_plays():
    """Others describe a correction, and `resources.corrections` has the kind that brings it about write it."""
    rooms = (n for n in modules() if not within(n, "resources") and not within(n, "lab"))
    assert not [f"{name}, {each}" for name in rooms for each in plays_in(tree(modules()[name]))]


@pytest.mark.parametrize(
    "code",
    [
        '"add hardware: {firmware: efi}"',
        'f"nics: {{{nic}: {{pause: off}}}}"',
        '"vgpu: [a]"',
        '"write uvm: false"',
        '"gpudirect: true, and power the VM off and on"',
        '"with mode: enabled vSphere makes them"',
    ],
)
def test_a_play_in_a_text_is_found(code):
    assert plays_in(ast.parse(f"help = {code}"))


@pytest.mark.parametrize("text", ["version: v1", "mig-enabled: true", "the host: its GPUs", "mode: the MIG mode"])
def test_what_only_looks_like_a_play_is_none(text):
    assert not plays_in(ast.parse(f"help = {text!r}"))


def test_what_a_kind_keeps_in_its_folder_is_its_own():
    """Other kinds import the kind itself; what several kinds need is in `resources._helpers`."""
    for name in modules():
        inside = [o for o, _ in own_imports(name) if within(o, "resources") and o not in CONTRACT and o.count(".") > 1]
        wrong = [o for o in inside if home(o) != home(name) and "._" not in o]
        assert not wrong, f"{name} imports {wrong}"


def test_the_connection_knows_no_kind_and_no_plan():
    for name in modules():
        if within(name, "connect"):
            wrong = [o for o, _ in own_imports(name) if room(o) not in ("connect", "errors", "model", "security")]
            assert not wrong, f"{name} imports {wrong}"


def test_the_lab_shares_nothing_with_what_it_judges():
    """A simulator that shared the planner's arithmetic would agree with every mistake in it."""
    for name in modules():
        if within(name, "lab"):
            wrong = [o for o, _ in own_imports(name) if not within(o, "lab") and o not in LAB_MAY_USE]
            assert not wrong, f"{name} imports {wrong}"


def test_only_the_command_line_imports_click():
    users = {n for n in modules() if any(within(full, "click") for full, _ in imports(n))}
    assert {door(name) for name in users} == {"cli"}


# what the command line may import; masking of secrets and folders of the lab are its own affair
OF_THE_COMMAND_LINE = {"cli", "app", "fleet", "documents", "report", "model", "errors", "security", "vsphere_ai"}
BESIDES = {"cli.setup.lab": {"lab"}, "cli.look.serve": {"web"}}


def test_the_command_line_parses_and_prints():
    """What it does is a function of `app`; only types may come from elsewhere."""
    wrong = []
    for name in (n for n in modules() if within(n, "cli")):
        allowed = OF_THE_COMMAND_LINE | BESIDES.get(name, set())
        for_types = {
            line
            for node in ast.walk(tree(modules()[name]))
            if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
            for line in range(node.lineno, (node.end_lineno or 0) + 1)
        }
        found = [(o, line) for o, line in own_imports(name) if door(o) not in allowed and line not in for_types]
        wrong += [f"{name}, line {line}: {o}" for o, line in found]
    assert not wrong


def commands():
    """Every function that is a command, as (module, function)."""
    for name in modules():
        if within(name, "cli"):
            for function in scopes(name):
                named = {ast.unparse(d.func if isinstance(d, ast.Call) else d) for d in function.decorator_list}
                if any(each.endswith((".command", ".group")) for each in named):
                    yield name, function


def test_a_command_is_short():
    found = list(commands())
    assert len(found) > 30
    assert not [f"{n}.{f.name}" for n, f in found if (f.end_lineno or 0) - f.lineno + 1 > MAX_FUNCTION]


def test_only_its_command_imports_the_lab():
    users = {n for n in modules() if not within(n, "lab") and any(within(o, "lab") for o, _ in own_imports(n))}
    assert users == {"cli.setup.lab"}


# -- what is imported when


@pytest.mark.parametrize("arguments", [["--version"], ["--help"]])
def test_a_quick_command_imports_no_heavy_library(arguments):
    program = (
        "import sys; from vsphere_ai.cli.main import main; code = main(sys.argv[1:]); "
        f"print('HEAVY', *[m for m in {HEAVY!r} if m in sys.modules]); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "HEAVY"


# -- sizes and words


def built_at_import(code: ast.Module) -> list[str]:
    """The models that pydantic builds when their module is imported, used or not; a subclass is as its base is."""
    roots = [
        node
        for node in ast.walk(code)
        if isinstance(node, ast.ClassDef) and any(isinstance(b, ast.Name) and b.id == "BaseModel" for b in node.bases)
    ]
    return [f"line {node.lineno}: {node.name}" for node in roots if "defer_build=True" not in ast.unparse(node)]


def test_models_are_built_when_a_value_is_first_checked():
    found = {name: built_at_import(tree(path)) for name, path in modules().items()}
    assert {name: classes for name, classes in found.items() if classes} == {}, "write ConfigDict(defer_build=True)"


def test_a_model_that_is_built_at_import_is_seen():
    code = "class A(BaseModel):\n    x: int\nclass B(BaseModel):\n    model_config = ConfigDict(defer_build=True)\n"
    assert built_at_import(ast.parse(f"{code}class C(A):\n    pass\n")) == ["line 1: A"]


def test_a_file_is_one_thing_of_a_readable_size():
    wrong = []
    for path in modules().values():
        lines = len(path.read_text("utf-8").splitlines())
        first = (ast.get_docstring(tree(path)) or "").split("\n\n")[0]
        if lines > MAX_FILE:
            wrong.append(f"{path.relative_to(ROOT)} has {lines} lines")
        if not first.endswith((".", "!", "?")):
            wrong.append(f"{path.relative_to(ROOT)} does not say in a sentence what it is: {first!r}")
    assert not wrong


def test_functions_are_short_and_take_few_parameters():
    wrong = []
    for name in modules():
        for function in scopes(name):
            length = (function.end_lineno or 0) - function.lineno + 1
            own = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
            count = sum(a.arg not in ("self", "cls") for a in own)
            if length > MAX_FUNCTION:
                wrong.append(f"{name}.{function.name} has {length} lines")
            if count > MAX_PARAMETERS and (function.name.startswith("_") or not within(name, API_METHODS)):
                wrong.append(f"{name}.{function.name} takes {count} parameters")
    assert not wrong


# -- every kind is tested and explained


def test_a_file_of_a_kind_is_short():
    homes = {home(cls.__module__.removeprefix("vsphere_ai.")) for cls in kinds().values()}
    sizes = {n: len(p.read_text("utf-8").splitlines()) for n, p in modules().items() if home(n) in homes}
    assert not {name: lines for name, lines in sizes.items() if lines > MAX_KIND}


def test_the_contract_of_a_kind_is_small():
    """Methods a kind may override, and attributes; the factory of problems and pydantic's own are no part of it."""
    assert len((PACKAGE / "resources" / "base.py").read_text("utf-8").splitlines()) <= MAX_CONTRACT
    body = next(n for n in tree(PACKAGE / "resources" / "base.py").body if getattr(n, "name", "") == "Resource").body
    methods = {n.name for n in body if isinstance(n, ast.FunctionDef)} - {"problem"}
    attributes = {n.target.id for n in body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    assert len(methods | attributes) <= MAX_METHODS


def test_no_kind_has_a_method_that_nothing_calls():
    """What an operator should know of a change is `remarks`; `notes` is a key of `vm_set`."""
    assert not [name for name, cls in kinds().items() if callable(getattr(cls, "notes", None))]


def kind_modules() -> list[str]:
    return sorted({cls.__module__.rpartition(".")[2] for cls in kinds().values()})


def test_a_module_of_the_kinds_is_a_kind():
    """A module or folder whose name begins with _ is for helpers that several kinds share."""
    own = {home(n) for n in modules() if within(n, "resources")} - CONTRACT
    assert sorted(n.rpartition(".")[2] for n in own if "._" not in n) == kind_modules()


def test_a_kind_has_its_tests():
    paths = [ROOT / "tests" / "resources" / f"test_{module}.py" for module in kind_modules()]
    missing = [str(path.relative_to(ROOT)) for path in paths if not path.is_file()]
    assert not missing, "write them"
    for path in paths:
        body = tree(path).body
        assert any(isinstance(n, ast.FunctionDef) and n.name.startswith("test_") for n in ast.walk(tree(path))), path
        named = {t.id for n in body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)}
        assert "ALONE" in named, f"{path.relative_to(ROOT)}: declare ALONE, a playbook that changes something with it"


def test_a_kind_has_its_page_with_every_field():
    pages = {kind: ROOT / "docs" / "kinds" / f"{kind}.md" for kind in kinds()}
    missing = [str(page.relative_to(ROOT)) for page in pages.values() if not page.is_file()]
    assert not missing, "write them"
    for kind, page in pages.items():
        text = page.read_text("utf-8")
        missing += [f"{page.relative_to(ROOT)}: {f}" for f in kinds()[kind].model_fields if f"`{f}`" not in text]
    assert not missing, "fields that their page says nothing of"


def test_a_rule_is_explained():
    text = (ROOT / "docs" / "compatibility.md").read_text("utf-8")
    assert not [rule.id for rule in gate.rules() if f"\n### {rule.id}\n" not in text]


def test_what_a_kind_comes_after_exists():
    for kind, cls in kinds().items():
        unknown = set(cls.traits.after) - set(kinds())
        assert not unknown, f"{kind} comes after {unknown}"
