"""``vsphere-ai lab plant``: defects of hardware and guests in the lab, which checks and benchmarks are to find."""

from __future__ import annotations

import click

from vsphere_ai.cli.setup.lab_faults import Find
from vsphere_ai.errors import UsageError


@click.command("plant")
@click.argument("defects", nargs=-1, metavar="[DEFECT]...")
@click.option("--clear", is_flag=True, help="Remove all of them.")
@click.pass_obj
def plant(find: Find, defects: tuple[str, ...], clear: bool) -> None:
    """Inject hardware faults, such as '{kind: gpu-slow, host: esx01*, factor: 0.75}'; without one, list them.

    They replace those of before.

    Exits 0, and 64 where no lab runs.
    """
    from vsphere_ai.model.bounded import yaml_value

    lab = find()
    if defects or clear:
        try:
            lab.set_defects(*(yaml_value(text) for text in defects))
        except ValueError as error:
            text = f"a defect is not YAML: {error}"
            raise UsageError(text, "write for example: {defect: rail-slow, vm: train-01}") from error
    found = lab.get("/lab/defects")["defects"]
    if not found:
        click.echo("There are no defects.")
    for each in found:
        rest = ", ".join(f"{name} {value}" for name, value in each.items() if name != "kind")
        click.echo(f"{each['kind']}{': ' if rest else ''}{rest}")
