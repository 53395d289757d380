"""``vsphere-ai lab plant``: defects of hardware and guests in the lab, which checks and benchmarks are to find."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import click

from vsphere_ai.cli.console.forms import output_option, show_document
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import dry_run_option, is_dry_run
from vsphere_ai.cli.setup.lab_faults import Find
from vsphere_ai.errors import UsageError


@click.command("plant")
@click.argument("defects", nargs=-1, metavar="[DEFECT]...")
@click.option("--clear", is_flag=True, help="Remove all of them.")
@output_option()
@dry_run_option
@click.pass_obj
@example("lab plant '{kind: ecc, host: esx02*}'")
@example("lab plant --clear")
def plant(find: Find, defects: tuple[str, ...], form: str, clear: bool) -> None:
    """Inject hardware faults, such as '{kind: gpu-slow, host: esx01*, factor: 0.75}'; without one, list them.

    They replace those of before.

    Exits 0, and 64 where no lab runs.
    """
    from vsphere_ai.documents.lab import LabDefectsDocument

    lab, tried = find(), is_dry_run() and bool(defects or clear)
    lines = ["These would be the defects of the lab. Nothing was changed."] if tried else []
    if tried:
        found = _wanted(lab.check_defects, defects)
    else:
        if defects or clear:
            lab.set_defects(*_wanted(lab.check_defects, defects))
        found = lab.get("/lab/defects")["defects"]
    document = LabDefectsDocument.model_validate({"defects": found, "planted": not tried})
    show_document(form, document, *_lines(found), *lines)


def _wanted(check: Callable[[Sequence[object]], None], texts: Sequence[str]) -> list[Mapping[str, object]]:
    """Return the defects of the command line; `UsageError` where one is not YAML, or the lab has none such."""
    from vsphere_ai.model.bounded import yaml_value

    example = "write for example: {kind: rail-slow, vm: train-01, factor: 0.5}"
    try:
        values = [yaml_value(text) for text in texts]
    except ValueError as error:
        raise UsageError(f"a defect is not YAML: {error}", example) from error
    try:
        check(values)
    except ValueError as error:
        raise UsageError(str(error), example) from None
    return [each for each in values if isinstance(each, dict)]


def _lines(found: Iterable[Mapping[str, object]]) -> list[str]:
    lines = [
        f"{each['kind']}{': ' if len(each) > 1 else ''}"
        + ", ".join(f"{name} {value}" for name, value in each.items() if name != "kind")
        for each in found
    ]
    return lines or ["There are no defects."]
