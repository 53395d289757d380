"""Faults of a connection: it is cut, reset, or held without a word."""

from __future__ import annotations

import os
import select
import socket
import struct

from vsphere_ai.lab.faults.engine import Fired

_POLL_MS = 100
# Linux shows that the peer has closed even while bytes of it lie unread
_GONE = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)


def reset(sock: socket.socket) -> None:
    """Close a connection with RST, as a firewall or a dead process does."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        number = sock.detach()  # close() would wait for the files made from the socket
    except OSError:
        return
    if number >= 0:
        os.close(number)


def cut(sock: socket.socket) -> None:
    """End a connection in both directions without TLS's or SSH's farewell."""
    try:
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
    except OSError:
        return


def hold(sock: socket.socket, fired: Fired) -> None:
    """Stay silent until the peer gives up or the faults are cleared."""
    try:
        watch = select.poll()
        watch.register(sock.fileno(), _GONE)
    except (OSError, ValueError):
        return
    while not fired.released.is_set():
        if any(what & (_GONE | select.POLLNVAL) for _, what in watch.poll(_POLL_MS)):
            return
