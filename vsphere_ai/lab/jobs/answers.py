"""Answers of the model to programs in guests: a server on loopback, which knows each guest by its token."""

from __future__ import annotations

import hmac
import json
import secrets
import socketserver
import threading
from collections.abc import Callable, Sequence
from typing import Any

from vsphere_ai.lab.shell.result import ShellResult

LONGEST = 1 << 20
"""Bytes of a question."""
Answer = Callable[[Sequence[str]], ShellResult]


class ModelServer(socketserver.ThreadingTCPServer):
    """Answers one question per connection: ``{"token", "argv"}``, then ``{"status", "stdout", "stderr"}``."""

    daemon_threads = True

    def __init__(self, address: str) -> None:
        super().__init__((address, 0), _Question)
        self._guests: dict[str, Answer] = {}
        threading.Thread(target=self.serve_forever, daemon=True, name="lab-model").start()

    def add(self, answer: Answer) -> dict[str, Any]:
        """Take a guest's answers; return where and with which token they are asked for."""
        token = secrets.token_urlsafe(18)
        self._guests[token] = answer
        return {"address": self.server_address[0], "port": self.server_address[1], "token": token}

    def answer(self, question: bytes) -> ShellResult:
        """Return the answer to a question; one that is not of a guest is refused."""
        try:
            asked = json.loads(question)
            token, argv = str(asked["token"]), [str(word) for word in asked["argv"]]
        except (ValueError, KeyError, TypeError) as fault:
            return ShellResult(2, "", f"the question cannot be read: {fault}\n")
        guest = next((own for known, own in self._guests.items() if hmac.compare_digest(known, token)), None)
        return guest(argv) if guest else ShellResult(2, "", "the token is not that of a guest\n")

    def close(self) -> None:
        """Answer nothing any more."""
        self.shutdown()
        self.server_close()


class _Question(socketserver.StreamRequestHandler):
    server: ModelServer

    def handle(self) -> None:
        result = self.server.answer(self.rfile.readline(LONGEST))
        answered = {"status": result.status, "stdout": result.stdout, "stderr": result.stderr}
        self.wfile.write(json.dumps(answered).encode())
