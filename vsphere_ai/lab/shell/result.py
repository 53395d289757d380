"""Result of a shell command, and the table in which commands are found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vsphere_ai.lab.hardware.host import LabHost


@dataclass(frozen=True)
class ShellResult:
    """Exit status and what was written to standard output and standard error."""

    status: int = 0
    stdout: str = ""
    stderr: str = ""


Command = Callable[[LabHost, Sequence[str]], ShellResult]
"""A command takes the host and its arguments without its own name. It locks the host itself."""
