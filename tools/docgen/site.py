"""The documentation site from `docs/`: ``python -m tools.docgen.site FOLDER`` writes it to ``FOLDER/site``.

The pages are written for GitHub and for the tests that carry out their commands. mkdocs gets copies in which a fence
has no words for the tests, a file that a block writes is its title, and a link out of `docs/` is the path that it
names. The navigation is what `docs/index.md` links to, by its headings: a page is added there and nowhere else.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
BESIDE = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages of the top folder and their names in the site."""
LANGUAGES = {"text", "yaml", "python", "json", "console"}
Entry = dict[str, Any] | str
"""A page with its title, or a title with its pages."""
_FENCE = re.compile(r"^```(\w*)[ ]?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
_TITLE = re.compile(r"\bname=(\S+)")


def main(arguments: list[str]) -> int:
    """Build the site below the folder that is named, in the place of what is there; the exit code is that of mkdocs."""
    folder = Path(arguments[0])
    prepare(folder)
    build = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--quiet",
        "--strict",
        "--config-file",
        str(folder / "mkdocs.yml"),
    ]
    done = subprocess.run(build, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=False)  # noqa: S603
    if done.returncode == 0:  # a page that is opened from a file asks for the index in this form
        index = folder / "site" / "search" / "search_index.json"
        index.with_suffix(".js").write_text(f"var __index = {index.read_text('utf-8')}", "utf-8")
    return done.returncode


def prepare(folder: Path) -> None:
    """Write `pages` and `mkdocs.yml` into a folder, in the place of what is there."""
    target = folder / "pages"
    shutil.rmtree(target, ignore_errors=True)
    for path in sorted((ROOT / "docs").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".py":
            _written(path, target / path.relative_to(ROOT / "docs"))
    for name, page in BESIDE.items():
        _written(ROOT / name, target / page)
    for suffix in (".css", ".js"):
        shutil.copyfile(Path(__file__).with_suffix(suffix), target / f"site{suffix}")
    inherited = os.path.relpath(ROOT / "mkdocs.yml", folder)
    document = {"INHERIT": inherited, "docs_dir": "pages", "site_dir": "site", "nav": navigation(target)}
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(document, sort_keys=False), "utf-8")


def navigation(pages: Path) -> list[Entry]:
    """Return the pages that `index.md` links to, by its headings; an index that it links to brings its own pages."""
    text = (pages / "index.md").read_text("utf-8")
    _, *parts = re.split(r"(?m)^## (.+)$", text)
    tabs: list[Entry] = [{"Start": "index.md"}]
    seen: set[str] = set()
    for title, part in zip(parts[::2], parts[1::2], strict=True):
        below = [] if title != "Start" else tabs.pop(0) and ["index.md"]
        tabs.append({title: [*below, *_entries(part, pages, seen)]})
    return tabs


def _entries(part: str, pages: Path, seen: set[str]) -> list[Entry]:
    """Return the pages of a part of the index, with those below its smaller headings."""
    flat, *rest = re.split(r"(?m)^### (.+)$", part)
    found: list[Entry] = []
    for title, link in _LINK.findall(flat):
        if link in seen or not link.endswith(".md"):
            continue
        seen.add(link)
        inner = Path(link).name == "index.md" and (pages / link).read_text("utf-8")
        below = [f"{Path(link).parent}/{name}" for _, name in _LINK.findall(inner or "")]
        found.append({title: [link, *below]} if below else {title: link})
    for title, more in zip(rest[::2], rest[1::2], strict=True):
        found.append({title: _entries(more, pages, seen)})
    return found


def _written(source: Path, page: Path) -> None:
    page.parent.mkdir(parents=True, exist_ok=True)
    if source.suffix == ".md":
        page.write_text(page_of(source.read_text("utf-8"), source), "utf-8")
    else:
        shutil.copyfile(source, page)


def page_of(text: str, source: Path) -> str:
    """Return the text of a page for mkdocs; `source` is the file that its links start from."""
    prose: list[str] = []
    at = 0
    for fence in _FENCE.finditer(text):
        prose += [_prose(text[at : fence.start()], source), _block(fence)]
        at = fence.end()
    return "".join([*prose, _prose(text[at:], source)])


def _block(fence: re.Match[str]) -> str:
    language, info, body = fence.groups()
    language = language if language in LANGUAGES else "text"
    title = _TITLE.search(info)
    named = f' title="{title[1]}"' if title else ""
    return f"```{language}{named}\n{body}```"


def _prose(text: str, source: Path) -> str:
    linked = _LINK.sub(_link_from(source), text)
    # a bar in the code of a table's cell is escaped for GitHub, and is not for mkdocs
    return re.sub(r"`[^`\n]*`", lambda code: code[0].replace("\\|", "|"), linked)


def _link_from(source: Path) -> Callable[[re.Match[str]], str]:
    base = ROOT / "docs" if source.parent == ROOT else source.parent

    def link(found: re.Match[str]) -> str:
        words, place = found.groups()
        if re.match(r"[a-z]+:", place) or place.startswith("#"):
            return found[0]
        path, hash_, anchor = place.partition("#")
        target = (source.parent / path).resolve()
        if target.is_dir():
            return words
        if target.is_relative_to(ROOT / "docs") and target.suffix != ".py":
            return f"[{words}]({os.path.relpath(target, base)}{hash_}{anchor})"
        name = str(target.relative_to(ROOT))
        if name in BESIDE:
            return f"[{words}]({os.path.relpath(ROOT / 'docs' / BESIDE[name], base)}{hash_}{anchor})"
        plain = words.strip("`")
        return f"`{name}`" if plain in name else f"{words} (`{name}`)"

    return link


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
