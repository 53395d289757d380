"""`vsphere-ai examples`: example playbooks and inventories, and recipes for other tools, out of the package."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from vsphere_ai.cli.console.forms import output_option, show_document
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import changes_nothing, to_option

HELP_ENTRY = "Set up", 30, "Print or copy example playbooks, inventories and recipes."


def _names(_ctx: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    from vsphere_ai.app.project.example_files import examples

    return [CompletionItem(each.name) for each in examples() if each.name.startswith(begun)]


@click.command("examples")
@click.argument("name", required=False, default="", metavar="[NAME]", shell_complete=_names)
@to_option(
    "Copy it, or all of them, below DIR; a file that is there with another content is kept.",
    click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
)
@output_option(names="examples.name")
@changes_nothing
@example("examples playbooks")
@example("examples pvrdma-only --to try")
def command(name: str, to: Path | None, form: str) -> None:
    """Print the example NAME: a playbook, an inventory, a recipe for CI or Ansible. Without NAME, list them.

    NAME may be a folder (integrations/ci): then its examples are listed or copied.

    Needs no connection.

    Exits 0, and 64 where there is no such example.
    """
    from vsphere_ai.app.project.example_files import copy_examples, example, examples
    from vsphere_ai.cli.console.streams import fitted
    from vsphere_ai.documents.setup.files import ExampleEntry, ExamplesDocument, written_files

    if to is not None:
        copied = copy_examples(name, to)
        lines = (f"{path} is there already, the same." if same else f"{path} is written." for path, same in copied)
        show_document(
            form, written_files(*(("unchanged" if same else "written", path) for path, same in copied)), *lines
        )
        return
    listed = examples(name)
    if name and not listed:
        text = example(name)
        if form == "text":
            click.echo(text, nl=False)
            return
        found = next(each for each in examples() if example(each.name) == text)
        entries = [ExampleEntry(name=found.name, about=found.about, text=text)]
    else:
        entries = [ExampleEntry(name=each.name, about=each.about, text=None) for each in listed]
    lines = (line for each in listed for line in (each.name, fitted(f"    {each.about}", "    ")))
    show_document(form, ExamplesDocument(examples=tuple(entries)), *lines)
