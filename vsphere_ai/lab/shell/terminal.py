"""The ESXi Shell on a terminal: banner, prompt, echo and line editing with backspace, Ctrl-C and Ctrl-D."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.shell.run import run_line

_BANNER = (
    "The time and date of this login have been sent to the system logs.\n\n"
    "This host is part of the vsphere-ai lab: nothing here is real, and `exit` leaves.\n\n"
)


class Wire(Protocol):
    """The two ends of a terminal, as an SSH channel has them."""

    def recv(self, size: int) -> bytes:
        """Return what was typed; empty when the client is gone."""

    def sendall(self, data: bytes) -> None:
        """Show bytes."""


def converse(host: LabHost, wire: Wire) -> int:
    """Talk until `exit`, Ctrl-D or the client is gone; return the status of the last command."""
    prompt = f"[root@{host.name.partition('.')[0]}:~] "
    status = 0
    _show(wire, _BANNER + prompt)
    for line in _lines(wire, prompt):
        if line.strip() in ("exit", "logout"):
            break
        result = run_line(host, line)
        status = result.status
        _show(wire, result.stdout + result.stderr + prompt)
    return status


def _lines(wire: Wire, prompt: str) -> Iterator[str]:
    line = ""
    while data := wire.recv(1024):
        for char in data.decode(errors="ignore"):
            if char == "\r":
                _show(wire, "\n")
                yield line
                line = ""
            elif char in "\x7f\b" and line:
                _show(wire, "\b \b")
                line = line[:-1]
            elif char == "\x03":
                _show(wire, "^C\n" + prompt)
                line = ""
            elif char == "\x04" and not line:
                _show(wire, "\n")
                return
            elif char.isprintable():
                _show(wire, char)
                line += char


def _show(wire: Wire, text: str) -> None:
    wire.sendall(text.replace("\n", "\r\n").encode())
