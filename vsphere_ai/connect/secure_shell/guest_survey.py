"""Surveys of guests: each answers the probes, side by side with the others, or it is known why it does not."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

from vsphere_ai.connect.secure_shell.guest_ssh import GuestSettings, GuestSsh, GuestTimedOut
from vsphere_ai.errors import Unreachable, VsphereAiError
from vsphere_ai.model.guest_probes import CommandAnswer, GuestCommand, GuestProbe, NoAnswer
from vsphere_ai.model.nodes import Node
from vsphere_ai.model.text import plain, safe

AT_ONCE = 32
"""Guests that are worked with at a time."""
NOTHING = ("true",)
"""Command that any guest ends at once."""
NOTHING_WITHIN = 5.0
"""Seconds for it; a guest in which it does not end runs no command at all."""
UNREADABLE = (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError)
"""What a reader raises for an answer of another form than it expects."""
T = TypeVar("T")


class GuestConnections:
    """Connections to the guests of nodes, and why there is none to the others. A context manager that closes them."""

    def __init__(self, shells: Mapping[str, GuestSsh], failed: Mapping[str, VsphereAiError] | None = None) -> None:
        self.shells = dict(shells)
        self.failed = dict(failed or {})

    @classmethod
    def to(cls, nodes: Iterable[Node], settings: GuestSettings) -> GuestConnections:
        """Log in to the guests of nodes at once; an error is of one guest only."""
        made = cls({node.vm: GuestSsh(node.address, settings, node.vm) for node in nodes})
        logins = made.each(lambda shell: shell.connect())
        made.failed = {vm: error for vm, error in logins.items() if error is not None}
        made.shells = {vm: shell for vm, shell in made.shells.items() if vm not in made.failed}
        return made

    @classmethod
    def to_all(cls, nodes: Iterable[Node], settings: GuestSettings) -> GuestConnections:
        """Log in to the guests of all nodes at once; the error of the first that cannot be reached."""
        made = cls.to(nodes, settings)
        if made.failed:
            made.close()
            raise next(iter(made.failed.values()))
        return made

    def __enter__(self) -> GuestConnections:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for shell in self.shells.values():
            shell.close()

    def each(
        self,
        work: Callable[[GuestSsh], T],
        vms: Iterable[str] | None = None,
        *,
        done: Callable[[int, int], None] | None = None,
        interrupted: Callable[[], object] | None = None,
    ) -> dict[str, T | VsphereAiError]:
        """Do something in guests side by side; return what it brought, or went wrong, by the names of VMs.

        Without `vms` in all of them, in their order. An error is of one guest only, and one that could not be logged in
        to has the error of that. `done` gets how many of how many have ended. When this is interrupted, that is
        called, and has to end what the guests do: it is waited for.
        """
        every = list(dict.fromkeys((*self.shells, *self.failed) if vms is None else vms))
        with ThreadPoolExecutor(max(1, min(AT_ONCE, len(every))), thread_name_prefix="guest") as pool:
            waiting = {vm: pool.submit(self._attempt, vm, work) for vm in every}
            try:
                if done is not None:
                    _count(waiting.values(), done)
                return {vm: each.result() for vm, each in waiting.items()}
            except BaseException:
                for each in waiting.values():
                    each.cancel()
                if interrupted is not None:
                    interrupted()
                raise

    def _attempt(self, vm: str, work: Callable[[GuestSsh], T]) -> T | VsphereAiError:
        if vm not in self.shells:
            return self.failed[vm]
        try:
            return work(self.shells[vm])
        except VsphereAiError as error:
            return error


def _count(waiting: Iterable[Future[T]], done: Callable[[int, int], None]) -> None:
    every = list(waiting)
    for number, _ in enumerate(as_completed(every), 1):
        done(number, len(every))


@dataclass(frozen=True)
class GuestSurvey:
    """Questions to guests that are logged in to.

    `within` is how many seconds one round of questions may take for all guests together: one that is reached later
    has timed out. `done` gets how many of how many guests have answered.
    """

    guests: GuestConnections
    within: float = math.inf
    done: Callable[[int, int], None] | None = None

    def ask(self, probes: GuestProbe[T] | Mapping[str, GuestProbe[T]]) -> dict[str, T | VsphereAiError]:
        """Return what the answers of guests say, or why a guest has none, by the names of VMs.

        One probe is for all guests, a mapping has one for each VM that is asked. A command without an answer has the
        reason as its answer, and the guest is asked on; the guest itself has none where it cannot be reached any more,
        runs no command any more (`GuestTimedOut`), or its answers cannot be read (`Unreachable`).
        """
        until = time.monotonic() + self.within

        def work(shell: GuestSsh) -> T:
            probe = probes if isinstance(probes, GuestProbe) else probes[shell.vm]
            return _read(shell, probe, until)

        return self.guests.each(work, None if isinstance(probes, GuestProbe) else probes, done=self.done)


def survey(
    nodes: Iterable[Node],
    settings: GuestSettings,
    probe: GuestProbe[T],
    *,
    within: float = math.inf,
    done: Callable[[int, int], None] | None = None,
) -> dict[str, T | VsphereAiError]:
    """Log in to the guests of nodes, ask all the same, and close the connections; as `GuestSurvey.ask` returns it."""
    with GuestConnections.to(nodes, settings) as guests:
        return GuestSurvey(guests, within, done).ask(probe)


def _read(shell: GuestSsh, probe: GuestProbe[T], until: float) -> T:
    answers: dict[str, CommandAnswer] = {}
    for command in probe.commands:
        before = answers.get(command.after)
        if before is None or not before.failure:
            answers[command.name] = _answer(shell, command, until)
    try:
        return probe.read(answers)
    except UNREADABLE as error:
        why = safe(str(error)) if isinstance(error, NoAnswer) else "its answer cannot be read"
        raise Unreachable(f"{shell.vm}: {why}", "look at the guest", rule="guest.answer") from error


def _answer(shell: GuestSsh, command: GuestCommand, until: float) -> CommandAnswer:
    """Return what a command brings; `GuestTimedOut` where neither it ends, nor one that does nothing."""
    asked, left = time.time(), until - time.monotonic()
    if left <= 0:
        message = f"{shell.vm}: the survey ended before it was asked"
        raise GuestTimedOut(message, "look at the guests that do not answer")
    try:
        done = shell.run(command.argv, stdin=command.stdin, timeout=min(command.timeout, left))
    except GuestTimedOut as error:
        try:
            shell.run(NOTHING, timeout=NOTHING_WITHIN)
        except GuestTimedOut:
            words = f"neither `{command.argv[0]}` nor `{NOTHING[0]}` ended in time"
            message = f"{shell.vm}: the guest runs no command: {words}"
            raise GuestTimedOut(message, "look at the console of the VM, then restart the guest") from error
        return CommandAnswer(failure=error.message.partition(": ")[2], asked=asked, ended=time.time())
    ended = time.time()
    if done.truncated:
        return CommandAnswer(failure="it wrote more than is read, and was ended", asked=asked, ended=ended)
    return CommandAnswer(done.code, plain(done.out + (done.err if done.code else "")), "", asked, ended)
