"""Forms of output: `-o FORM`. YAML and names are made here of the JSON documents that a command prints.

A command knows text and JSON (and what else it offers) only, so that its YAML cannot differ from its JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO, TypeVar, cast

import click

if TYPE_CHECKING:
    from vsphere_ai.documents.printed import PrintedDocument

F = TypeVar("F", bound=Callable[..., int | None])
YAML, NAME = "yaml", "name"


def output_option(*choices: str, names: str = "") -> Callable[[F], F]:
    """Add ``-o``, ``--output`` with the given forms, text and JSON without any; the first is the default.

    Where JSON is one of them, YAML is another. `names`: where the JSON document lists things, as `names_in` takes it;
    then there is ``-o name``.
    """
    known = choices or ("text", "json")
    if "json" in known and YAML not in known:
        at = known.index("json") + 1
        known = (*known[:at], YAML, *known[at:])
    known += (NAME,) if names else ()

    def chosen(_context: click.Context, _option: click.Parameter, form: str) -> str:
        if form == NAME or (form == YAML and YAML not in choices):
            rewrite(form, names)
            return "json"
        return form

    form = click.Choice(known)
    return click.option(
        "-o", "--output", "form", type=form, default=known[0], callback=chosen, help="Form of the output."
    )


def show_document(form: str, document: PrintedDocument, *lines: str) -> None:
    """Print a document where JSON is wanted, else its text, in lines."""
    if form == "json":
        from vsphere_ai.report.json_text import json_text

        lines = (json_text(document),)
    for line in lines:
        click.echo(line)


def rewrite(form: str, names: str) -> None:
    """Print the JSON documents of this command in another form, until `end`."""
    end()
    sys.stdout = cast(TextIO, _Rewriting(sys.stdout, form, names))


def end() -> None:
    """Write what is left, and print as it comes again."""
    if isinstance(sys.stdout, _Rewriting):
        stream, rewriting = sys.stdout.stream, sys.stdout
        sys.stdout = stream
        rewriting.write_rest()


class _Rewriting:
    """A stream that writes each JSON document in another form as soon as it is whole, and other lines as they are."""

    def __init__(self, stream: TextIO, form: str, names: str) -> None:
        self.stream, self._form, self._names = stream, form, names
        self._pending = ""

    def write(self, text: str) -> int:
        self._pending += text
        if "\n" in text:  # every document ends with a line
            self._write_whole()
        return len(text)

    def write_rest(self) -> None:
        """Write what has not become a document, as it is."""
        self._write_whole()
        rest, self._pending = self._pending, ""
        if rest:
            self.stream.write(rest)

    def _write_whole(self) -> None:
        while self._pending:
            self._pending = self._pending.lstrip("\n")
            if not self._pending.startswith(("{", "[")):
                line, end_of_line, rest = self._pending.partition("\n")
                if not end_of_line:
                    return
                self.stream.write(f"{line}\n")
                self._pending = rest
                continue
            try:
                document, end_at = json.JSONDecoder().raw_decode(self._pending)
            except json.JSONDecodeError:
                return
            self._pending = self._pending[end_at:]
            self.stream.write(self._rewritten(document))

    def _rewritten(self, document: object) -> str:
        from vsphere_ai.report.other_forms import names_in, yaml_text

        if self._form == YAML:
            return yaml_text(document)
        return "".join(f"{name}\n" for name in names_in(document, self._names))

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)
