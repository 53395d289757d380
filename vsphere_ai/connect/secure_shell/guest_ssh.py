"""SSH to the guests of VMs: bounded output, and a deadline for every command."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vsphere_ai.connect.secure_shell.ssh import LARGEST_OUTPUT, SshClient
from vsphere_ai.connect.secure_shell.ssh_endpoint import ConnectionBroken, SshAdvice, SshEndpoint, SshLimits, Unended
from vsphere_ai.errors import Unreachable
from vsphere_ai.model.text import plain, safe

_ENDS_AFTER = 2
"""Seconds after the deadline at which the guest itself ends a command that still runs."""
_ADVICE = SshAdvice(
    stopped="Start the SSH service in the guest, or name its port under guests: in the inventory.",
    refused="Correct guests: in the inventory, or add the public key to the guest's authorized_keys.",
    methods="Give 'key_file' or 'agent: true' under guests: in the inventory.",
    trust="vsphere-ai trust guest",
    starting="The guest may be starting up or shutting down.",
)


class GuestTimedOut(Unreachable, title="timed out", rule="guest.timed-out"):
    """A command in a guest did not end within its deadline; the guest ends it by itself a little later."""


@dataclass(frozen=True)
class GuestSettings:
    """How to reach guests: an account that logs in with a key file, or with the keys of the SSH agent.

    `known_hosts` is the file of known keys. `connect_timeout` is in seconds, until there is a connection, and again
    until the server's banner. `addresses` maps the name of a VM to the address and port where its SSH service is
    reached, for guests that are not reached by their own address.
    """

    username: str
    known_hosts: Path
    key_file: Path | None = None
    passphrase: str | None = field(default=None, repr=False)
    agent: bool = False
    port: int = 22
    connect_timeout: float = 10.0
    addresses: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    def endpoint(self, vm: str, address: str) -> SshEndpoint:
        """Return the SSH service of a VM's guest."""
        at, port = self.addresses.get(vm, (address, self.port))
        login = (None, self.key_file, self.passphrase, self.agent)
        return SshEndpoint(vm, at, port, self.username, self.known_hosts, *login, advice=_ADVICE)


@dataclass(frozen=True)
class Done:
    """What a command ended with: its exit code, and what it wrote.

    `truncated`: it wrote more than may be read; it was ended, its code is -1, and the beginning of its output is here.
    """

    code: int
    out: str
    err: str
    truncated: bool = False

    @property
    def shown(self) -> str:
        """The last line that it wrote on its error output, else on its output, harmless for a terminal."""
        lines = [line for text in (self.out, self.err) for line in plain(text).splitlines() if line.strip()]
        return lines[-1].strip() if lines else ""


class GuestSsh(SshClient):
    """A connection to the guest of a VM, opened by the first command. A context manager that closes it."""

    def __init__(self, address: str, settings: GuestSettings, vm: str = "") -> None:
        self.vm = vm or address
        within = settings.connect_timeout
        super().__init__(settings.endpoint(self.vm, address), SshLimits(connect=within, banner=within))

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout: float = 30.0,
        most: int = LARGEST_OUTPUT,
        seen: Callable[[bytes], None] | None = None,
    ) -> Done:
        """Run a command, which reads `stdin` to its end, and return what it ended with.

        `seen` is given its output piece by piece, as it comes. `timeout` is in seconds, `most` in bytes of output.
        `GuestTimedOut` when it did not end in time, `Unreachable` or `Denied` when the guest cannot be reached. The
        guest ends a command by itself that outlives its deadline.
        """
        command = shlex.join(argv)
        limit = str(math.ceil(timeout) + _ENDS_AFTER)
        try:
            ended = self.carry_out(
                f"timeout -k {_ENDS_AFTER} {limit} {command}", timeout, most=most, stdin=stdin, seen=seen
            )
        except Unended as error:
            shown = safe(command if len(command) <= 120 else f"{command[:117]}...")
            said = f"{self.vm}: `{shown}`: {error.why}"
            if error.broke:
                raise ConnectionBroken(said, "Look whether the guest is well, then try again.") from error
            raise GuestTimedOut(f"{said} ({timeout:g} s)", "Look at the guest: its driver may hang.") from error
        return Done(ended.status, _text(ended.out), _text(ended.err), ended.cut)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
