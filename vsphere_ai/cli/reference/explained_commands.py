"""Commands as `vsphere-ai explain` shows them: what their help says, of groups the commands below."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping

import click

from vsphere_ai.cli.console.defaults import tree_of
from vsphere_ai.cli.console.help_examples import example_lines
from vsphere_ai.model.records.explained import ExplanationPart, NameExplained

PAGE = "docs/cli.md"
GROUP = "commands"
"""The name of all of them, for a list."""


def explained_commands() -> Mapping[str, NameExplained]:
    """Return every command and group by its words, such as ``run show``."""
    from vsphere_ai.cli.main import command as tool

    context = click.Context(tool)
    tops = ((name, tool.get_command(context, name)) for name in tool.list_commands(context))
    return {
        words: _explained(words, each) for name, top in tops if top is not None for words, each in tree_of(name, top)
    }


def _explained(words: str, command: click.Command) -> NameExplained:
    text = inspect.cleandoc(command.help or "").partition("\f")[0]
    title, *paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text)]
    with click.Context(command, info_name=f"vsphere-ai {words}") as context:
        usage = " ".join((context.command_path, *command.collect_usage_pieces(context)))
        parts = [ExplanationPart("", code=usage)]
        if isinstance(command, click.Group):
            below = ((name, command.get_command(context, name)) for name in command.list_commands(context))
            pairs = tuple((name, each.get_short_help_str(limit=300)) for name, each in below if each is not None)
            parts.append(ExplanationPart("commands", pairs=pairs))
        records = (p.get_help_record(context) for p in command.params if isinstance(p, click.Option))
        options = tuple((name, help) for name, help in filter(None, records))
        parts += [ExplanationPart("options", pairs=options)] if options else []
        examples = "\n".join(example_lines(command))
        parts += [ExplanationPart("examples", code=examples)] if examples else []
    return NameExplained(words, "command", title, tuple(paragraphs), tuple(parts), page=PAGE)
