"""Values of SSH connections: endpoints, limits, what a command ended with, and what goes wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from vsphere_ai.errors import Unreachable
from vsphere_ai.security.redaction import untrusted


class SshRefused(Unreachable):
    """The machine answers, but nothing listens: the SSH service is stopped."""


class ConnectionBroken(Unreachable):
    """The connection ended in the middle of the handshake, the login or a command that only reads."""

    def __init__(self, message: str, remedy: str = "", *, before_login: bool = False) -> None:
        super().__init__(message, remedy)
        self.before_login = before_login


class TooManySessions(Unreachable):
    """The machine opens no further session beside those that are open (MaxSessions in its sshd_config)."""


class Unended(Exception):
    """The end of a command was not seen: `why`, and whether the connection `broke`."""

    def __init__(self, why: str, *, broke: bool = False) -> None:
        super().__init__(why)
        self.why, self.broke = why, broke


@dataclass(frozen=True)
class Ended:
    """What a command ended with. `cut`: it wrote more than it may, was given up, and its `status` is not known."""

    status: int
    out: bytes
    err: bytes
    cut: bool = False


@dataclass(frozen=True)
class SshAdvice:
    """Remedies for a kind of machine: nothing listens, refused login, no way to log in, an unknown key, no greeting."""

    stopped: str = "Start the host's SSH service (TSM-SSH)."
    refused: str = "Correct ssh: in the inventory. It is not tried again: ESXi locks an account after a few failures."
    methods: str = "Give a key file under ssh: in the inventory."
    trust: str = "vsphere-ai trust host"
    starting: str = "The host may be starting up or shutting down."


@dataclass(frozen=True)
class SshEndpoint:
    """An SSH service. `host` is the name in vCenter, `address` and `port` are what is connected to.

    The login is made with a `password`, a `key_file`, or, with `agent`, with the keys of the SSH agent.
    """

    host: str
    address: str
    port: int
    username: str
    known_hosts: Path
    password: str | None = field(default=None, repr=False)
    key_file: Path | None = None
    passphrase: str | None = field(default=None, repr=False)
    agent: bool = False
    advice: SshAdvice = SshAdvice()


STOPPED = 5.0
"""Seconds beyond a limit that only pass while this process is stopped or its machine sleeps, not the host."""


@dataclass(frozen=True)
class SshLimits:
    """Seconds to connect, until the server's banner, and for the login; and how often a broken one is begun."""

    connect: float = 10.0
    banner: float = 15.0
    login: float = 15.0
    attempts: int = 3
    pause: float = 1.0


def say(error: BaseException) -> str:
    """Return what an error says, without secrets; a closed connection says nothing by itself."""
    said = untrusted(str((error.strerror if isinstance(error, OSError) else None) or error))
    return said or ("the connection was closed" if isinstance(error, EOFError) else type(error).__name__)
