"""Login sessions: who is logged in, since when, and what dies with the session."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from pyVmomi import vim

if TYPE_CHECKING:
    from vsphere_ai.lab.store import ManagedObject, Store


def now() -> datetime:
    """Return the present time, aware, in UTC."""
    return datetime.now(UTC)


class LabSession:
    """One login. Views, filters and collectors made in it are gone when it ends."""

    def __init__(self, user: str, peer: str, agent: str) -> None:
        self.key, self.token = str(uuid.uuid4()), uuid.uuid4().hex
        self.user, self.peer, self.agent = user, peer, agent
        self.login = self.active = now()
        self.calls = 0
        self.objects: list[ManagedObject] = []
        self.collector: dict[str, Any] = {}

    @property
    def label(self) -> str:
        """Who is logged in, for people: user, start of the key, when."""
        program = self.agent.partition(" ")[0] or "unnamed program"
        return f"session {self.key[:8]} of {self.user} ({program}), since {self.login:%H:%M:%S}"

    def info(self) -> Any:
        """Return the UserSession a client sees."""
        return vim.UserSession(
            key=self.key,
            userName=self.user,
            fullName=self.user,
            loginTime=self.login,
            lastActiveTime=self.active,
            locale="en",
            messageLocale="en",
            extensionSession=False,
            ipAddress=self.peer,
            userAgent=self.agent,
            callCount=self.calls,
        )


class Sessions:
    """Every live session by its cookie; an idle one expires."""

    def __init__(self, store: Store, idle_seconds: float) -> None:
        self.store, self.idle_seconds = store, idle_seconds
        self.live: dict[str, LabSession] = {}
        self.logins = 0
        self.refused_logins = 0
        self.watcher: Callable[[Literal["session"], str, bool], None] = lambda _fact, _session, _live: None
        """Called for every session that starts or ends."""

    def start(self, user: str, peer: str, agent: str) -> LabSession:
        """Log a user in."""
        session = LabSession(user, peer, agent)
        self.live[session.token] = session
        self.logins += 1
        self.watcher("session", session.label, True)
        return session

    def find(self, token: str | None) -> LabSession | None:
        """Return the live session of a cookie and count the call as activity."""
        session = self.live.get(token or "")
        if session is None:
            return None
        if now() - session.active > timedelta(seconds=self.idle_seconds):
            self.end(session)
            return None
        session.active = now()
        session.calls += 1
        return session

    def end(self, session: LabSession) -> None:
        """Log a session out and forget its views, filters and collectors."""
        self.live.pop(session.token, None)
        self.watcher("session", session.label, False)
        for mo in session.objects:
            self.store.delete(mo)
        session.objects.clear()

    def end_all(self) -> None:
        """Expire every session, as a restart of vCenter's service does."""
        for session in list(self.live.values()):
            self.end(session)
