"""The lines of `-o json`: whatever ends the command, the first one is a header and the last one a summary."""

from __future__ import annotations

from contextlib import suppress

import click

from vsphere_ai.cli.console import streams

_awaited: set[str] = set()
"""Which of ``header`` and ``summary`` are still to come; nothing where no stream was begun."""
_failed: list[tuple[str, str]] = []


def expect(form: str) -> None:
    """Begin a stream, if that is the form."""
    _awaited.clear()
    _failed.clear()
    if form == "json":
        _awaited.update(("header", "summary"))


def failure() -> str:
    """Return the id of the error that ended the command; "" when none did."""
    return next((rule for _, rule in _failed), "")


def write(kind: str, line: str) -> None:
    """Write a ``header`` or a ``summary``."""
    _awaited.discard(kind)
    click.echo(line)


def fail(error: str, rule: str) -> None:
    """Keep what ended the command, and its id, for a summary."""
    _failed.append((error, rule))


def close(code: int) -> None:
    """End a stream that has no summary yet: its command ended before there was a plan. `code` is the process's."""
    if not _awaited:
        return
    from vsphere_ai.report.plans.run_json import ended_line, header_line

    with suppress(OSError):  # no one reads any more
        if "header" in _awaited:
            write("header", header_line("", 0))
        if "summary" in _awaited:
            error = "\n".join(text for text, _ in _failed)
            write("summary", ended_line(code, error, failure(), streams.remarks()))
    _awaited.clear()
