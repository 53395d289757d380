"""One esxcli command: its options and the function behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from vsphere_ai.lab.hardware.host import LabHost

Options = Mapping[str, str]


class EsxcliError(Exception):
    """esxcli refuses; the text is what it prints."""


@dataclass(frozen=True)
class EsxcliCommand:
    """A command and its options: short letter to long name. `required` are long names."""

    run: Callable[[LabHost, Options], str]
    options: Mapping[str, str] = field(default_factory=dict)
    required: tuple[str, ...] = ()

    def read(self, argv: Sequence[str]) -> dict[str, str]:
        """Return the options by long name; raise `EsxcliError` for unknown or missing ones."""
        words, found = list(argv), dict[str, str]()
        while words:
            given = words.pop(0)
            text, has_value, value = given.partition("=")
            name = text[2:] if text.startswith("--") else self.options.get(text.lstrip("-"), "")
            if not given.startswith("-") or name not in self.options.values():
                raise EsxcliError(f"Error: Invalid option {given}")
            if not has_value:
                if not words:
                    raise EsxcliError(f"Error: Missing value for option {given}")
                value = words.pop(0)
            found[name] = value
        missing = [name for name in self.required if name not in found]
        if missing:
            raise EsxcliError(f"Error: Missing required parameter {', '.join(f'--{name}' for name in missing)}")
        return found


def boolean(text: str) -> bool:
    """Read a boolean as esxcli does; raise `EsxcliError`."""
    known = {"true": True, "t": True, "yes": True, "1": True, "false": False, "f": False, "no": False, "0": False}
    try:
        return known[text.lower()]
    except KeyError:
        raise EsxcliError(f"Error: Invalid boolean value {text}") from None


def number(text: str) -> int:
    """Read a whole number; raise `EsxcliError`."""
    if not text.isdigit():
        raise EsxcliError(f"Error: Invalid number {text}")
    return int(text)
