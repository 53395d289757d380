"""Connections between the supervisors of a run: one message per line, and both sides prove that they are of the run.

Anyone who reaches the port of the first node can connect to it, and anyone on that machine can listen on the port while
no supervisor does. The token of the run is in neither's messages: each answers the other's challenge with it.
"""

from __future__ import annotations

import hmac
import json
import secrets
import selectors
import socket
import time

from vsphere_ai.app.training.node_program.processes import Message

INTRODUCTION, MOST_STRANGERS, LONGEST_HELLO = 20.0, 256, 4096
"""Seconds to prove to be a node of the run, how many may be about to, and bytes of that."""
NOT_OURS = (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError)
"""What a message raises, or a connection, that is not of the run."""


class LineConnection:
    """A connection with one message per line."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock, self.rest, self.heard, self.closed = sock, b"", time.monotonic(), False
        self.kept: list[Message] = []
        """Messages that came together with one that was waited for."""
        sock.settimeout(20)

    def send(self, message: Message) -> None:
        """Send a message; a connection that does not take it is closed."""
        try:
            self.sock.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self.closed = True

    def read(self) -> list[Message]:
        """Return the messages that have come, those that are kept without waiting for others."""
        if self.kept:
            kept, self.kept = self.kept, []
            return kept
        try:
            found = self.sock.recv(65536)
        except OSError:
            found = b""
        self.heard, self.closed = time.monotonic(), self.closed or not found
        *lines, self.rest = (self.rest + found).split(b"\n")
        self.closed = self.closed or len(self.rest) > 1 << 20
        return [json.loads(line) for line in lines]

    def line(self) -> Message:
        """Wait for one message; `OSError` where none comes."""
        while True:
            found = self.read()
            if found:
                first, *self.kept = found
                return first
            if self.closed:
                raise OSError("the connection ended")


def proof(token: str, side: str, nonce: str) -> str:
    """Return what only a node of the run can answer to a challenge, as ``node`` or as ``head``: never both the same."""
    return hmac.new(token.encode(), f"{side} {nonce}".encode(), "sha256").hexdigest()


def is_proved(message: object, token: str, side: str, nonce: str) -> bool:
    """Return whether a message of anyone who has connected proves that it is of a node of this run."""
    given = message.get("proof") if isinstance(message, dict) else None
    wanted = proof(token, side, nonce)
    return isinstance(given, str) and hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())


class Strangers:
    """Those who have connected to the first node and are to prove first that they are nodes of the run.

    Anyone who reaches the port connects: no one is waited for alone, and no one is heard for long.
    """

    def __init__(self, server: socket.socket, spec: Message) -> None:
        self.server, self.spec = server, spec
        self.waiting: dict[LineConnection, tuple[str, float]] = {}
        server.setblocking(False)

    def proved(self, within: float) -> dict[int, LineConnection]:
        """Return the nodes that have proved it, after waiting for some seconds at most for anything to happen."""
        with selectors.DefaultSelector() as ready:
            ready.register(self.server, selectors.EVENT_READ)
            for link in self.waiting:
                ready.register(link.sock, selectors.EVENT_READ, link)
            events = [key.data for key, _ in ready.select(within)]
        found = {}
        for link in events:
            if link is None:
                self.accept()
            elif link in self.waiting:
                found.update(self.hear(link))
        now = time.monotonic()
        for link in [each for each, (_, since) in self.waiting.items() if now - since > INTRODUCTION]:
            self.drop(link)
        return found

    def accept(self) -> None:
        """Take a connection, and send it what it is to answer."""
        try:
            link = LineConnection(self.server.accept()[0])
        except OSError:
            return
        if len(self.waiting) >= MOST_STRANGERS:
            self.drop(next(iter(self.waiting)))
        nonce = secrets.token_hex(16)
        self.waiting[link] = nonce, time.monotonic()
        link.send({"nonce": nonce})

    def hear(self, link: LineConnection) -> dict[int, LineConnection]:
        """Return the node that a message proves, with its connection; what is none ends the connection."""
        try:
            messages = link.read()
            if not messages and not link.closed and len(link.rest) <= LONGEST_HELLO:
                return {}
            hello, *link.kept = messages
            if not is_proved(hello, self.spec["token"], "node", self.waiting[link][0]):
                raise ValueError("not a node of the run")
            number, nonce = int(hello["node"]), str(hello["nonce"])
            if not 0 < number < self.spec["nodes"]:
                raise ValueError("not a node of the run")
        except NOT_OURS:
            self.drop(link)
            return {}
        del self.waiting[link]
        link.send({"proof": proof(self.spec["token"], "head", nonce)})
        return {number: link}

    def drop(self, link: LineConnection) -> None:
        """End a connection that has proved nothing."""
        del self.waiting[link]
        link.sock.close()

    def close(self) -> None:
        """End the connections of all who have proved nothing."""
        for link in list(self.waiting):
            self.drop(link)
