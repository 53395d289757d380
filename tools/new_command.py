"""A new command: ``python -m tools.new_command NAME`` writes its files, which work and pass the tests at once.

The command they make lists hosts with their connection. What it is to do instead replaces that, file by file.
"""

from __future__ import annotations

import re
import sys

from tools.scaffolding import WORDS, Generator, Insertion, NotScaffolded, Scaffold, run
from vsphere_ai.cli.commands import commands

SHORT = re.compile(rf"(?=.{{2,12}}$){WORDS.pattern}")
"""Beside longer names the texts of `--help` would take two lines."""

COMMAND = '''"""`vsphere-ai $dashed`: hosts and their connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.forms import output_option, show_document
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import changes_nothing, estate_options

if TYPE_CHECKING:
    from vsphere_ai.app.estate.scope import EstateRequest

HELP_ENTRY = "Look, and compare", 100, "List hosts and their connection."  <<< section, place, one line of text


@click.command("$dashed")
@estate_options  <<< its arguments and options; those that several commands share are in options.py
@output_option(names="hosts.host")  <<< `names`: what `-o name` prints; nothing where it lists no things
@changes_nothing  <<< one that changes something has @dry_run_option instead, and asks is_dry_run()
@example("$dashed")  <<< as typed on the lab, where a test carries it out; `needs`: what it needs beside the lab
def command(form: str, estate: EstateRequest) -> int:
    """List hosts and whether vCenter reaches them; changes nothing.  <<< its help, which names its exit codes

    Exits 2 when a host is not connected.
    """
    from vsphere_ai.app.estate.$name import ${Class}Request, list_$name
    from vsphere_ai.documents.$name import ${Class}Document, ${Class}Host
    from vsphere_ai.report.layout import table

    result = list_$name(${Class}Request(estate), show_event)
    hosts = tuple(${Class}Host(host=name, connection=state) for name, state in result.hosts)
    document = ${Class}Document(vcenter=result.about, hosts=hosts)
    show_document(form, document, table(("host", "connection"), result.hosts))  <<< how the result is shown
    return result.exit_code
'''

DOCUMENT = '''"""Document of `$dashed`: hosts and their connection."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.documents.printed import PrintedDocument
from vsphere_ai.model.facts import About


class ${Class}Host(DocumentPart):
    """A host."""  <<< the parts of the document

    host: str
    connection: Annotated[str, Field(description="unknown: vCenter does not show it.")]


class ${Class}Document(PrintedDocument):
    """What `$dashed` prints."""

    printed_by: ClassVar = ("$dashed",)

    vcenter: About
    hosts: tuple[${Class}Host, ...]
'''

APP = '''"""Hosts and their connection, as `vsphere-ai $dashed` lists them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from vsphere_ai.app.estate.read_estate import read_hosts
from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Emit, ignore
from vsphere_ai.model.facts import About, Estate
from vsphere_ai.model.state import Target

CONNECTION = "runtime.connectionState"


@dataclass(frozen=True)
class ${Class}Request:
    """Which hosts to list: those within the limit of the estate request."""  <<< what the user asks for

    estate: EstateRequest = field(default_factory=EstateRequest)


@dataclass(frozen=True)
class ${Class}Result:
    """Pairs of the name of a host and its connection."""  <<< the answer, and its exit code

    about: About
    hosts: tuple[tuple[str, str], ...]

    @property
    def exit_code(self) -> int:
        """2 when a host is not connected, else 0."""
        return 2 * any(connection != "connected" for _, connection in self.hosts)


def list_$name(request: ${Class}Request, emit: Emit = ignore) -> ${Class}Result:
    """List hosts with their connection. Changes nothing."""  <<< what it does
    with open_session(request.estate, None, emit) as session:
        estate, hosts = read_hosts(session, ())
        return ${Class}Result(session.connection.vcenter.about, rows_of(estate, hosts))


def rows_of(estate: Estate, hosts: Iterable[Target]) -> tuple[tuple[str, str], ...]:
    """Return pairs of the name of a host and its connection, ``unknown`` where vCenter does not show it."""
    return tuple((host.name, str(estate[host.ref].get(CONNECTION, "unknown"))) for host in hosts)
'''

TEST = '''"""`vsphere-ai $dashed`: what it lists, and its exit codes."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from support.estates import ABOUT, ESX1, ESX2, estate, host
from support.places import INVENTORY

from vsphere_ai.app.estate.$name import CONNECTION, ${Class}Result, rows_of


@pytest.mark.parametrize(("second", "code"), [("connected", 0), ("notResponding", 2)])  <<< what is there -> exit code
def test_a_host_that_is_not_connected(second, code):
    there = estate(host(ESX1, **{CONNECTION: "connected"}), host(ESX2, **{CONNECTION: second}))
    result = ${Class}Result(ABOUT, rows_of(there, (ESX1, ESX2)))
    assert result.hosts == ((ESX1.name, "connected"), (ESX2.name, second))
    assert result.exit_code == code


@pytest.mark.lab
def test_on_the_lab(lab):
    from vsphere_ai.cli.look.$name import command

    words = ["-i", str(INVENTORY), "--limit", "esx01*", "-o", "json"]
    done = CliRunner().invoke(command, words, standalone_mode=False, catch_exceptions=False)
    assert done.return_value == 0
    assert json.loads(done.stdout)["hosts"] == [{"host": "esx01.lab.local", "connection": "connected"}]
'''

SECTION = """### `vsphere-ai $dashed`

Lists hosts and whether vCenter reaches them. Exits 2 where a host is not connected. Changes nothing.  <<< what it does

| option | meaning |  <<< a row for each option
|---|---|
| `-i`, `--inventory`, `--vcenter`, `--limit`, `--start-ssh`, `--parallel` | see above |
| `-o`, `--output FORM` | |

"""


def values(name: str) -> dict[str, str]:
    """Return nothing more; raise `NotScaffolded` for a command that is there, in whatever folder of cli."""
    dashed = name.replace("_", "-")
    if dashed in commands():
        raise NotScaffolded(f"there is a command {dashed} already: {commands()[dashed].module}")
    return {}


SCAFFOLD = Scaffold(
    program="new_command",
    what="a command",
    example="reachable",
    files={
        "vsphere_ai/cli/look/$name.py": COMMAND,
        "vsphere_ai/app/estate/$name.py": APP,
        "vsphere_ai/documents/$name.py": DOCUMENT,
        "tests/cli/test_${name}_command.py": TEST,
    },
    insertions=(Insertion("docs/cli.md", "## Exit codes", SECTION),),
    generators=(Generator("tools.docgen.schemas", ("docs/schemas",)),),
    then=(
        "fill in; the command may lie in another folder of cli, as its section of --help says",
        "the function of app may lie in another of its rooms (docs/architecture.md)",
        "docs/cli.md, the table at the top, where it answers a question",
        "docs/python-api.md and vsphere_ai/app/__init__.py, where the function is for programs of others",
    ),
    name=SHORT,
    values=values,
)

if __name__ == "__main__":
    sys.exit(run(SCAFFOLD, sys.argv[1:]))
