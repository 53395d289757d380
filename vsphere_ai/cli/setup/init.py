"""`vsphere-ai init`: asks for a vCenter, and writes an inventory and a first playbook from what it finds there."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console import streams
from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.forms import output_option, show_document
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import FILE, dry_run_option, is_dry_run, parallel_option, says_yes
from vsphere_ai.errors import Denied, UsageError, VsphereAiError
from vsphere_ai.model.names.name_ranges import shell_word
from vsphere_ai.model.text import counted, safe
from vsphere_ai.security.asking import asking

if TYPE_CHECKING:
    from vsphere_ai.app.project.init_project import FoundVCenter, ProjectResult
    from vsphere_ai.documents.setup.files import ProjectDocument
    from vsphere_ai.model.records.project import ProjectVCenter

HELP_ENTRY = "Set up", 20, "Write an inventory and a first playbook from what a vCenter has."
LAB = "lab"
PLACES = {
    "env": ("Name of the environment variable", "VSPHERE_AI_PASSWORD"),
    "file": ("File that only you can read", ""),
    "cmd": ("Program that prints it, with its arguments", ""),
    "keyring": ("Entry of the key ring, as SERVICE/USER", ""),
    "prompt": ("", ""),
}
"""Where a password may be -> what is asked about it, and the answer that is offered."""
ATTEMPTS = 2
"""Logins with a password that was typed here: vCenter locks accounts after a few more."""


@dataclass(frozen=True)
class Answers:
    """What options say; where one is empty, it is asked for."""

    vcenter: str
    user: str
    password_from: str
    fingerprint: str
    ca_file: str


@click.command("init")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.option("--lab", is_flag=True, help="Take the running lab instead of a vCenter.")
@click.option("--vcenter", default="", metavar="ADDRESS", help="Name or address of the vCenter; :PORT where not 443.")
@click.option("--user", default="", metavar="NAME", help="Account in the vCenter.")
@click.option(
    "--password-from",
    default="",
    metavar="PLACE",
    help="Where its password is: env:NAME, file:PATH, cmd:PROGRAM, keyring:SERVICE/USER or prompt:",
)
@click.option("--fingerprint", default="", metavar="SHA256", help="Trust the certificate with this fingerprint.")
@click.option("--ca-file", type=FILE, help="PEM file with the authority that signed the certificate.")
@parallel_option
@output_option()
@dry_run_option
@example("init first --lab")
@example("init site-a --vcenter vc01.example.com --user svc-ai@vsphere.local", needs="a vCenter")
def command(folder: Path, lab: bool, ca_file: Path | None, parallel: int, form: str, **given: str) -> int:
    """Start a project in FOLDER, or here: ask for a vCenter, and write an inventory and a first playbook.

    The playbook states what is there, so its first plan finds nothing to do. Nothing is changed in vCenter, no file is
    replaced, and no password is written. Without a terminal, options have to answer what would be asked.

    Exits 0 when the files are written, 4 when certificate or account are not accepted, 64 when an answer is missing.
    """
    from vsphere_ai import app

    app.require_absent(app.project_files(folder), "choose another folder: vsphere-ai init FOLDER")
    answers = Answers(**given, ca_file=str(ca_file.absolute()) if ca_file else "")
    if lab and any(vars(answers).values()):
        raise UsageError("--lab is instead of a vCenter and its account", "leave the other options out")
    found = None if lab else _find(folder, answers, form)
    if found is None:
        result = app.read_project(app.ProjectRequest(folder, parallel=parallel), show_event)
    else:
        result = _read(found, folder, answers, parallel)
    _write(result, folder, form)
    return 0


def _find(folder: Path, answers: Answers, form: str) -> FoundVCenter | None:
    """Return a vCenter whose certificate is trusted; None where the answer is the lab."""
    from vsphere_ai import app

    if not sys.stdin.isatty():
        _require_all(answers)
    while True:
        address = answers.vcenter or _ask(f"vCenter (name or address; '{LAB}' for the running lab)")
        if address == LAB:
            return None
        try:
            found = app.find_vcenter(address, folder, fingerprint=answers.fingerprint, ca_file=answers.ca_file)
        except VsphereAiError as error:
            if answers.vcenter:
                raise
            _report(error)
            continue
        return _trusted(found, answers, form)


def _require_all(answers: Answers) -> None:
    """Without a terminal, refuse what would have to be asked."""
    missing = [name for name in ("vcenter", "user", "password_from") if not vars(answers)[name]]
    if missing:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in missing)
        raise UsageError(
            f"there is no terminal to ask on, and {options} {'is' if len(missing) == 1 else 'are'} not given",
            "give --vcenter ADDRESS --user NAME --password-from PLACE, and --fingerprint or --ca-file where the "
            "system's authorities do not know the certificate; or --lab",
            rule="usage.no-terminal",
        )


def _trusted(found: FoundVCenter, answers: Answers, form: str) -> FoundVCenter:
    """Show a certificate, and ask where nothing vouches for it; the vCenter is then pinned to it."""
    for line in found.lines:
        click.echo(safe(line), err=form == "json")
    if found.trusted:
        return replace(found, vcenter=found.pinned()) if answers.fingerprint else found
    if answers.ca_file:
        raise Denied(
            f"{answers.ca_file} does not vouch for this certificate", "give the authority's own file", rule="denied"
        )
    if not sys.stdin.isatty():
        raise UsageError(
            "there is no terminal to ask on, and nothing vouches for this certificate",
            "compare it with what the appliance's console shows, and give --fingerprint or --ca-file",
            rule="usage.no-terminal",
        )
    click.echo("Compare the SHA-256 with what the console of the appliance shows.", err=form == "json")
    if not says_yes("Trust this certificate? Type yes to confirm"):
        raise Denied(
            f"the certificate of {found.vcenter.address} is not trusted",
            "nothing was written, and no login was made: run init again once the SHA-256 is known to be right",
            rule="denied",
        )
    return replace(found, vcenter=found.pinned())


def _read(found: FoundVCenter, folder: Path, answers: Answers, parallel: int) -> ProjectResult:
    """Ask for the account, log in and read; a password that is typed wrongly may be typed once more."""
    from vsphere_ai import app

    place = answers.password_from and app.require_reference(answers.password_from)
    typed = False
    for attempt in range(1, ATTEMPTS + 1):
        user = answers.user or _ask("User name, such as svc-ai@vsphere.local")
        place = place or _ask_place()
        vcenter = replace(found.vcenter, username=user, password=place)
        typed = typed or _is_typed(vcenter, folder)
        try:
            return app.read_project(app.ProjectRequest(folder, vcenter, typed, parallel), show_event)
        except Denied as error:
            if error.rule != "login.refused":
                raise
            if not typed or attempt == ATTEMPTS:
                raise Denied(
                    error.message,
                    "nothing was written. It is not tried again, so that the account is not locked",
                    rule=error.rule,
                ) from None
            _say(f"{error.message}.", "Once more; then it ends, so that the account is not locked.")
    raise AssertionError("every attempt ends the loop")


def _is_typed(vcenter: ProjectVCenter, folder: Path) -> bool:
    """Return whether the password is asked for now; where its place is empty, that is only for this once."""
    from vsphere_ai import app

    if vcenter.password.startswith("prompt:"):
        return True
    why = app.why_no_password(vcenter, folder)
    if why and sys.stdin.isatty():
        _say(f"Not there yet: {why}.", "For now the password is asked for; it is not kept.")
        return True
    return False


def _ask_place() -> str:
    from vsphere_ai import app

    click.echo("The password is never written to a file. Where will it be?", err=True)
    while True:
        kind = _ask(f"One of {', '.join(PLACES)}", "env")
        if kind not in PLACES:
            _say(f"'{kind}' is none of these")
            continue
        question, offered = PLACES[kind]
        try:
            return app.require_reference(f"{kind}:{_ask(question, offered) if question else ''}")
        except UsageError as error:
            _report(error)


def _ask(question: str, offered: str = "") -> str:
    """Ask until there is an answer."""
    with asking():
        return str(click.prompt(question, default=offered or None, err=True)).strip()


def _report(error: VsphereAiError) -> None:
    """Say what is wrong with an answer, before it is asked for again."""
    streams.status("")
    _say(error.message.partition("\n")[0], f"  {error.remedy}" if isinstance(error, UsageError) else "")


def _say(*lines: str) -> None:
    for line in filter(None, lines):
        streams.say(streams.fitted(safe(line), "  "))


def _write(result: ProjectResult, folder: Path, form: str) -> None:
    from vsphere_ai import app
    from vsphere_ai.app.project.schemas import project_schemas
    from vsphere_ai.report.playbooks import project_text as text

    project, seen = result.project, result.shown
    inventory, playbook = app.project_files(folder)
    texts = {
        inventory: text.inventory_text(project),
        playbook: text.first_playbook(project, seen.estate, seen.plays, seen.remarks),
    }
    files = texts | project_schemas(folder)
    if is_dry_run():
        if form == "text":
            for path, content in texts.items():
                click.echo(f"### {path}\n{content}", nl=False)
        else:
            show_document(form, _document(result, files, None, ()))
        click.echo("Nothing was written.", err=True)
        return
    app.write_new(files)
    unsafe = app.why_not_found(inventory)
    commands = text.next_commands(
        "" if folder == Path() else shell_word(str(folder)),
        _variable(project.vcenter, folder),
        playbook.name,
        inventory.name if unsafe else "",
    )
    show_document(form, _document(result, files, unsafe, commands), *_lines(result, folder, unsafe, commands))


def _document(
    result: ProjectResult, files: Iterable[Path], unsafe: str | None, commands: Sequence[str]
) -> ProjectDocument:
    """Return what was written, or would be; `unsafe` is None where the inventory is not there yet."""
    from vsphere_ai.documents.setup.files import ProjectDocument, WrittenFile

    seen, state = result.shown, "would-be-written" if is_dry_run() else "written"
    return ProjectDocument(
        files=tuple(WrittenFile.model_validate({"path": str(path), "state": state}) for path in files),
        hosts=len(seen.estate.hosts),
        vms=len(seen.estate.vms),
        left_out=len(seen.remarks),
        named_inventory=unsafe,
        next=tuple(commands),
    )


def _lines(result: ProjectResult, folder: Path, unsafe: str, commands: Sequence[str]) -> Iterator[str]:
    from vsphere_ai import app

    seen, (inventory, playbook) = result.shown, app.project_files(folder)
    counts = f"{counted(len(seen.estate.hosts), 'host')} and {counted(len(seen.estate.vms), 'VM')}"
    yield f"{inventory} and {playbook} are written, from {counts}; their schemas, for editors, are in schemas/."
    if seen.remarks:
        yield f"Comments in {playbook.name} say what of {counted(len(seen.remarks), 'object')} is left out, and why."
    if unsafe:
        yield f"{safe(unsafe)}, so the inventory has to be named with -i."
    yield "Next:"
    yield from (f"  {line}" for line in commands)


def _variable(vcenter: ProjectVCenter | None, folder: Path) -> str:
    """Return the environment variable of the password where it is not set; else an empty text."""
    from vsphere_ai import app

    kind, _, name = vcenter.password.partition(":") if vcenter else ("", "", "")
    return name if vcenter and kind == "env" and app.why_no_password(vcenter, folder) else ""
