"""Questions to the guests of VMs as values: commands with their limits, what came of them, and what that means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class GuestCommand:
    """A command that a guest is asked: its name, its words, and the seconds that it may take.

    It reads `stdin`. `after` names a command of the same probe: where that one brings no answer, as where the driver
    hangs, this one is left out.
    """

    name: str
    argv: tuple[str, ...]
    timeout: float = 20.0
    stdin: bytes = field(default=b"", repr=False)
    after: str = ""


@dataclass(frozen=True)
class CommandAnswer:
    """What a command brought: exit code and output; or a `failure`: why there is no answer, such as a time-out.

    `out` has no escape sequences and no other control characters; with another code than 0 it ends with the error
    output. `asked` and `ended` are seconds of this machine's clock since 1970; 0: not known.
    """

    code: int = 0
    out: str = ""
    failure: str = ""
    asked: float = 0.0
    ended: float = 0.0

    @property
    def is_good(self) -> bool:
        """Whether the command ended, and with code 0."""
        return not self.failure and self.code == 0


Answers = Mapping[str, CommandAnswer]
"""What commands brought by their names; one that was left out has none."""


class NoAnswer(ValueError):
    """The answers of a guest do not say what was asked for; its text says why."""


@dataclass(frozen=True)
class GuestProbe(Generic[T]):
    """What a guest is asked in one go, and what its answers mean.

    Commands run one after the other. `read` gets the answers and returns what they say; `NoAnswer` with the reason
    where they do not say it: that is an error of this guest only.
    """

    commands: tuple[GuestCommand, ...]
    read: Callable[[Answers], T]


def answered(answers: Answers) -> Answers:
    """Return the answers as they are: for a probe whose caller reads them."""
    return answers
