"""The documentation site as `make site` builds it: links, anchors and navigation are whole, spelling is right."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.required import required_module

from tools.docgen import site

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
LOADED = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"([^\"]+)\"|<link\b[^>]*\bhref=\"([^\"]+)\"")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    required_module("material", "site")
    folder = tmp_path_factory.mktemp("site")
    assert site.main([str(folder)]) == 0, "make site"
    return folder


def html_of(built, page):
    return (built / "site" / page.relative_to(ROOT / "docs")).with_suffix(".html").read_text("utf-8")


def test_every_block_is_rendered_without_the_words_for_tests(built):
    for page in PAGES:
        html = html_of(built, page)
        blocks = re.findall(r"(?m)^```\w", page.read_text("utf-8"))
        assert len(re.findall(r"<pre\b[^>]*><span></span><code>", html)) == len(blocks), page
        assert "```" not in html, page
        assert not re.search(r"norun:|\bexit=\d+\b", html.partition('<div class="md-content"')[2]), page


def test_pages_load_nothing_from_elsewhere(built):
    for page in (built / "site").rglob("*.html"):
        html = page.read_text("utf-8")
        loaded = [link for pair in LOADED.findall(html) for link in pair if link]
        outside = [link for link in loaded if re.match(r"(?:[a-z]+:)?//", link)]
        assert not outside, f"{page.name} loads {outside}"
        assert "emojione" not in html


def test_a_pci_address_stays_text(built):
    assert "0000:af:00.0" in html_of(built, ROOT / "docs" / "tutorial.md")


def test_every_page_is_in_the_navigation_once(built):
    def pages(entry):
        if isinstance(entry, str):
            return [entry]
        return [page for part in (entry.values() if isinstance(entry, dict) else entry) for page in pages(part)]

    found = pages(yaml.safe_load((built / "mkdocs.yml").read_text("utf-8"))["nav"])
    every = [str(page.relative_to(ROOT / "docs")) for page in PAGES] + list(site.BESIDE.values())
    assert sorted(found) == sorted(every), "add the page to docs/index.md, below one of its headings"


def test_only_links_that_lead_out_of_the_pages_become_paths():
    def page_of(text, name):
        return site.page_of(text, ROOT / name)

    assert page_of("[a](locks.md#b) [c](https://x.org)", "docs/cli.md") == "[a](locks.md#b) [c](https://x.org)"
    assert page_of("[x](../../CONTRIBUTING.md#a)", "docs/kinds/mig.md") == "[x](../contributing.md#a)"
    assert page_of("[it](../tests/conftest.py)", "docs/cli.md") == "it (`tests/conftest.py`)"
    assert page_of("[`base.py`](../vsphere_ai/resources/base.py)", "docs/cli.md") == "`vsphere_ai/resources/base.py`"
    assert page_of("[a](docs/faults.md)", "CONTRIBUTING.md") == "[a](faults.md)"
    assert page_of("| `a\\|b` |", "docs/cli.md") == "| `a|b` |"
    assert page_of("```yaml playbook name=a.yml\nx: [a](b)\n```", "docs/cli.md") == (
        '```yaml title="a.yml"\nx: [a](b)\n```'
    )


def test_spelling():
    required_module("codespell_lib", "site")
    done = subprocess.run(
        [sys.executable, "-m", "codespell_lib", "docs", "playbooks", "inventories", "README.md", "CONTRIBUTING.md",
         "CHANGELOG.md", "--skip", "*.svg,docs/schemas", "--ignore-words", "tools/docgen/words.txt"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "", "a word that is right goes into tools/docgen/words.txt"


SEEN = [("index.html", "light", 1280), ("how-to/recover.html", "dark", 390), ("kinds/mig.html", "light", 390)]


@pytest.mark.parametrize(("page", "scheme", "width"), SEEN)
def test_a_page_opens_from_a_file_and_is_accessible(built, chromium, page, scheme, width):
    from axe_playwright_python.sync_playwright import Axe

    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    tab = context.new_page()
    wrong = []
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("console", lambda message: message.type == "error" and wrong.append(message.text))
    tab.goto((built / "site" / page).as_uri())
    tab.wait_for_load_state("networkidle")
    assert not wrong
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    found = Axe().run(tab).response["violations"]
    context.close()
    assert [(v["id"], v["nodes"][0]["html"]) for v in found if v["impact"] in ("serious", "critical")] == []
