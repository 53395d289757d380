"""Default values for options from the user's configuration file, checked against the options that commands have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from vsphere_ai.security.state_dir import configuration_file

if TYPE_CHECKING:
    from vsphere_ai.app.project.configuration import Configuration, Converter

Tree = Mapping[str, click.Command]


class EachTime(click.Option):
    """An option that only the command line has, never the configuration file: it confirms, or is about one run."""


class InventoryOption(click.Option):
    """The inventory: one of the configuration file is only taken where the environment names no other."""

    def process_value(self, ctx: click.Context, value: object) -> object:
        """Return the path that was given; one of the configuration file is left to `find_inventory`."""
        path = super().process_value(ctx, value)
        if ctx.resilient_parsing:
            return path
        from vsphere_ai.app.project.configuration import use_inventory

        named = ctx.get_parameter_source(self.name or "") is ParameterSource.DEFAULT_MAP
        use_inventory(path if named else None)
        return None if named else path


def tree_of(words: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Yield a command and all below it, by their words."""
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None:
                yield from tree_of(f"{words} {name}", below)


def default_map(words: str, command: click.Command, root: click.Group) -> dict[str, object]:
    """Return what click takes as defaults of the options of a command and of those below it; empty without a file.

    `InputError` where the file has what no option of any command of `root` takes.
    """
    file = configuration_file()
    if file is None:
        return {}
    from vsphere_ai.app.project.configuration import read_configuration

    folder = file.absolute().parent
    configuration = read_configuration(file, known_options(root, folder))
    return _map(words, command, configuration, folder)


def known_options(root: click.Group, folder: Path) -> dict[str, dict[str, Converter | None]]:
    """Return what takes a value of each option, by the words of its command; files are relative to a folder."""
    context = click.Context(root)
    tops = ((name, root.get_command(context, name)) for name in root.list_commands(context))
    return {
        place: _converters(each, folder) for name, top in tops if top is not None for place, each in tree_of(name, top)
    }


def _map(words: str, command: click.Command, configuration: Configuration, folder: Path) -> dict[str, object]:
    named = configuration.of(words, _converters(command, folder))
    found = {option.name or "": named[name] for name, option in _named_options(command) if name in named}
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None:
                found[name] = _map(f"{words} {name}", below, configuration, folder)
    return found


def _named_options(command: click.Command) -> Iterator[tuple[str, click.Option]]:
    """Yield each option by its long name without dashes."""
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield max(parameter.opts, key=len).lstrip("-"), parameter


def _converters(command: click.Command, folder: Path) -> dict[str, Converter | None]:
    return {
        name: None if isinstance(option, EachTime) else partial(_converted, option, folder)
        for name, option in _named_options(command)
    }


def _converted(option: click.Option, folder: Path, value: object) -> object:
    """Return a value of the file as an option takes it from click's map; files are relative to the folder of the file.

    `ValueError` for a value that the option does not take.
    """
    if option.is_flag:
        if not isinstance(value, bool):
            raise ValueError("true or false is needed\nwrite true to have it as if it were given")
        return option.flag_value if value else option.default
    items = value if isinstance(value, (list, tuple)) else [value]
    if len(items) != 1 and not option.multiple:
        raise ValueError("one value is needed, not a list\nwrite one value")
    texts = [_checked(option, folder, item) for item in items]
    return texts if option.multiple else texts[0]


def _checked(option: click.Option, folder: Path, item: object) -> str:
    if item is None or isinstance(item, (bool, dict, list, tuple)):
        raise ValueError("a text or a number is needed\nput a text that YAML takes for something else in quotes")
    text = str(item)
    if isinstance(option.type, click.Path):
        text = str(folder / Path(text).expanduser())
    try:
        option.type.convert(text, option, None)
    except click.BadParameter as error:
        raise ValueError(error.message) from None
    return text
