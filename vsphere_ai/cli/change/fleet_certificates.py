"""`vsphere-ai fleet certificates`: makes the certificates with which the processes of a fleet know each other."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from vsphere_ai.cli.console import streams
from vsphere_ai.cli.console.forms import output_option, show_document
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import dry_run_option, is_dry_run
from vsphere_ai.model.names.name_ranges import shell_word
from vsphere_ai.model.text import safe


@click.command("certificates")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("names", metavar="[NAME[,ADDRESS]...]...", nargs=-1)
@click.option("--days", type=click.IntRange(1, 825), default=90, show_default=True, help="Days until they expire.")
@click.option("--renew", is_flag=True, help="Replace certificates that are there, with new keys.")
@output_option(names="certificates.certificate")
@dry_run_option
@example("fleet certificates pki scheduler,fleet.example worker")
def certificates(folder: Path, names: tuple[str, ...], days: int, renew: bool, form: str) -> int:
    """Make a certificate and its key for each NAME in FOLDER, and the fleet's certificate authority if none is there.

    Without a NAME it is one certificate for a fleet on this machine, localhost. Files are written with mode 0600 in a
    folder with mode 0700. Who has one of these keys can have changes carried out in every vCenter of the fleet.

    Exits 0, and 8 when a file cannot be written.
    """
    from vsphere_ai import app
    from vsphere_ai.documents.setup.files import CertificateFile, CertificatesDocument
    from vsphere_ai.fleet.certificates import date

    made = app.make_certificates(app.CertificatesRequest(folder, names, days, renew, is_dry_run()))
    done: Literal["made", "would-be-made"] = "would-be-made" if is_dry_run() else "made"
    files = tuple(
        CertificateFile(
            name=each.name, certificate=str(each.path), key=str(each.key), state=done if each.made else "kept",
            expires=each.until,
        )
        for each in made
    )  # fmt: skip
    lines = (f"{each.path}  {file.state.replace('-', ' ')}, expires {date(each.until)}; key {each.key}"
             for each, file in zip(made, files, strict=True))  # fmt: skip
    show_document(form, CertificatesDocument(certificates=files), *map(safe, lines))
    if is_dry_run():
        streams.note("Nothing was changed.")
        return 0
    key = shell_word(str(made[0].key))
    streams.note(safe(f"Keep {key} away from the machines of the fleet: it is needed for further certificates only."))
    return 0
