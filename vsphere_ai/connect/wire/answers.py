"""HTTP answers of a SOAP service: unpacked, and bounded in size and time before they are parsed."""

from __future__ import annotations

import http.client
import io
import socket
import time
import zlib
from typing import Any

from vsphere_ai.connect.wire.answer_checks import NotSoap, TooLarge, look

LARGEST = 64 << 20
"""Bytes of one answer after unpacking; a page of 500 virtual machines has a few million."""
_PIECE = 1 << 16
ACCEPTED = "gzip"
"""How answers may be packed; vCenter does so from 8.0.3 on."""
_GZIP = ("gzip", "x-gzip")
_GZIP_WRAPPER = 31  # zlib's number for gzip, with its checksum
MOST_PACKED = 500
"""How many times smaller than its text an answer may be: SOAP of hosts and VMs that are all alike gets to 100."""
_SMALL = 1 << 20
"""Bytes of text up to which that does not matter."""


class PlainResponse(http.client.HTTPResponse):
    """A response that reads as plain XML, whatever it was packed with. Raises instead of reading on and on."""

    def __init__(self, sock: socket.socket, debuglevel: int = 0, *, method: str | None = None, seconds: float) -> None:
        super().__init__(sock, debuglevel, method)
        self._seconds, self._until = seconds, 0.0
        self._body: io.BytesIO | None = None
        self._unzip: Any = None
        self._rest = b""
        self._packed = 0

    def begin(self) -> None:
        """Read status and headers; `NotSoap` when the body is declared to be something else than XML."""
        super().begin()
        self._until = time.monotonic() + self._seconds
        kind = str(self.headers.get("Content-Type", "xml"))
        if self.status in (200, 500) and "xml" not in kind.lower():
            raise NotSoap(f"{self.status} with {kind.partition(';')[0].strip()} instead of XML")
        packing = str(self.headers.get("Content-Encoding", "")).strip().lower()
        if packing in _GZIP:
            del self.headers["Content-Encoding"]  # pyVmomi would unpack it as well
            self._unzip = zlib.decompressobj(_GZIP_WRAPPER)
        elif packing not in ("", "identity") and self.status in (200, 500):
            raise NotSoap(f"it is packed with {packing[:20]!r}, which was not asked for")

    def read(self, amt: int | None = None) -> bytes:
        """Return at most `amt` bytes of the body, unpacked; none at its end. It was received and looked at before."""
        if self.status not in (200, 500):
            return super().read(amt)  # pyVmomi does not look at it
        if self._body is None:
            self._body = io.BytesIO(self._whole())
        return self._body.read(amt)

    def _whole(self) -> bytes:
        body = io.BytesIO()  # gives out what was written to it without a copy
        length = 0
        while piece := self._part(_PIECE) if self._unzip is None else self._unpacked(_PIECE):
            if not length:
                look(piece)
            length += body.write(piece)
            if length > LARGEST:
                raise TooLarge(f"it is larger than {LARGEST >> 20} MiB")
            if self._unzip is not None and length > max(_SMALL, self._packed * MOST_PACKED):
                raise TooLarge(f"it unpacks to more than {MOST_PACKED} times its size")
            if time.monotonic() > self._until:
                raise TimeoutError("timed out")  # it still trickles in, which no limit of the socket notices
        whole = body.getvalue()
        look(whole, whole=True)
        return whole

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
            self._packed += 0 if self._rest else len(packed)
            piece: bytes = self._unzip.decompress(packed, amt)
            self._rest = self._unzip.unconsumed_tail
            if piece:
                return piece
        while self._part(_PIECE):
            pass  # what is left unread would be taken for the next answer
        return b""
