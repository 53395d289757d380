"""Configuration file of a user: default values for options, for all commands that have one, or for one command."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vsphere_ai.language.yaml_files.document import Document, DocumentPath, FaultCollector, load
from vsphere_ai.model.names.suggestion import suggest

OPTIONS, COMMANDS = "options", "commands"
Converter = Callable[[object], object]
"""Returns a value of the file as its option takes it; raises `ValueError`, with what would work behind a line break."""
Converters = dict[str, list[Converter]]
"""What takes a value of an option, in each command that has one of this name."""
Known = Mapping[str, Mapping[str, Converter | None]]
"""Every command by its words (``fleet apply``), with what takes a value of each of its options, by its long name.

None in place of a converter: an option that only the command line has.
"""


@dataclass(frozen=True)
class Configuration:
    """Default values by the words of a command ("" for all), then by the long name of an option without dashes.

    Each is as it stands in the file, and taken by at least one option of that name there.
    """

    settings: Mapping[str, Mapping[str, object]]

    def of(self, words: str, options: Mapping[str, Converter | None]) -> dict[str, object]:
        """Return the values for options of a command by their names; what is more specific goes before the rest."""
        found: dict[str, object] = {}
        for place in places(words):
            for name, value in self.settings.get(place, {}).items():
                converter = options.get(name)
                if converter is not None:
                    with suppress(ValueError):  # others of the same name take it: a form that only some commands have
                        found[name] = converter(value)
        return found


def places(words: str) -> Iterator[str]:
    """Yield where defaults of a command may stand, the least specific first: all, its group, the command itself."""
    yield ""
    at = words.split()
    yield from (" ".join(at[:number]) for number in range(1, len(at) + 1))


def load_configuration(path: Path, known: Known) -> Configuration:
    """Read a configuration file; `InputError` with every key and value of it that no option takes."""
    faults = FaultCollector()
    document = load(path, faults)
    data = document.data
    if data is not None and not isinstance(data, Mapping):
        document.refuse(faults, (), "a configuration file is a mapping", f"begin with '{OPTIONS}:' or '{COMMANDS}:'")
    top = data if isinstance(data, Mapping) else {}
    for key in top:
        if key not in (OPTIONS, COMMANDS):
            document.refuse_key(faults, (key,), f"unknown key '{key}'", suggest(str(key), (OPTIONS, COMMANDS)))
    groups = _groups(known)
    each_time = {name for own in known.values() for name, converter in own.items() if converter is None}
    reading = _Reading(document, faults, each_time)
    settings = {"": reading.section((OPTIONS,), top.get(OPTIONS), groups[""])}
    commands = top.get(COMMANDS)
    if commands is not None and not isinstance(commands, Mapping):
        document.refuse(faults, (COMMANDS,), f"'{COMMANDS}' is a mapping of commands", "write 'apply: {lock: vcenter}'")
    for words, given in commands.items() if isinstance(commands, Mapping) else ():
        if words and words in groups:
            settings[words] = reading.section((COMMANDS, words), given, groups[words])
        else:
            help = suggest(str(words), groups, "commands are")
            document.refuse_key(faults, (COMMANDS, words), f"there is no command '{words}'", help)
    faults.raise_any()
    return Configuration(settings)


def _groups(known: Known) -> dict[str, Converters]:
    """Return the options of each command, under the name of a group those of all commands in it, under "" all."""
    found: dict[str, Converters] = {"": {}}
    for words, own in known.items():
        for place in places(words):
            group = found.setdefault(place, {})
            for name, converter in own.items():
                if converter is not None:
                    group.setdefault(name, []).append(converter)
    return found


def _why_not(converters: list[Converter], value: object) -> str:
    """Return why no option takes a value, as the first one says it; empty where one does."""
    reasons = []
    for converter in converters:
        try:
            converter(value)
        except ValueError as error:
            reasons.append(str(error))
        else:
            return ""
    return reasons[0]


@dataclass(frozen=True)
class _Reading:
    document: Document
    faults: FaultCollector
    each_time: set[str]

    def section(self, path: DocumentPath, given: object, known: Converters) -> dict[str, object]:
        """Return the settings of one mapping of options."""
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            text = "options with their values are a mapping"
            self.document.refuse(self.faults, path, text, "write 'inventory: FILE' below it")
            return {}
        found: dict[str, object] = {}
        for name, value in given.items():
            here = (*path, name)
            if name not in known:
                self._refuse_name(here, str(name), known)
                continue
            message, _, help = _why_not(known[name], value).partition("\n")
            if message:
                self.document.refuse(self.faults, here, f"{name}: {message}", help)
            else:
                found[name] = value
        return found

    def _refuse_name(self, path: DocumentPath, name: str, known: Converters) -> None:
        bare = name.lstrip("-").replace("_", "-")
        if bare in self.each_time and bare not in known:
            text, help = f"--{bare} is given each time: it is no default", "remove it, and give it on the command line"
        elif bare != name and bare in known:
            text, help = f"unknown option '{name}'", f"write '{bare}'"
        else:
            text, help = f"unknown option '{name}'", suggest(bare, known, "options are")
        self.document.refuse_key(self.faults, path, text, help)
