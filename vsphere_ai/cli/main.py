"""The `vsphere-ai` command: finds the subcommand, and turns every error into words and an exit code."""

from __future__ import annotations

import difflib
import gc
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module

import click

from vsphere_ai import __version__
from vsphere_ai.cli.commands import SECTIONS, command_entry, commands
from vsphere_ai.cli.console import debug, forms, json_stream, signals, streams
from vsphere_ai.cli.console.defaults import default_map
from vsphere_ai.cli.console.help_examples import with_examples
from vsphere_ai.errors import InputError, VsphereAiError
from vsphere_ai.security import redaction

HELP = {"-h", "--help"}
COMPLETE = "_VSPHERE_AI_COMPLETE"
"""The environment variable by which a shell asks for completions."""


class Commands(click.Group):
    """Loads a subcommand when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order an operator needs them."""
        return list(commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command."""
        entry = command_entry(cmd_name)
        if entry is None:
            return None
        command = with_examples(debug.with_debug(import_module(entry.module).command))
        if os.environ.get(COMPLETE):
            from vsphere_ai.cli.setup.completion import offering

            return offering(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest a command for a misspelt one."""
        if args and command_entry(args[0]) is None and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], commands(), n=1)
            hint = f"Did you mean '{near[0]}'?" if near else f"There are: {', '.join(commands())}."
            raise click.UsageError(f"No such command '{args[0]}'. {hint}", ctx)
        name, command, rest = super().resolve_command(ctx, args)
        if name and command and not HELP.intersection(rest) and not os.environ.get(COMPLETE):
            ctx.default_map = {name: default_map(name, command, self)}
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by task, without importing them."""
        width = max(map(len, commands()))
        for section in SECTIONS:
            with formatter.section(section):
                formatter.write_dl([(f"{n:<{width}}", e.text) for n, e in commands().items() if e.section == section])


@click.group(cls=Commands, context_settings={"help_option_names": sorted(HELP)})
@click.version_option(__version__, prog_name="vsphere-ai")
def command() -> None:
    """Turn a VMware vSphere environment into a GPU farm for distributed AI training."""


def run() -> None:
    """Run the command line; the only place where exceptions end."""
    signals.bare()
    asked = os.environ.get(COMPLETE)
    if asked:
        from vsphere_ai.cli.setup import completion

        os._exit(completion.answer(command, asked))
    code = main(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # full, closed, or not there at all
            stream.flush()
    # the interpreter's own farewell answers a full stream with 120, and a late signal with death
    os._exit(code)


def main(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    json_stream.expect("text")  # until a command says otherwise
    with _guarded(), debug.ending():
        code = _main(arguments)
        for note in redaction.notes():
            streams.say(f"note: {note}")
        json_stream.close(code)
        forms.end()
        return streams.flushed(code)


@contextmanager
def _guarded() -> Iterator[None]:
    """Output holds no secret and nothing foreign, files are the owner's only, and a crash leaves no memory image.

    Facts are plain values without circles, and many: they are searched for circles less often than is usual.
    """
    searched = gc.get_threshold()
    gc.set_threshold(50_000, 20, 50)
    mask = os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    try:
        with streams.guarded(), signals.orderly():
            yield
    finally:
        os.umask(mask)
        gc.set_threshold(*searched)


def _main(arguments: list[str]) -> int:
    try:
        result = command.main(arguments, prog_name="vsphere-ai", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        error.show()
        return 64
    except (click.exceptions.Abort, KeyboardInterrupt):
        streams.say("stopped")
        return 130
    except signals.Terminated as stopped:
        streams.say("stopped")
        return 128 + stopped.number
    except (BrokenPipeError, SystemExit):  # click ends with 1 where the reader of the output left
        return streams.READER_LEFT
    except VsphereAiError as error:
        _show_error(error)
        return error.exit_code
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        streams.say(f"error: {where}{error.strerror or error}")
        return 8
    except Exception as error:
        return _bug(error)


def _show_error(error: VsphereAiError) -> None:
    from vsphere_ai.model.text import safe

    streams.status("")
    debug.show_traceback(error)
    json_stream.fail(error.message, error.rule)
    if isinstance(error, InputError):
        from vsphere_ai.report.diagnostics import diagnostics_text

        streams.say(diagnostics_text(error.diagnostics, error.compared_with))
        return
    for line in error.message.splitlines():
        streams.say(streams.fitted(f"{error.title}: {safe(line)}", "  "))
    for line in error.remedy.splitlines():
        streams.say(streams.fitted(f"  {safe(line)}", "  "))


def _bug(error: Exception) -> int:
    json_stream.fail(f"internal error: {type(error).__name__}", VsphereAiError.rule)
    streams.say(f"internal error: {type(error).__name__}: {redaction.untrusted(str(error))}")
    streams.say("  This is a bug in vsphere-ai. Run it with --debug to see where, and report it.")
    debug.show_traceback(error)
    return 70
