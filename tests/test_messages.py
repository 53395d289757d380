"""Each message of the product says what is wrong, with the value it is about, and what to do.

The sources are read, not run: every place that makes an error, a problem of a plan or a fault of a file is looked at.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "vsphere_ai"
APART = {"lab", "docs", "on_node"}
"""The simulated farm answers as vCenter does; pages are no code; programs on nodes print into logs that are judged."""

# where the message and the remedy stand among the arguments
PLACES = {
    "problem": (2, 3), "Diagnostic": (1, 2), "refuse": (1, 2), "refuse_key": (1, 2),
    "_fault": (0, 1), "_stop": (0, 1), "BadParameter": (0, 9), "ClickException": (0, 9),
}  # fmt: skip
NAMES = {"message": "message", "remedy": "remedy", "help": "remedy", "help_": "remedy"}

# what a file of an operator holds is judged there: the text of a ValueError is the message, and after a line break the
# remedy. Elsewhere a ValueError is caught, and becomes part of a message
OF_FILES = (
    "resources", "language", "addresses/pool.py", "model/names/networks.py", "training/job.py",
    "training/quantities.py", "health/profile.py",
)  # fmt: skip
NOT_OF_FILES = {"resources/_helpers", "resources/nics/__init__.py"}

# where nothing was given, or what is there is shown beside: there is no value to repeat
ABSENT = re.compile(r"(no|neither|nothing|there is no(thing)?|the layout is empty|this is no|another run) ?.*")
STATES = {
    "the leases are changed only under the lock in vCenter",
    "leases are only written under the lock in vCenter",
    "the lock in vCenter was lost, so the leases are not changed",
    "the ledger does not say how many VMs there are",
    "the inventory does not say how to reach guests over SSH",
    "the inventory does not say how to reach hosts over SSH",
    "the benchmark was stopped",
    "vCenter no longer knows the task",
    "the shape of the model is incomplete",
    "the SSH agent has no keys, or none runs (SSH_AUTH_SOCK)",
    "the password program has no name",
    "the key ring library is not installed",
    "this is not a reference to a password",
}
"""What is the case of the whole run, or must not be repeated because it may be a password."""
SHOWN_BESIDE = {"problem", "Diagnostic", "refuse", "refuse_key", "_fault", "_stop", "ValueError"}
"""A problem is printed with its target, the fault of a file with its line."""


@dataclass(frozen=True)
class Site:
    """A place in the sources that makes a message."""

    file: str
    line: int
    name: str
    message: ast.expr | None
    remedy: ast.expr | None

    @property
    def remedied(self) -> bool:
        given = self.remedy
        return given is not None and not (isinstance(given, ast.Constant) and not given.value)

    @property
    def names_a_value(self) -> bool:
        """A text that is put together, that names an option or a key, or that is printed beside the value."""
        if not isinstance(self.message, ast.Constant) or self.name in SHOWN_BESIDE:
            return True
        text = str(self.message.value)
        return "--" in text or "'" in text or ":" in text or bool(ABSENT.fullmatch(text)) or text in STATES

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.name}({ast.unparse(self.message) if self.message else ''})"


def _trees() -> dict[str, ast.Module]:
    files = (path for path in ROOT.rglob("*.py") if not APART & set(path.relative_to(ROOT).parts))
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in sorted(files)}


def _errors(trees: dict[str, ast.Module]) -> dict[str, bool]:
    """Return every error an operator may see, and whether its class has a remedy for those without one."""
    found = {"VsphereAiError": False}
    classes = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    for _ in range(6):  # deeper than the errors are derived
        for node in classes:
            bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
            if any(base in found for base in bases):
                own = any(keyword.arg == "remedy" for keyword in node.keywords)
                found[node.name] = own or any(found.get(base, False) for base in bases)
    return found


def _name(call: ast.Call) -> str:
    called = call.func
    return called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""


def _argument(call: ast.Call, position: int, what: str) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg is None or NAMES.get(keyword.arg) == what:
            return keyword.value
    starred = next((a for a in call.args if isinstance(a, ast.Starred)), None)
    return starred or (call.args[position] if position < len(call.args) else None)


def _of_file(file: str) -> bool:
    return file.startswith(OF_FILES) and not any(file.startswith(other) for other in NOT_OF_FILES)


def sites(trees: dict[str, ast.Module]) -> Iterator[Site]:
    """Yield every place that makes a message."""
    errors = _errors(trees)
    for file, tree in trees.items():
        for call in ast.walk(tree):
            if not isinstance(call, ast.Call):
                continue
            name = _name(call)
            if (
                name == "InputError"
                or (name == "Broken" and file == "language/yaml_files/yaml.py")
                or (name in errors and not call.args)
            ):
                continue  # it holds diagnostics, each of which is a site
            if name in errors or name == "UsageError":
                message, remedy = _argument(call, 0, "message"), _argument(call, 1, "remedy")
                yield Site(
                    file, call.lineno, name, message, remedy or (ast.Name("usual") if errors.get(name) else None)
                )
            elif name == "refuse" and file.startswith("execution/"):
                continue  # refuses a comparison, not a text
            elif name in PLACES and len(call.args) > PLACES[name][0]:
                first, second = PLACES[name]
                yield Site(
                    file, call.lineno, name, _argument(call, first, "message"), _argument(call, second, "remedy")
                )
            elif name == "ValueError" and call.args and _of_file(file):
                text = call.args[0]
                both = not isinstance(text, ast.Constant | ast.JoinedStr) or r"\n" in ast.unparse(text)
                yield Site(file, call.lineno, name, text, text if both else None)


@cache
def found_sites() -> tuple[Site, ...]:
    """Every place of the product; looked for by the first test that asks, and not while tests are collected."""
    return tuple(sites(_trees()))


def test_the_places_of_messages_are_found() -> None:
    """Were a factory of messages renamed, this test would see nothing and agree with everything."""
    made = {site.name for site in found_sites()}
    assert {"UsageError", "Denied", "Refused", "problem", "Diagnostic", "refuse", "ValueError"} <= made
    assert len(found_sites()) > 600, len(found_sites())


def test_every_message_says_what_to_do() -> None:
    without = [str(site) for site in found_sites() if not site.remedied]
    assert not without, "messages without a remedy:\n" + "\n".join(without)


def test_every_message_names_what_it_is_about() -> None:
    without = [str(site) for site in found_sites() if not site.names_a_value]
    assert not without, "messages that name neither a value nor an option:\n" + "\n".join(without)


def test_no_message_is_a_question() -> None:
    asked = [
        str(s) for s in found_sites() if isinstance(s.message, ast.Constant) and str(s.message.value).endswith("?")
    ]
    assert not asked, "\n".join(asked)


@pytest.mark.parametrize(
    ("source", "remedied", "valued"),
    [
        ("UsageError('a wrong VM')", False, False),
        ("UsageError('a wrong VM', '')", False, False),
        ("Denied(f'{host} refuses the login', 'correct the password')", True, True),
        ("Diagnostic(mark, f'{key} is unknown')", False, True),
        ("UsageError('--a and --b exclude each other', 'give one of them')", True, True),
        ("Denied(*both)", True, True),
    ],
)
def test_the_judge_itself(source: str, remedied: bool, valued: bool) -> None:
    trees = {
        "errors.py": ast.parse("class UsageError(VsphereAiError): ...\nclass Denied(VsphereAiError): ...\n" + source)
    }
    (site,) = sites(trees)
    assert (site.remedied, site.names_a_value) == (remedied, valued)
