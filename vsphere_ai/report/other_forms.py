"""Other forms of the JSON documents of commands: YAML, and the names of the things that a document lists. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import yaml

try:
    from yaml import CSafeDumper as Dumper
except ImportError:  # pragma: no cover - PyYAML without libyaml
    from yaml import SafeDumper as Dumper  # type: ignore[assignment]

WIDTH = 110


class _Plain(Dumper):
    """Writes every value in full: an alias would have readers look for its anchor."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def yaml_text(document: object) -> str:
    """Return a document as YAML with the keys, order and values of its JSON; it begins with `---`."""
    return yaml.dump(
        document,
        Dumper=_Plain,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        explicit_start=True,
        width=WIDTH,
    )


def names_in(document: object, place: str) -> Iterator[str]:
    """Yield the names of what a document lists, in its order.

    `place` is where they are: the key of the list, or of a mapping of lists, and behind a `.` the key of the name in
    each of its items (``hosts.host``); without one each item is a name. Of a document without this list nothing is
    yielded.
    """
    key, _, name = place.partition(".")
    listed = document.get(key) if isinstance(document, Mapping) else None
    lists = listed.values() if isinstance(listed, Mapping) else (listed,)
    for item in (item for each in lists if isinstance(each, list) for item in each):
        found = item.get(name) if isinstance(item, Mapping) else item
        if found is not None:
            yield str(found)
