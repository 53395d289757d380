"""Examples at the end of the help of a command; those that need no more than the lab are carried out by a test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import click

from vsphere_ai.cli.console.defaults import tree_of

F = TypeVar("F", bound=Callable[..., int | None])
PROGRAM = "vsphere-ai"
TRAINING = "the lab's scenario `training`, and playbooks/training-set.yml applied"
"""What examples about VMs of a set need: ``lab up --scenario training`` and ``inventories/training.yml``."""
JOB = f"job.yml, a training job; {TRAINING}"
"""What examples of jobs need."""


@dataclass(frozen=True)
class Example:
    """A command line without the program's name, and in words what it needs beside the lab; "": nothing."""

    line: str
    needs: str = ""

    def __str__(self) -> str:
        return f"{PROGRAM} {self.line}"


def example(line: str, *, needs: str = "") -> Callable[[F], F]:
    """Add an example to the help of a command. Several stand in the order in which they are written."""

    def declare(function: F) -> F:
        function.__dict__["examples"] = (Example(line, needs), *function.__dict__.get("examples", ()))
        return function

    return declare


def examples_of(command: click.Command) -> Sequence[Example]:
    """Return the examples of a command; a group has none."""
    return command.callback.__dict__.get("examples", ()) if command.callback else ()


def example_lines(command: click.Command) -> list[str]:
    """Return the examples of a command as lines: those that need more last, what they need as a comment above them."""
    lines: list[str] = []
    needs = ""
    for each in sorted(examples_of(command), key=lambda example: bool(example.needs)):
        lines += [f"# needs {each.needs}"] if each.needs != needs else []
        lines.append(str(each))
        needs = each.needs
    return lines


def with_examples(command: click.Command) -> click.Command:
    """Show the examples of a command, and of all below a group, at the end of their help."""
    for _words, each in tree_of("", command):
        if lines := example_lines(each):
            each.epilog = "\n".join(("Examples:", "", "\b", *lines))
    return command
