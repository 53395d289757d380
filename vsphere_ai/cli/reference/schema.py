"""`vsphere-ai schema`: JSON Schemas of files and documents, for editors and other programs."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from vsphere_ai.cli.console.forms import output_option, show_document
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import changes_nothing, to_option

HELP_ENTRY = "Look up, without a connection", 20, "Print a JSON Schema for editors."


def _names(_ctx: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    from vsphere_ai.app.project.schemas import schemas

    return [CompletionItem(name) for name in schemas() if name.startswith(begun)]


@click.command("schema")
@click.argument("name", required=False, shell_complete=_names)
@to_option("Write it to FILE; an older schema of the same name is replaced, another file is not.")
@output_option(names="schemas.name")
@changes_nothing
@example("schema playbook --to playbook.schema.json")
def command(name: str | None, to: Path | None, form: str) -> None:
    """Print the JSON Schema NAME (draft-07) for editors and other programs. Without NAME, list the schemas.

    Needs no connection. A schema is JSON whatever the form of the output is, but for YAML.

    Exits 0, and 64 where there is no such schema, or its file would replace another one.
    """
    from vsphere_ai.app.project.schemas import schema, schemas, write_schema
    from vsphere_ai.errors import UsageError

    if name is None:
        if to is not None:
            raise UsageError("--to needs the name of a schema", f"there are: {', '.join(schemas())}")
        from vsphere_ai.documents.setup.files import SchemaEntry, SchemasDocument

        width = max(map(len, schemas()))
        entries = tuple(SchemaEntry(name=each, of=what) for each, what in schemas().items())
        show_document(
            form, SchemasDocument(schemas=entries), *(f"{each:{width}}  {what}" for each, what in schemas().items())
        )
    elif to is None:
        click.echo(schema(name), nl=False)
    else:
        from vsphere_ai.documents.setup.files import written_files

        same = write_schema(name, to).unchanged
        line = f"{to} is there already, the same." if same else f"{to} is written."
        show_document(form, written_files(("unchanged" if same else "written", to)), line)
