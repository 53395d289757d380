"""Pages of `docs/how-to`: each has the same three parts, and texts for users name things as manuals do."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import click
import pytest

from vsphere_ai.cli.main import command

ROOT = Path(__file__).parents[2]
HOW_TO = sorted((ROOT / "docs" / "how-to").glob("*.md"))
PARTS = ["Before you begin", "Procedure", "Result"]
CODE = re.compile(r"^```.*?^```$|`[^`]*`|\]\([^)]*\)|<!--.*?-->", re.MULTILINE | re.DOTALL)
OURS = re.compile(r"(?<![./\w-])(?<!GPU )(estates?|farms?)(?![./_:\w-])", re.IGNORECASE)
"""Words of this project for what manuals call an environment; "GPU farm" is what the product makes of one."""
FOR_DEVELOPERS = {"architecture.md", "writing-a-kind.md", "python-api.md", "recorded-tests.md"}
"""Pages that speak of the code, in which `Estate` is a type."""


@pytest.mark.parametrize("page", HOW_TO, ids=lambda page: page.stem)
def test_a_how_to_has_its_three_parts(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == PARTS


def test_the_index_lists_each_how_to_as_one():
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    part = index.split("## How-to guides\n")[1].split("\n## ")[0]
    assert set(re.findall(r"\]\((how-to/[^)]+)\)", part)) == {f"how-to/{page.name}" for page in HOW_TO}


def helps(group: click.Command, name: str = "vsphere-ai") -> dict[str, str]:
    """The help of every command, and of its options."""
    options = [getattr(option, "help", "") or "" for option in group.params]
    found = {name: "\n".join([group.help or "", *options])}
    for word, sub in getattr(group, "commands", {}).items():
        found |= helps(sub, f"{name} {word}")
    return found


def messages(path: Path) -> str:
    """Text of a module that can be shown: its constants with a blank in them, without docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return "\n".join(node.value for node in constants if " " in node.value and id(node) not in docs)


def test_texts_for_users_say_environment():
    pages = [ROOT / "README.md", *(page for page in (ROOT / "docs").glob("*.md") if page.name not in FOR_DEVELOPERS)]
    pages += [*HOW_TO, *(ROOT / "docs" / "kinds").glob("*.md")]
    texts = {str(page.relative_to(ROOT)): page.read_text("utf-8") for page in pages} | helps(command)
    texts |= {str(path.relative_to(ROOT)): messages(path) for path in (ROOT / "vsphere_ai").rglob("*.py")}
    wrong = [
        f"{name}: {match[0]!r}, rather: environment | {line.strip()[:120]}"
        for name, text in texts.items()
        for line in CODE.sub(" ", text).splitlines()
        for match in OURS.finditer(line)
    ]
    assert not wrong, "\n".join(wrong)
