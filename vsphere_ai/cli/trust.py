"""`vsphere-ai trust`: shows a vCenter's certificate or hosts' SSH keys, and keeps those an operator agrees to."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vsphere_ai.errors import Denied, UsageError, VsphereAiError, most_serious

if TYPE_CHECKING:
    from vsphere_ai.connect.tls import Endpoint
    from vsphere_ai.language.inventory import Inventory, VCenterSettings
    from vsphere_ai.language.patterns import Term

TIMEOUT = 10.0
AT_ONCE = 8
_INVENTORY = click.option("-i", "--inventory", type=click.Path(path_type=Path, dir_okay=False), help="Inventory file.")
_YES = click.option("--yes", is_flag=True, help="Do not ask; only together with --fingerprint.")


@click.group("trust")
def command() -> None:
    """Show the identity of a vCenter or of hosts, and trust it after a yes. No login is made for that."""


# -- vCenter


@command.command("vcenter")
@click.argument("name", required=False, default="")
@_INVENTORY
@click.option("--fingerprint", default="", metavar="SHA256", help="The SHA-256 fingerprint it must have.")
@_YES
@click.option("--write", is_flag=True, help="Write the certificate to trusted/NAME.pem beside the inventory.")
def vcenter(name: str, inventory: Path | None, fingerprint: str, yes: bool, write: bool) -> int:
    """Show the certificate of the vCenter NAME of the inventory, whether it is trusted, and how to trust it.

    Compare the fingerprint with what the appliance's console shows. A fingerprint that is not the one of
    --fingerprint exits 4.
    """
    from vsphere_ai.app.session import EstateRequest, Session, endpoint_of
    from vsphere_ai.connect import tls
    from vsphere_ai.language.inventory_search import find_inventory

    _only_with(yes, fingerprint)
    loaded = find_inventory(inventory)
    chosen = Session(loaded, None, EstateRequest(vcenter=name)).settings
    endpoint = endpoint_of(chosen)  # no password: what this talks to is not trusted yet
    der = tls.fetch_certificate(endpoint, TIMEOUT)
    seen = tls.digest(der)
    for line in _certificate_lines(chosen, endpoint, der):
        click.echo(line)
    _compare(endpoint, seen, fingerprint)
    distrusted = tls.distrust(endpoint, TIMEOUT)
    click.echo(f"  so far       {_so_far(chosen, distrusted, seen)}")
    if distrusted is None and not write:
        click.echo("Nothing to do.")
        return 0
    if not _agreed("Trust this certificate?", yes=yes):
        return 1
    _keep(loaded, chosen, der, write=write)
    return 0


def _certificate_lines(chosen: VCenterSettings, endpoint: Endpoint, der: bytes) -> Iterator[str]:
    from cryptography import x509

    from vsphere_ai.connect.tls import colons, digest
    from vsphere_ai.model.text import safe

    yield f"vCenter {chosen.name} at {endpoint}"
    yield f"  SHA-256      {colons(digest(der))}"
    try:
        seen = x509.load_der_x509_certificate(der)
        yield f"  subject      {safe(seen.subject.rfc4514_string())}"
        yield f"  issuer       {safe(seen.issuer.rfc4514_string())}"
        yield f"  names        {safe(', '.join(_names_in(seen)) or 'none')}"
        yield f"  valid        {seen.not_valid_before_utc:%Y-%m-%d} to {seen.not_valid_after_utc:%Y-%m-%d}"
    except ValueError as error:
        yield f"  unreadable   {safe(str(error))}"


def _names_in(certificate: Any) -> list[str]:
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [str(n) for n in (*names.get_values_for_type(x509.DNSName), *names.get_values_for_type(x509.IPAddress))]


def _compare(endpoint: Endpoint, seen: str, wanted: str) -> None:
    from vsphere_ai.connect.tls import colons

    digits = wanted.casefold().removeprefix("sha256:").replace(":", "").strip()
    if wanted and digits != seen:
        raise Denied(f"{endpoint} shows {colons(seen)}, which is not the given fingerprint", "nothing was stored")


def _so_far(chosen: VCenterSettings, distrusted: Denied | None, seen: str) -> str:
    from vsphere_ai.connect.tls import colons
    from vsphere_ai.model.text import safe

    pin = chosen.tls.fingerprint
    if pin and pin != seen:
        return f"CHANGED: the inventory pins {colons(pin)}"
    by = "the pinned fingerprint" if pin else chosen.tls.ca_file or "the system's certificate authorities"
    if distrusted is None:
        return f"trusted, by {by}"
    return f"not trusted by {by}: {safe(distrusted.message.rpartition('trusted: ')[2])}"


def _keep(loaded: Inventory, chosen: VCenterSettings, der: bytes, *, write: bool) -> None:
    from vsphere_ai.connect.tls import colons, digest
    from vsphere_ai.connect.trusted import keep_certificate

    line = f'tls: {{fingerprint: "{colons(digest(der))}"}}'
    if write:
        path = loaded.base / "trusted" / f"{chosen.name}.pem"
        keep_certificate(path, der)
        click.echo(f"Written to {path}.")
        if chosen.tls.ca_file and Path(chosen.tls.ca_file).absolute() == path.absolute():
            return
        line = f"tls: {{ca_file: trusted/{chosen.name}.pem}}"
    click.echo(f"Put this line below {chosen.name}: in {loaded.path}\n    {line}")


# -- hosts


@dataclass(frozen=True)
class Shown:
    """What a host showed, and how it compares: `verdict` is known, new, changed, revoked, or absent with an `error`."""

    host: str
    known_as: str
    verdict: str
    key: Any = None
    before: Any = None
    error: VsphereAiError | None = None


@command.command("host")
@click.argument("pattern")
@_INVENTORY
@click.option("--vcenter", default="", metavar="NAME", help="Which vCenter of the inventory.")
@click.option("--fingerprint", multiple=True, metavar="SHA256:…", help="A fingerprint a host may have; repeatable.")
@_YES
def host(pattern: str, inventory: Path | None, vcenter: str, fingerprint: tuple[str, ...], yes: bool) -> int:
    """Show the SSH host keys of the hosts PATTERN means and keep them in the inventory's known_hosts file.

    Names and ranges such as esx-[01:16].example.com are taken as they are; for globs and clusters vCenter is asked.
    Compare the fingerprints with the hosts' consoles. A key that is none of --fingerprint exits 4.
    """
    from vsphere_ai.connect.hostkeys import HostKeys
    from vsphere_ai.connect.trusted import keep_host_key
    from vsphere_ai.language.inventory_search import find_inventory

    _only_with(yes, fingerprint)
    loaded = find_inventory(inventory)
    if loaded.ssh is None:
        raise UsageError("the inventory does not say how to reach hosts over SSH", "add an ssh: section to it")
    path = Path(loaded.ssh.known_hosts)
    known = HostKeys(path, may_be_absent=True)
    names = _named(loaded, pattern) or _looked_up(loaded, pattern, vcenter)
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        shown = list(pool.map(lambda name: _shown(loaded, known, name), names))
    for each in shown:
        click.echo(_line(each))
    codes = [e.error.exit_code if e.error else 4 for e in shown if e.verdict in ("absent", "revoked")]
    _all_given([e for e in shown if e.key is not None], {_plain(f) for f in fingerprint})
    wanted = [e for e in shown if e.verdict in ("new", "changed")]
    if wanted and not _agreed(f"Trust {'this key' if len(wanted) == 1 else f'these {len(wanted)} keys'}?", yes=yes):
        return most_serious([*codes, 1])
    for each in wanted:
        keep_host_key(path, each.known_as, each.key)
    click.echo(f"{len(wanted)} of {len(shown)} stored in {path}." if wanted else "Nothing was stored.")
    return most_serious([*codes, 0])


def _named(loaded: Inventory, pattern: str) -> tuple[str, ...]:
    """Return the hosts a pattern names outright, without a look into vCenter; none when it needs one."""
    from vsphere_ai.language.patterns import GLOB, REF, PatternError, expand, parse

    found: dict[str, None] = {}
    try:
        terms = [inner for term in parse(pattern) for inner in _terms_of(loaded, term)]
        for term in terms:
            if term.sign or term.name == "all" or "/" in term.name or re.fullmatch(REF, term.name):
                return ()
            found.update(dict.fromkeys(expand(term.name)))
    except PatternError as error:
        raise UsageError(error.message, error.help) from error
    return () if any(GLOB.search(name) for name in found) else tuple(found)


def _terms_of(loaded: Inventory, term: Term) -> Iterator[Term]:
    """Yield the parts of a group of names; a group with other conditions stands for all hosts vCenter may know."""
    from vsphere_ai.language.patterns import Term, split

    group = loaded.hosts.get(term.name)
    if group is None or term.sign:
        yield term
        return
    conditions = {key for key, value in group.selector.model_dump().items() if value}
    if conditions != {"names"}:
        yield Term("", "all")
    for text in group.selector.names or ():
        yield from split(text)


def _looked_up(loaded: Inventory, pattern: str, name: str) -> tuple[str, ...]:
    from vsphere_ai.app.session import EstateRequest, Session
    from vsphere_ai.errors import Mark
    from vsphere_ai.language.selection import select
    from vsphere_ai.model.facts import Estate
    from vsphere_ai.reading.collector import LIGHT

    with Session(loaded, None, EstateRequest(vcenter=name)) as session:
        estate = Estate(session.vcenter.about, session.vcenter.read(LIGHT))
    return tuple(t.name for t in select(pattern, "host", loaded, estate, mark=Mark("PATTERN")))


def _shown(loaded: Inventory, known: Any, name: str) -> Shown:
    from vsphere_ai.connect.esxi import fetch_host_key
    from vsphere_ai.connect.trusted import name_of

    if loaded.ssh is None:
        raise UsageError("the inventory does not say how to reach hosts over SSH")
    try:
        address, port = loaded.ssh.endpoint(name)
        key = fetch_host_key(address, port, known=known, host=name)
    except ValueError as error:
        return Shown(name, name, "absent", error=UsageError(str(error).partition("\n")[0]))
    except VsphereAiError as error:
        return Shown(name, name, "absent", error=error)
    before = known.known(name, address, port)
    if known.is_revoked(key):
        verdict = "revoked"
    elif any(one == key for one in before.values()):
        verdict = "known"
    else:
        verdict = "changed" if before else "new"
    return Shown(name, name_of(address, port), verdict, key, next(iter(before.values()), None))


def _line(shown: Shown) -> str:
    from vsphere_ai.connect.hostkeys import fingerprint
    from vsphere_ai.model.text import safe

    if shown.error is not None:
        return f"{safe(shown.host)}  not seen: {safe(shown.error.message)}"
    words = {"new": "new", "known": "known", "revoked": "REVOKED in the known_hosts file"}
    verdict = words.get(shown.verdict) or f"CHANGED, it was {fingerprint(shown.before)}"
    return f"{safe(shown.host)}  {shown.key.get_name()} {fingerprint(shown.key)}  {verdict}"


def _plain(text: str) -> str:
    return text.strip().removeprefix("SHA256:").rstrip("=")


def _all_given(shown: Sequence[Shown], given: set[str]) -> None:
    from vsphere_ai.connect.hostkeys import fingerprint

    others = [s.host for s in shown if given and _plain(fingerprint(s.key)) not in given]
    if others:
        raise Denied(f"the key of {', '.join(others)} is none of the given fingerprints", "nothing was stored")


# -- both


def _only_with(yes: bool, fingerprint: str | Sequence[str]) -> None:
    if yes and not fingerprint:
        raise UsageError("--yes without --fingerprint would trust any server", "give the fingerprint you expect")


def _agreed(question: str, *, yes: bool) -> bool:
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError(
            "there is no terminal to ask on", "give the expected --fingerprint, and --yes", rule="usage.no-terminal"
        )
    answer = click.prompt(f"{question} Only 'yes' is accepted", default="", show_default=False, err=True)
    if answer.strip() != "yes":
        click.echo("Nothing was stored.", err=True)
        return False
    return True
