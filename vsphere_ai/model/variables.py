"""Values of a playbook's variables, with the place that each comes from."""

from __future__ import annotations

from dataclasses import dataclass

Scalar = str | int | float | bool
Value = Scalar | tuple[Scalar, ...]


@dataclass(frozen=True)
class VariableValue:
    """A value of a variable.

    `level` is what gives it: ``default``, ``inventory``, ``group NAME``, ``host NAME``, ``play``, ``vars file`` or
    ``--var``; `place` is file, line and column, where there is one.
    `targets` are the names of the hosts that have it, where it is not one for all; `play` is the name of the play that
    gives it. `used` is false where no value of the playbook names the variable.
    """

    name: str
    value: Value
    level: str
    place: str = ""
    targets: tuple[str, ...] = ()
    play: str = ""
    used: bool = True


def value_text(value: Value) -> str:
    """Return a value as it is written in a text: ``true``, ``8``, ``a, b``."""
    if isinstance(value, tuple):
        return ", ".join(map(value_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
