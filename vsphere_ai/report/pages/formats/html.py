"""Pages of reports as HTML: a file with everything in it, which loads nothing, or a page that a server renders."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from vsphere_ai.model.text import safe
from vsphere_ai.report.pages.pictures import geometry
from vsphere_ai.report.pages.values import Report, ReportSection, Row

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jinja2 import Environment

MOST_ROWS = 120
"""Rows that a table has; further ones are lines of text, so that a page for 1,000 hosts opens at once."""
MOST_BYTES, MOST_NODES = 3_000_000, 10_000
"""Size of a page, and elements in it, up to which it opens at once on an office computer."""
MARKS = {"fail": "fail", "failed": "fail", "warn": "warn", "unknown": "unknown", "broken": "fail"}
"""Cells that have a colour, and whose."""

SIGNS = {"pass": "✓", "warn": "!", "unknown": "?", "fail": "✗", "": ""}


@dataclass(frozen=True)
class PageLink:
    """A link to another page of a server; `current`: it is the one that is shown."""

    text: str
    href: str
    current: bool = False


@dataclass(frozen=True)
class Frame:
    """What stands around the content of a page. A report in a file has the frame without anything.

    `scripts` are addresses of further scripts, and `data` the data attributes of the body that they read. Without
    `policy` the page names none: its server sends one, see `policy`.
    """

    links: tuple[PageLink, ...] = ()
    scripts: tuple[str, ...] = ()
    data: Mapping[str, str] = field(default_factory=dict)
    policy: bool = True
    foot: str = ""


ALONE = Frame()


def html(report: Report) -> str:
    """Return a report as a file. Texts are escaped; control and bidirectional characters are replaced."""
    return page(report)


def page(report: Report, frame: Frame = ALONE) -> str:
    """Return a page: heading, verdict, figures, facts, and the sections, in their frame."""
    made = _environment()
    whole = made.get_template("page.html.j2").render(
        report=report, frame=frame, policy=policy(), style=_part("style.css.j2"), script=_part("script.js.j2")
    )
    return whole.strip()


def section_html(section: ReportSection) -> str:
    """Return one section, with which a page may replace the one of the same id: see `key_of`."""
    module = _environment().get_template("tables.html.j2").module
    written: str = module.body(section, key_of(section))  # type: ignore[attr-defined]
    return written.strip()


def policy(more: str = "") -> str:
    """Return the Content-Security-Policy of a page: its own style and script, and nothing else.

    `more` are sources of scripts, such as ``'self'``, which may also be connected to.
    """
    style, script = (_digest(_part(name)) for name in ("style.css.j2", "script.js.j2"))
    connect = f" connect-src {more};" if more else ""
    scripts = f"script-src 'sha256-{script}'{f' {more}' if more else ''};"
    return (
        f"default-src 'none'; style-src 'sha256-{style}'; {scripts}{connect} "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def key_of(section: ReportSection) -> str:
    """Return the id of a section: its title in small letters with hyphens."""
    return f"s-{re.sub(r'[^a-z0-9]+', '-', section.title.lower()).strip('-')}"


def keyed(sections: Iterable[ReportSection]) -> list[tuple[str, ReportSection]]:
    """Return sections with their ids; of several with the same one, each later one has a number."""
    count = Counter[str]()
    found = []
    for section in sections:
        key = key_of(section)
        count[key] += 1
        found.append((key if count[key] == 1 else f"{key}_{count[key]}", section))
    return found


def weight(text: str) -> tuple[int, int]:
    """Return the bytes of a page, and about how many elements it has."""
    return len(text.encode()), len(re.findall(r"<[a-z]", text))


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(Path(__file__).parents[1]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_inert,
    )
    made.globals.update(
        most=MOST_ROWS, marks=MARKS, signs=SIGNS, gpu=geometry.GPU, time=geometry.TIME, path=geometry.PATH
    )
    made.filters.update(keyed=keyed, shown=_shown, inert=_text, lines=_lines, **geometry.FILTERS)
    return made


@cache
def _part(name: str) -> str:
    """Return the style or the script of a page."""
    from markupsafe import Markup

    return Markup(_environment().get_template(name).render())  # our own text, with nothing from outside  # noqa: S704


def _digest(part: str) -> str:
    """Return what a page's policy allows its style or script by: its SHA-256 in base64."""
    return base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()


def _inert(value: object) -> object:
    """Return a value without characters that hide something; lines made here are kept."""
    return safe(value) if type(value) is str else value


def _shown(section: ReportSection) -> ReportSection:
    """Return a section without columns that no row says anything in."""
    keep = [n for n in range(len(section.heads)) if any(row[n] for row in section.rows)]
    if len(keep) == len(section.heads):
        return section
    rows = tuple(tuple(row[n] for n in keep) for row in section.rows)
    return replace(section, heads=tuple(section.heads[n] for n in keep), rows=rows)


def _text(code: str) -> str:
    """Return lines of text, escaped."""
    return _lines((line,) for line in code.splitlines())


def _lines(rows: Iterable[Row]) -> str:
    """Return rows as escaped lines of text."""
    from markupsafe import Markup, escape

    return Markup("\n").join(escape(" | ".join(safe(cell) for cell in row)) for row in rows)
