"""Colour of a plan on a terminal: by the sign of a line, which stays; colour is never the only carrier."""

from __future__ import annotations

import os
import sys

import click

from vsphere_ai.cli.console.streams import is_screen

SIGNS = {"+": "green", "~": "yellow", "-": "red", "!": "red", "=": "bright_black"}


def colour(text: str) -> str:
    """Return a plan with colours, unchanged where the output is no terminal or NO_COLOR is set."""
    if os.environ.get("NO_COLOR") or not is_screen(sys.stdout):
        return text
    return "\n".join(_line(line) for line in text.splitlines())


def _line(line: str) -> str:
    sign = line.strip()[:2].strip()
    if sign in SIGNS and line.startswith("  "):
        return click.style(line, fg=SIGNS[sign])
    if line.startswith(("IMPACT", "PROBLEMS")):
        return click.style(line, bold=True)
    return line
