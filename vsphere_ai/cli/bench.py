"""`vsphere-ai bench`: results of benchmarks, read, checked and compared."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.options import FILE, format_option, gathering

if TYPE_CHECKING:
    from vsphere_ai.app.benchmark_parse import ParseRequest


@click.group("bench")
def command() -> None:
    """Benchmark the fabric of training VMs; find what is slow."""


def _parse_request() -> type[ParseRequest]:
    from vsphere_ai.app.benchmark_parse import ParseRequest

    return ParseRequest


@command.command("parse")
@gathering(
    "request",
    _parse_request,
    click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True)),
    click.option("--ranks", type=click.IntRange(1), help="Ranks that the runs were started with."),
    click.option("--gpu", default="", metavar="NAME", help="GPU of the runs, such as A100, for published figures."),
    click.option("--baseline", type=FILE, help="Compare with these figures."),
    click.option(
        "--tolerance", type=click.FloatRange(0, 1), default=0.1, show_default=True, help="Share below the baseline."
    ),
    click.option("--learn", "learned", type=FILE, help="Write a baseline of the runs that passed."),
)
@click.option("--summary", is_flag=True, help="Leave out the tables.")
@format_option()
def parse(request: ParseRequest, summary: bool, form: str) -> int:
    """Read output of nccl-tests (text or JSON, - is standard input), check it, and compare it; needs no connection.

    Exits 1 when a run failed a check, when a measurement of the baseline is missing, or when there is no run.
    """
    from vsphere_ai.app.benchmark_parse import parse_nccl
    from vsphere_ai.report.benchmark_text import parsed_document, parsed_text
    from vsphere_ai.report.json_text import json_text

    result = parse_nccl(request)
    click.echo(json_text(**parsed_document(result)) if form == "json" else parsed_text(result, rows=not summary))
    return result.exit_code
