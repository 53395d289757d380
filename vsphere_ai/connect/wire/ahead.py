"""Requests that are sent ahead: vCenter makes the next page, and it travels, while this one is read.

Nothing is received ahead: the answer waits in the buffers of the connection until it is asked for. So what goes wrong
shows at the same place as without this, and no thread has to be waited for.
"""

from __future__ import annotations

import http.client
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vsphere_ai.connect.wire.answers import ACCEPTED

Replace = Callable[[int, bytes], bytes]
"""Takes status and body of an answer, and returns what is to be read in the place of the body."""


class TappedAnswer:
    """An answer, or what is to be read in the place of it."""

    def __init__(self, answer: http.client.HTTPResponse, replace: Replace) -> None:
        self._answer, self._replace = answer, replace
        self._body: io.BytesIO | None = None

    def __getattr__(self, name: str) -> object:
        return getattr(self._answer, name)

    def read(self, amt: int | None = None) -> bytes:
        """Return at most `amt` bytes of what stands in for the body."""
        if self._body is None:
            self._body = io.BytesIO(self._replace(self._answer.status, self._answer.read()))
        return self._body.read(amt)


class Tapped:
    """A connection whose answers pass through a function before anything else reads them."""

    def __init__(self, connection: http.client.HTTPConnection, replace: Replace) -> None:
        self.connection, self._replace = connection, replace
        self._like: tuple[str, str, Mapping[str, str]] = ("", "", {})
        self._sent: Exception | bool = False
        """Whether the next request was sent already, or what went wrong then."""

    def __getattr__(self, name: str) -> object:
        return getattr(self.connection, name)

    def request(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Send a request, where it was not sent ahead."""
        sent, self._sent = self._sent, False
        if isinstance(sent, Exception):
            raise sent
        if not sent:
            self._like = method, url, {**headers, "Accept-Encoding": ACCEPTED}
            self.connection.request(method, url, body, self._like[2])

    def send_ahead(self, body: bytes, cookie: str) -> bool:
        """Send a request like the last one; False where the connection cannot take it."""
        method, url, headers = self._like
        if self.connection.sock is None:
            return False  # the server ends the connection with this answer
        try:
            self.connection.request(method, url, body, {**headers, "Cookie": cookie})
        except (OSError, http.client.HTTPException) as error:
            self._sent = error
        else:
            self._sent = True
        return True

    def close(self) -> None:
        """Close the connection, unless there is a request on it: only this page may be what pyVmomi cannot read."""
        if not self._sent:
            self.connection.close()

    def getresponse(self) -> TappedAnswer:
        """Wait for the answer."""
        return TappedAnswer(self.connection.getresponse(), self._replace)


@dataclass(frozen=True)
class Ahead:
    """A request for the page that a token leads to, which was sent already."""

    token: str
    connection: Tapped
