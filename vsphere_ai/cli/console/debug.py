"""Log of the tool on standard error: `--debug`, an option of every command."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import click

from vsphere_ai.cli.console.defaults import tree_of
from vsphere_ai.security import redaction

VARIABLE = "VSPHERE_AI_DEBUG"
LOG = logging.getLogger("vsphere_ai")
"""What the modules of the tool log; not the libraries below, which log whole requests with what is secret in them."""


def debug_option() -> click.Option:
    """Return the option ``--debug``, which every command that does something has."""
    return click.Option(
        ["--debug"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        envvar=VARIABLE,
        callback=_begin,
        help="Log requests to vCenter and hosts, and tracebacks, to standard error; secrets are masked.",
    )


def with_debug(command: click.Command) -> click.Command:
    """Give a command, or all below a group, the option; once."""
    for _words, each in tree_of("", command):
        is_leaf = not isinstance(each, click.Group) or each.invoke_without_command
        if is_leaf and not any("--debug" in parameter.opts for parameter in each.params):
            each.params.append(debug_option())
    return command


class _Shown(logging.Handler):
    """Writes records to standard error, without secrets and without what a terminal would carry out."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(redaction.untrusted(self.format(record)), err=True)


def _begin(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if not wanted or is_on() or context.resilient_parsing:
        return
    handler = _Shown()
    handler.setFormatter(logging.Formatter("%(asctime)s.%(msecs)03d %(name)s: %(message)s", "%H:%M:%S"))
    LOG.addHandler(handler)
    LOG.setLevel(logging.DEBUG)


def is_on() -> bool:
    """Return whether the log is shown."""
    return any(isinstance(handler, _Shown) for handler in LOG.handlers)


@contextmanager
def ending() -> Iterator[None]:
    """Show the log, where it is asked for inside, no longer than to the end."""
    level = LOG.level
    try:
        yield
    finally:
        LOG.setLevel(level)
        for handler in [handler for handler in LOG.handlers if isinstance(handler, _Shown)]:
            LOG.removeHandler(handler)


def show_traceback(error: BaseException) -> None:
    """Write where an error arose, where the log is shown; without the values of variables."""
    for line in traceback.format_exception(error) if is_on() else ():
        click.echo(redaction.untrusted(line), err=True, nl=False)
