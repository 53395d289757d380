"""Names of guests and what they are on this machine: addresses, folders, and the variable that marks a run.

Guests of one machine share its loopback network, its files and its list of processes. So each address of a guest has
one of 127.0.0.0/8, each folder that guests have at the same place one of the guest's own, and the variable by which
the processes of a run are found another name in each guest. Whatever goes into a guest over SSH, commands and their
input, is rewritten that way, and what comes out of it back: a job sees the addresses of this machine, an operator
those of the plan. Files that are put into a guest's folders by other ways are not.
"""

from __future__ import annotations

import re
import secrets
import socket
import threading
from collections.abc import Iterable, Mapping

RUNS, SHARED, MARK = "/var/tmp/vsphere-ai", "/shared", "VSPHERE_AI_RUN"  # noqa: S108 - as a guest names them
_ADDRESS = re.compile(rb"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d]|\.\d)")
PORT = 29399
"""A port that each lab holds on the first address of its network, so that no two labs have the same one."""


class LoopbackNetwork:
    """Addresses of 127.0.0.0/8 for those of guests: ``127.A.B.1`` and on, in a network that no other lab has."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._own: dict[bytes, bytes] = {}
        self._theirs: dict[bytes, bytes] = {}
        self._holder, self._prefix = _held()

    @property
    def lab(self) -> str:
        """The address of the lab itself."""
        return f"{self._prefix}.0.1"

    def learn(self, addresses: Iterable[str]) -> None:
        """Give each IPv4 address that has none yet one of this machine."""
        with self._lock:
            for address in addresses:
                text = address.encode()
                if ":" not in address and text not in self._own:
                    number = len(self._own) + 2
                    own = f"{self._prefix}.{number >> 8}.{number & 255}".encode()
                    self._own[text], self._theirs[own] = own, text

    def inward(self, text: bytes) -> bytes:
        """Put the addresses of this machine in the place of those of guests."""
        return _ADDRESS.sub(lambda found: self._own.get(found[0], found[0]), text)

    def outward(self, text: bytes) -> bytes:
        """Put the addresses of guests back."""
        return _ADDRESS.sub(lambda found: self._theirs.get(found[0], found[0]), text)

    def close(self) -> None:
        """Leave the network to other labs."""
        self._holder.close()


def _held() -> tuple[socket.socket, str]:
    """Return a socket that holds a free network of 127.0.0.0/8, and the first two numbers of its addresses."""
    while True:
        prefix = f"127.{secrets.randbelow(250) + 2}"
        holder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            holder.bind((f"{prefix}.0.1", PORT))
        except OSError:
            holder.close()
            continue
        return holder, prefix


class GuestNames:
    """Names of one guest, and back. `pairs` are texts of the guest with those of this machine."""

    def __init__(self, network: LoopbackNetwork, pairs: Mapping[str, str]) -> None:
        self._network = network
        self._in = {own.encode(): other.encode() for own, other in pairs.items()}
        self._out = {other: own for own, other in self._in.items()}
        self._inward, self._outward = _any_of(self._in), _any_of(self._out)

    def inward(self, text: bytes) -> bytes:
        """Return what goes into the guest in names of this machine."""
        return self._network.inward(self._inward.sub(lambda found: self._in[found[0]], text))

    def outward(self, text: bytes) -> bytes:
        """Return what comes out of the guest in names of the guest."""
        return self._network.outward(self._outward.sub(lambda found: self._out[found[0]], text))


def _any_of(texts: Iterable[bytes]) -> re.Pattern[bytes]:
    """Match a name alone, or the beginning of a path below it: not a part of a longer word."""
    longest_first = sorted(texts, key=len, reverse=True)
    return re.compile(rb"(?<![\w./-])(?:" + b"|".join(map(re.escape, longest_first)) + rb")(?![\w-]|\.\w)")
