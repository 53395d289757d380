"""SSH to an ESXi host: commands with a deadline, whose outcome is unknown where they change something."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NoReturn

from vsphere_ai.connect.secure_shell.ssh import LARGEST_OUTPUT, SshClient
from vsphere_ai.connect.secure_shell.ssh_endpoint import ConnectionBroken, Unended
from vsphere_ai.errors import OutcomeUnknown, Unreachable
from vsphere_ai.model.facts import CommandOutput


class EsxiSsh(SshClient):
    """A connection to one host, opened by the first command. A context manager that closes it."""

    def run(self, argv: Sequence[str], deadline_s: float, *, changes: bool = False) -> CommandOutput:
        """Run one command and return its status and output.

        Without an end within `deadline_s` seconds, or when the connection breaks, it is given up, and the error is
        OutcomeUnknown if the command `changes` something, else Unreachable.
        """
        command = shlex.join(argv)
        try:
            ended = self.carry_out(command, deadline_s)
        except Unended as error:
            self._abandon(command, error, changes=changes)
        if ended.cut:
            if not self.is_busy:  # it still writes
                self.close()
            self._abandon(command, Unended(f"it wrote more than {LARGEST_OUTPUT >> 20} MiB"), changes=changes)
        return CommandOutput(ended.status, ended.out.decode("utf-8", "replace"), ended.err.decode("utf-8", "replace"))

    def _abandon(self, command: str, unended: Unended, *, changes: bool) -> NoReturn:
        said = f"{self.endpoint.host}: `{command}`: {unended.why}"
        if changes:
            raise OutcomeUnknown(said, "Plan again to see whether it took effect.") from unended
        kind = ConnectionBroken if unended.broke else Unreachable
        raise kind(said, "Look whether the host is well, then try again.") from unended
