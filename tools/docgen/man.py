"""Manual pages: one of the program and one per command, as roff, from the options and help of the command line.

`python -m tools.docgen.man FOLDER` writes them. They have no date, so that the same version gives the same files.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from vsphere_ai import __version__
from vsphere_ai.cli.console.help_examples import example_lines
from vsphere_ai.cli.main import command

PROGRAM = "vsphere-ai"
CLI_PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
FILES = (
    ("vsphere-ai.yaml", "The inventory of a project, in this folder or one above it."),
    (
        "~/.local/state/vsphere-ai",
        "Journals of runs, locks, the simulated environment; VSPHERE_AI_STATE_DIR names another place.",
    ),
)


def roff(text: str) -> str:
    """Return text that roff prints as it is: no escapes, no requests, no hyphen that is a dash."""
    plain = text.replace("\\", r"\e").replace("-", r"\-")
    return re.sub(r"(?m)^([.'])", r"\\&\1", plain)


def page(context: click.Context) -> str:
    """Return the manual page of a command."""
    name = context.command_path.replace(" ", "-")
    lines = [f'.TH "{roff(name.upper())}" 1 "" "{PROGRAM} {__version__}" "{PROGRAM}"', ".nh", ".ad l"]
    said = inspect.cleandoc(context.command.help or "")
    first = re.split(r"(?<=\.)\s", said, maxsplit=1)[0].rstrip(".")
    lines += [".SH NAME", f"{roff(name)} \\- {roff(' '.join(first.split()))}"]
    usage = " ".join(context.command.collect_usage_pieces(context))
    lines += [".SH SYNOPSIS", f".B {roff(context.command_path)}", roff(usage)]
    lines += [".SH DESCRIPTION", *_paragraphs(said)]
    given = (p for p in context.command.get_params(context) if isinstance(p, click.Option))
    options = [p.get_help_record(context) for p in given]
    lines += _terms("OPTIONS", [each for each in options if each])
    if examples := example_lines(context.command):
        lines += [".SH EXAMPLES", ".nf", *map(roff, examples), ".fi"]
    lines += _terms("COMMANDS", [(f"{c.command_path}", c.command.get_short_help_str(200)) for c in _below(context)])
    if context.parent is None:
        lines += _terms("EXIT STATUS", exit_codes()) + _terms("FILES", list(FILES))
        others = ", ".join(f"\\fB{roff(c.command_path.replace(' ', '-'))}\\fP(1)" for c in _below(context))
        lines += [".SH SEE ALSO", others]
    else:
        lines += [".SH EXIT STATUS", f"See \\fB{roff(PROGRAM)}\\fP(1)."]
    return "\n".join(lines) + "\n"


def pages() -> dict[str, str]:
    """Return every page by the name of its file."""
    todo, found = [click.Context(command, info_name=PROGRAM, **command.context_settings)], {}
    for context in todo:
        todo += _below(context)
        found[f"{context.command_path.replace(' ', '-')}.1"] = page(context)
    return found


def exit_codes() -> list[tuple[str, str]]:
    """Return the exit codes with their meaning, from the page of the command line."""
    table = CLI_PAGE.read_text("utf-8").partition("\n## Exit codes\n")[2].partition("\n\n## ")[0]
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", table, flags=re.MULTILINE)
    return [(code, meaning.replace("`", "")) for code, meaning in rows]


def _below(context: click.Context) -> list[click.Context]:
    group = context.command
    if not isinstance(group, click.Group):
        return []
    commands = ((name, group.get_command(context, name)) for name in group.list_commands(context))
    return [click.Context(c, info_name=name, parent=context) for name, c in commands if c and not c.hidden]


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in filter(None, text.replace("\b\n", "").split("\n\n")):
        yield ".PP"
        yield roff(" ".join(paragraph.split()))


def _terms(title: str, terms: list[tuple[str, str]]) -> list[str]:
    lines = [f".SH {title}"] if terms else []
    for term, meaning in terms:
        lines += [".TP", f"\\fB{roff(term)}\\fP", roff(" ".join(meaning.split()))]
    return lines


def main(arguments: list[str]) -> int:
    """Write the pages into a folder."""
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
