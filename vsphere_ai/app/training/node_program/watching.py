"""Progress of a run on a node: the steps that its logs show, its scripts, and what NCCL answers about its ranks."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import time
from typing import Any, Dict  # noqa: UP035 - dict[...] is of Python 3.9

Message = Dict[str, Any]  # noqa: UP006
EVERY, MOST, LONGEST_LINE = 1.0, 1 << 20, 4096
"""Seconds between looks at logs, bytes of a log that are read at a look, and characters of a line."""
LARGEST_SCRIPT = 64 << 20
_ENDS = re.compile(rb"[\r\n]")


class Log:
    """The steps that a log shows. A step has the time at which it was seen, so that no form of a stamp matters."""

    def __init__(self, path: str, pattern: str, warm_up: int) -> None:
        self.path, self.pattern, self.warm_up = path, re.compile(pattern), warm_up
        self.offset, self.rest = 0, b""
        self.step, self.count = -1, 0
        self.first = self.last = 0.0

    def look(self, now: float) -> bool:
        """Read what is new; return whether there was another step."""
        try:
            with open(self.path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size == self.offset:
                    return False
                if size - self.offset > MOST:
                    self.offset, self.rest = size - MOST, b""
                file.seek(self.offset)
                new = file.read(MOST)
        except OSError:
            return False
        self.offset += len(new)
        *lines, rest = _ENDS.split(self.rest + new)
        self.rest, before = rest[:LONGEST_LINE], self.count
        for line in lines:
            found = self.pattern.search(line[:LONGEST_LINE].decode("utf-8", "replace"))
            number = next((int(each) for each in found.groups() if each and each.isdecimal()), -1) if found else -1
            if number >= 0 and number != self.step:
                self.step, self.count, self.last = number, self.count + 1, now
                if self.count <= max(self.warm_up, 1):
                    self.first = now
        return self.count > before

    def clock(self) -> Message:
        """Return the last step, how many were seen, when the last one was, and the mean seconds after the warm-up."""
        timed = self.count - max(self.warm_up, 1)
        mean = (self.last - self.first) / timed if timed > 0 else None
        return {"step": self.step, "count": self.count, "last": self.last, "mean": mean}


def checksum(path: str) -> str:
    """Return the SHA-256 of a file, or in words why there is none."""
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size > LARGEST_SCRIPT:
                return "too large"
            return hashlib.sha256(file.read(LARGEST_SCRIPT)).hexdigest()
    except OSError as fault:
        return str(fault.strerror).lower()


def ras(spec: Message) -> Message:
    """Ask NCCL on this node about all ranks of its job: its answer, or why there is none.

    A NCCL that knows no JSON says so and answers in its table; it ends the connection after the answer.
    """
    host, _, port = spec["address"].rpartition(":")
    until, found = time.monotonic() + spec["within"], b""
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=3) as sock:
            sock.sendall(b"set format json\nverbose status\n")
            while len(found) <= spec["most"] and time.monotonic() < until:
                sock.settimeout(max(0.1, until - time.monotonic()))
                part = sock.recv(1 << 16)
                if not part:
                    return {"text": found.decode("utf-8", "replace")}
                found += part
    except OSError as fault:
        return {"fault": f"{spec['address']}: {fault.strerror or 'no answer'}".lower()}
    return {"fault": f"{spec['address']}: {'no end of its answer' if found else 'no answer'}"}
