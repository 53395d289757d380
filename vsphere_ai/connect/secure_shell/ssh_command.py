"""Command over SSH: its input is sent, and both streams and the exit status are read, within a deadline."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from vsphere_ai.connect.secure_shell.ssh_endpoint import Ended, Unended

if TYPE_CHECKING:
    import paramiko

LATE, BROKE = "it did not end in time", "the connection broke"
_PAUSE = 0.02
"""Seconds until more of a command's input is sent, where its machine takes no more now."""
Seen = Callable[[bytes], None] | None
"""Is given the output of a command piece by piece."""


def collect(channel: paramiko.Channel, deadline: float, most: int, stdin: bytes | None, seen: Seen) -> Ended:
    """Read both streams and the exit status. paramiko's own wait for the status knows no deadline."""
    out, err = bytearray(), bytearray()
    pending = _Input(channel, stdin)
    while True:
        while channel.recv_ready() and len(out) <= most:
            piece = channel.recv(1 << 16)
            out += piece
            if seen is not None:
                seen(piece)
        while channel.recv_stderr_ready() and len(err) <= most:
            err += channel.recv_stderr(1 << 16)
        if len(out) + len(err) > most:
            return Ended(-1, bytes(out[:most]), bytes(err[: max(0, most - len(out))]), cut=True)
        left = deadline - time.monotonic()
        if left <= 0:
            raise Unended(LATE)
        if channel.eof_received or channel.closed:
            if channel.recv_ready() or channel.recv_stderr_ready():
                continue
            if not channel.status_event.wait(left):
                raise Unended(LATE)
            break
        pending.send()
        select.select([channel], [], [], min(left, _PAUSE if pending.left else 1.0))
    if channel.exit_status < 0:
        late = time.monotonic() >= deadline
        raise Unended(LATE if late else f"{BROKE} before its exit status came", broke=not late)
    return Ended(channel.exit_status, bytes(out), bytes(err))


class _Input:
    """What a command reads, sent as far as its machine takes it. None: its input stays open and empty."""

    def __init__(self, channel: paramiko.Channel, data: bytes | None) -> None:
        self.channel, self.left, self.is_open = channel, memoryview(data or b""), data is not None

    def send(self) -> None:
        """Send what can be sent without waiting, and the end after the last byte."""
        while self.left and self.channel.send_ready():
            self.left = self.left[self.channel.send(bytes(self.left[: 1 << 15])) :]
        if self.is_open and not self.left:
            self.channel.shutdown_write()
            self.is_open = False
