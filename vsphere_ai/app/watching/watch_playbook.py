"""Watch: an estate is compared with a playbook again and again, and changes of the drift are yielded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from vsphere_ai.app.estate.references import load
from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Emit, ignore
from vsphere_ai.app.runs.plan_playbook import make_plan
from vsphere_ai.app.runs.verify_playbook import VerifyResult
from vsphere_ai.app.watching.live_cursor import LiveCursor, is_lasting
from vsphere_ai.errors import Denied, InputError, UsageError, VsphereAiError
from vsphere_ai.planning.drift import Difference, differences

INTERVAL = 60.0
"""Seconds between two readings."""


@dataclass(frozen=True)
class WatchRequest:
    """Which playbook to compare with which estate, and the seconds between two readings."""

    playbook: Path
    estate: EstateRequest = field(default_factory=EstateRequest)
    interval: float = INTERVAL


@dataclass(frozen=True)
class DriftSeen:
    """A reading: which differences have appeared and gone since the one before. `first`: there was none before."""

    result: VerifyResult
    appeared: tuple[Difference, ...]
    gone: tuple[Difference, ...]
    first: bool = False

    @classmethod
    def only(cls, result: VerifyResult) -> DriftSeen:
        """Return a single reading, of which every difference has appeared."""
        return cls(result, tuple(differences(result.plan).values()), (), True)


@dataclass(frozen=True)
class NotRead:
    """A reading that failed, `seconds` after the last good one (None: there was none); it is tried again."""

    error: VsphereAiError
    seconds: float | None


@dataclass(frozen=True)
class ReadAgain:
    """The first reading after one that failed. Changes, if there are any, follow."""

    seconds: float


Seen = DriftSeen | NotRead | ReadAgain


def watch(request: WatchRequest, emit: Emit = ignore, wait: Callable[[float], object] = time.sleep) -> Iterator[Seen]:
    """Yield the first reading, then each that differs from the one before, for as long as the caller goes on.

    One session with vCenter is kept, and a reading that fails is repeated. `Denied` ends the watch, so that the account
    is not locked; so do `InputError` and `UsageError` of the first reading. Changes nothing.
    """
    playbook = load(request.playbook, request.estate, emit)
    known: dict[str, Difference] | None = None
    good, failing = 0.0, False
    with open_session(request.estate, playbook, emit) as session:
        live = LiveCursor(session)
        while True:
            try:
                if live.unchanged() and not failing:
                    good = time.monotonic()
                    wait(request.interval)
                    continue
                plan, estate = make_plan(session.again(), playbook)
                result = VerifyResult(plan)
                # addresses of sets are leased in more than properties
                live.keep(is_lasting(estate) and not session.scope.set_plays(playbook))
            except Denied:
                raise
            except VsphereAiError as error:
                if known is None and isinstance(error, InputError | UsageError):
                    raise
                if not failing:
                    yield NotRead(error, time.monotonic() - good if good else None)
                failing = True
            else:
                if failing:
                    yield ReadAgain(time.monotonic() - good if good else 0.0)
                failing, good = False, time.monotonic()
                found = differences(result.plan)
                if known is None or found.keys() != known.keys():
                    before = known or {}
                    appeared = tuple(d for key, d in found.items() if key not in before)
                    gone = tuple(d for key, d in before.items() if key not in found)
                    yield DriftSeen(result, appeared, gone, known is None)
                known = found
            wait(request.interval)
