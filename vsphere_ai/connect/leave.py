"""Leave to log in and to change something, which a worker of a fleet has only for as long as it has a lease."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

watch_logins: ContextVar[Callable[[str], None]] = ContextVar("watch_logins", default=lambda _key: None)
"""Called before each login of sessions that this thread begins, with "", and after it with the login session's key.

What it raises ends the session: so one that was ended, because another worker goes on with a run, is not renewed.
"""
may_change: ContextVar[Callable[[], None]] = ContextVar("may_change", default=lambda: None)
"""Called before each change that sessions and shells send which this thread begins; raises where it may not be sent."""
