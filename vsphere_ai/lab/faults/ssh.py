"""Runs a command of an SSH session under a fault."""

from __future__ import annotations

import socket
from collections.abc import Callable

import paramiko

from vsphere_ai.lab.faults import sockets
from vsphere_ai.lab.faults.engine import Fired
from vsphere_ai.lab.shell.result import ShellResult

GARBAGE = "\x00\ufffd\x1b[0m<<<\n\x00" * 4
_CUTTING = ("drop", "lost-reply", "reset", "hang")


def carry_out(
    fired: Fired, channel: paramiko.Channel, run: Callable[[], ShellResult], strike: Callable[[Fired], None]
) -> int | None:
    """Return the exit status to send; None when no client is left to send it to."""
    action, when = fired.rule.do, fired.rule.when
    result: ShellResult | None = None
    if when == "before":
        strike(fired)
        if not channel.get_transport().is_active():  # the host has just lost its power
            return None
        if action.word in _CUTTING:
            _end(fired, channel)
            return None
        fired.wait()
        if action.word in ("exit", "truncate", "malformed"):
            result = ShellResult()
    if result is None:
        result = run()
    if when != "before":
        strike(fired)
    result = _spoilt(action.word, action.number, result)
    if when == "mid-body":
        half = len(result.stdout) // 2
        channel.sendall(result.stdout[:half].encode())
        result = ShellResult(result.status, result.stdout[half:], result.stderr)
    if when != "before":
        if action.word in _CUTTING:
            _end(fired, channel)
            return None
        fired.wait()
    channel.sendall(result.stdout.encode())
    channel.sendall_stderr(result.stderr.encode())
    return result.status


def _spoilt(word: str, number: int, result: ShellResult) -> ShellResult:
    if word == "exit":
        return ShellResult(number, "", "")
    if word == "truncate":
        return ShellResult(result.status, result.stdout[: len(result.stdout) // 2], "")
    return ShellResult(result.status, GARBAGE, "") if word == "malformed" else result


def _end(fired: Fired, channel: paramiko.Channel) -> None:
    transport = channel.get_transport()
    if fired.rule.do.word == "hang":
        while transport.is_active() and not fired.released.wait(0.1):
            pass
    if isinstance(transport.sock, socket.socket):  # else it is a channel in another connection
        (sockets.reset if fired.rule.do.word == "reset" else sockets.cut)(transport.sock)
    transport.close()
