"""HTTP answers of a SOAP service: unpacked, and bounded in size and time before anybody parses them."""

from __future__ import annotations

import http.client
import time
import zlib
from typing import Any

LARGEST = 64 << 20
"""Bytes of one answer after unpacking; a page of 500 virtual machines has a few million."""
_PIECE = 1 << 16
_HEAD = 4096
"""Bytes within which the SOAP envelope begins."""
_PACKED = ("gzip", "deflate")
_ANY_WRAPPER = 47  # zlib's number for "gzip or zlib, look yourself"


class NotSoap(http.client.HTTPException):
    """Something answered that is no SOAP service: an error page, a login form."""


class TooLarge(Exception):
    """The answer is larger than any that makes sense."""


class Answer(http.client.HTTPResponse):
    """A response that reads as plain XML, whatever it was packed with. Raises instead of reading on and on."""

    def __init__(self, *args: Any, seconds: float, **more: Any) -> None:
        super().__init__(*args, **more)
        self._seconds, self._until = seconds, 0.0
        self._length = 0
        self._head: bytes | None = b""
        self._unzip: Any = None
        self._rest = b""

    def begin(self) -> None:
        """Read status and headers; `NotSoap` when the body is declared to be something else than XML."""
        super().begin()
        self._until = time.monotonic() + self._seconds
        kind = str(self.headers.get("Content-Type", "xml"))
        if self.status in (200, 500) and "xml" not in kind.lower():
            raise NotSoap(f"{self.status} with {kind.partition(';')[0].strip()} instead of XML")
        if str(self.headers.get("Content-Encoding", "")).lower() in _PACKED:
            del self.headers["Content-Encoding"]
            self._unzip = zlib.decompressobj(_ANY_WRAPPER)

    def read(self, amt: int | None = None) -> bytes:
        """Return at most `amt` bytes of the body, unpacked; none at its end."""
        if self.status not in (200, 500):
            return super().read(amt)  # pyVmomi does not look at it
        if amt is None:
            parts = iter(lambda: self.read(_PIECE), b"")
            return b"".join(parts)
        piece = self._part(amt) if self._unzip is None else self._unpacked(amt)
        self._length += len(piece)
        if self._length > LARGEST:
            raise TooLarge(f"it is larger than {LARGEST >> 20} MiB")
        if self._head is not None:
            self._look(piece)
        if time.monotonic() > self._until:
            raise TimeoutError("timed out")  # it still trickles in, which no limit of the socket notices
        return piece

    def _look(self, piece: bytes) -> None:
        """Refuse what is no SOAP: pyVmomi takes any XML for the answer of a method that returns nothing."""
        self._head = (self._head or b"") + piece
        if b"<!DOCTYPE" in self._head:
            raise NotSoap("it has a document type, which SOAP does not allow")
        if b"Envelope" in self._head:
            self._head = None
        elif not piece or len(self._head) > _HEAD:
            raise NotSoap("it is no SOAP" if self._head else "it is empty")

    def _part(self, amt: int) -> bytes:
        """Return what has arrived, instead of waiting for all of it as `read` does."""
        before = self.length
        piece = super().read1(amt)
        if before is not None:
            self.length = before - len(piece)  # only newer Pythons do that
            if not piece and before:
                raise http.client.IncompleteRead(b"", before)
            if not self.length:
                super().read()  # notes the end, so that the connection can be used again
        return piece

    def _unpacked(self, amt: int) -> bytes:
        while not self._unzip.eof:
            packed = self._rest or self._part(_PIECE)
            if not packed:
                raise http.client.IncompleteRead(b"")
            piece: bytes = self._unzip.decompress(packed, amt)
            self._rest = self._unzip.unconsumed_tail
            if piece:
                return piece
        while self._part(_PIECE):
            pass  # what is left unread would be taken for the next answer
        return b""
