"""Every command of the tool, as click has them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import click

from vsphere_ai.cli.commands import commands
from vsphere_ai.cli.main import command

Words = tuple[str, ...]


@cache
def tree() -> Mapping[Words, click.Command]:
    """Return every command by its words, groups too."""
    found: dict[Words, click.Command] = {}

    def walk(words: Words, each: click.Command) -> None:
        found[words] = each
        if isinstance(each, click.Group):
            for name in each.list_commands(click.Context(each)):
                below = each.get_command(click.Context(each), name)
                assert below is not None
                walk((*words, name), below)

    for name in commands():
        top = command.get_command(click.Context(command), name)
        assert top is not None
        walk((name,), top)
    return found


def leaves() -> Mapping[Words, click.Command]:
    """Return every command that does something: all but the groups that only lead to others."""
    return {
        words: each
        for words, each in tree().items()
        if not isinstance(each, click.Group) or each.invoke_without_command
    }


def options(words: Words) -> Mapping[str, click.Option]:
    """Return the options of a command by each of their names, such as `-o` and `--output`."""
    found = (p for p in tree()[words].params if isinstance(p, click.Option))
    return {name: option for option in found for name in (*option.opts, *option.secondary_opts)}
