"""Links lead somewhere, the generated parts are up to date, and every rule id an operator may see is explained."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import click
import pytest

from tools.docgen import kinds as kinds_page
from vsphere_ai import errors
from vsphere_ai.cli.commands import commands
from vsphere_ai.cli.main import command
from vsphere_ai.compat import gate
from vsphere_ai.resources import kinds

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(
    (ROOT / "docs").rglob("*.md")
)
LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
RULE_CALLS = {"problem": 1, "ProbeFailure": 0, "memory_problems": 2, "firmware_problems": 2,
              "version_problems": 2}  # where the rule id stands among the arguments  # fmt: skip


@cache
def text_of(page: Path) -> str:
    return page.read_text("utf-8")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """GitHub's anchors of the headings: lower case, spaces to dashes, punctuation gone."""
    plain = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return {re.sub(r"[^\w\- ]", "", h.strip().lower()).replace(" ", "-") for h in HEADING.findall(plain)}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    for link in LINK.findall(page.read_text("utf-8")):
        if re.match(r"[a-z]+:", link):
            assert link.startswith("https://"), f"{link} is not https"
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link} leads nowhere"
        assert target.is_relative_to(ROOT)
        if anchor:
            assert anchor in anchors(target), f"{link}: there is no such heading"


def test_every_page_is_reached_from_the_index():
    reached, todo = set(), [ROOT / "docs" / "index.md"]
    while todo:
        page = todo.pop()
        if page.is_dir():  # a link to a folder is a link to its pages
            todo += page.glob("*.md")
        elif page not in reached and page.suffix == ".md":
            reached.add(page)
            links = (link.partition("#")[0] for link in LINK.findall(page.read_text("utf-8")))
            todo += [(page.parent / link).resolve() for link in links if link and not re.match(r"[a-z]+:", link)]
    assert {p for p in PAGES if ROOT / "docs" in p.parents} <= reached


@pytest.mark.parametrize("kind", sorted(kinds()))
def test_the_fields_of_a_kind_are_up_to_date(kind):
    written = (ROOT / "docs" / "kinds" / f"{kind}.md").read_text("utf-8")
    assert written == kinds_page.with_fields(written, kinds()[kind]), "run: make docs"


def test_the_fields_are_written_into_every_page(tmp_path):
    for kind in kinds():
        written = text_of(ROOT / "docs" / "kinds" / f"{kind}.md")
        begin, end = written.index(kinds_page.BEGIN), written.index(kinds_page.END)
        (tmp_path / f"{kind}.md").write_text(written[:begin] + kinds_page.BEGIN + "\nold\n" + written[end:], "utf-8")
    assert kinds_page.main([str(tmp_path)]) == 0
    for kind in kinds():
        page = (tmp_path / f"{kind}.md").read_text("utf-8")
        assert page == text_of(ROOT / "docs" / "kinds" / f"{kind}.md")


def test_the_list_of_kinds_is_up_to_date():
    written = text_of(ROOT / "docs" / "index.md")
    assert written == kinds_page.with_list(written), "run: make docs"


def test_the_list_of_kinds_is_written(tmp_path):
    written = text_of(ROOT / "docs" / "index.md")
    begin, end = written.index(kinds_page.LIST_BEGIN), written.index(kinds_page.LIST_END)
    for kind in kinds():
        assert f"[{kind}](kinds/{kind}.md)" in written[begin:end]
    page = tmp_path / "index.md"
    page.write_text(written[:begin] + kinds_page.LIST_BEGIN + "\nold\n" + written[end:], "utf-8")
    assert kinds_page.main([str(ROOT / "docs" / "kinds"), str(page)]) == 0
    assert page.read_text("utf-8") == written
    with pytest.raises(ValueError, match="0 lists"):
        kinds_page.with_list("# a page")


def test_a_page_without_a_place_for_the_fields_is_refused():
    with pytest.raises(ValueError, match="0 blocks"):
        kinds_page.with_fields("# a page", kinds()["mig"])


@cache
def rule_ids() -> dict[str, str]:
    """Every rule id a problem of a plan may have, and the kind that has it; empty where it is of none."""
    found = {}
    folders = {".".join(cls.__module__.split(".")[:3]): kind for kind, cls in kinds().items()}
    derived: dict[str, set[str]] = {}  # module of a base -> the kinds that inherit from it
    for kind, cls in kinds().items():
        for base in cls.__mro__:
            derived.setdefault(base.__module__, set()).add(kind)
    for path in sorted((ROOT / "vsphere_ai").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        home = folders.get(".".join(module.split(".")[:3]), "")
        of = {home} if home else derived.get(module, set())
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            name = getattr(node.func, "id", getattr(node.func, "attr", "")) if isinstance(node, ast.Call) else ""
            if name in RULE_CALLS:
                at = RULE_CALLS[name]
                given = (
                    node.args[at] if len(node.args) > at else next(k.value for k in node.keywords if k.arg == "rule")
                )
                if isinstance(given, ast.Constant):
                    own = name == "problem" and "." not in given.value
                    assert of or not own, f"{path}: {given.value} is of no kind"
                    found |= {f"{kind}.{given.value}": kind for kind in of} if own else {}
                    found |= {} if own else {given.value: home}
    return found


def test_rule_ids_are_found():
    assert {"mig.layout", "rolling.evacuate", "ssh.stopped"} <= set(rule_ids())


def test_every_rule_id_is_explained():
    """A page says what it means and what to do, for the rules of a kind the page of that kind."""
    kinds_of = {**dict.fromkeys((rule.id for rule in gate.rules()), ""), **rule_ids()}
    texts = {p: text_of(p) for p in PAGES}
    pages = {rule: [p for p in PAGES if f"`{rule}`" in texts[p]] for rule in kinds_of}
    assert sorted(rule for rule in kinds_of if not pages[rule]) == []
    elsewhere = {r: k for r, k in kinds_of.items() if k and ROOT / "docs" / "kinds" / f"{k}.md" not in pages[r]}
    assert elsewhere == {}, "explain each on the page of its kind"


def said_ids() -> set[str]:
    """Every id of an error, a reason or a remark, as it stands in the source."""
    found = {cls.rule for cls in vars(errors).values() if isinstance(cls, type) and hasattr(cls, "rule")}
    for path in sorted(p for p in (ROOT / "vsphere_ai").rglob("*.py") if "lab" not in p.parts):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "say" and len(node.args) > 1:
                given = [node.args[1]]
            else:
                given = [k.value for k in getattr(node, "keywords", ()) if k.arg == "rule"]
            found |= {v.value for v in given if isinstance(v, ast.Constant) and isinstance(v.value, str)}
    return found - {""}


def test_every_id_of_an_error_or_a_remark_is_explained():
    page = text_of(ROOT / "docs" / "cli.md").partition("\n## Rule ids\n")[2].partition("\n## ")[0]
    explained = set(re.findall(r"`([a-z]+(?:[.-][a-z]+)*)`", page))
    assert {
        "plan.stale",
        "run.unfinished",
        "external.off",
        "rollout.halted",
        "host.unhealthy",
    } <= said_ids() | explained
    missing = {rule for rule in said_ids() if rule not in explained and rule not in rule_ids()}
    assert not missing, f"docs/cli.md, Rule ids: {sorted(missing)}"


def test_cli_page_has_every_command_and_option():
    text = (ROOT / "docs" / "cli.md").read_text("utf-8")
    of_every = text.partition("\n## Options of every command\n")[2].partition("\n## ")[0]
    for name in commands():
        top = command.get_command(click.Context(command), name)
        assert top is not None
        for path, each in subcommands(name, top):
            section = re.search(rf"^### `vsphere-ai {path}\b.*?(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
            assert section, f"docs/cli.md has no section for 'vsphere-ai {path}'"
            for option in (o for p in each.params if isinstance(p, click.Option) for o in p.opts):
                assert re.search(rf"`{re.escape(option)}\b", section[0] + of_every), (
                    f"docs/cli.md: {option} of 'vsphere-ai {path}' is missing"
                )


def subcommands(path: str, each: click.Command):
    if isinstance(each, click.Group):
        for name, below in each.commands.items():
            yield from subcommands(f"{path} {name}", below)
    else:
        yield path, each


def test_cli_page_has_every_exit_code():
    text = (ROOT / "docs" / "cli.md").read_text("utf-8")
    codes = {c.exit_code for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.VsphereAiError)}
    for code in sorted({0, 2, 130, *codes}):
        assert re.search(rf"^\| {code}\b", text, re.MULTILINE), f"exit code {code} is not in docs/cli.md"
