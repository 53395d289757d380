"""`vsphere-ai schema`: JSON Schemas of files and documents, for editors and other programs."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from vsphere_ai.cli.console.options import changes_nothing, to_option

HELP_ENTRY = "Look up, without a connection", 20, "Print a JSON Schema for editors."


def _names(_ctx: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    from vsphere_ai.app.project.schemas import schemas

    return [CompletionItem(name) for name in schemas() if name.startswith(begun)]


@click.command("schema")
@click.argument("name", required=False, shell_complete=_names)
@to_option("Write it to FILE; an older schema of the same name is replaced, another file is not.")
@changes_nothing
def command(name: str | None, to: Path | None) -> None:
    """Print the JSON Schema NAME (draft-07) for editors and other programs. Without NAME, list the schemas.

    Needs no connection.

    Exits 0, and 64 where there is no such schema, or its file would replace another one.
    """
    from vsphere_ai.app.project.schemas import schema, schemas, write_schema
    from vsphere_ai.errors import UsageError

    if name is None:
        if to is not None:
            raise UsageError("--to needs the name of a schema", f"there are: {', '.join(schemas())}")
        width = max(map(len, schemas()))
        for each, what in schemas().items():
            click.echo(f"{each:{width}}  {what}")
    elif to is None:
        click.echo(schema(name), nl=False)
    else:
        written = write_schema(name, to)
        click.echo(f"{to} is there already, the same." if written.unchanged else f"{to} is written.")
