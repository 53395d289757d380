"""Trust: a vCenter's certificate and hosts' SSH keys are shown, and kept once they are confirmed. No login is made."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cryptography import x509

from vsphere_ai.app.estate.connection import endpoint_of
from vsphere_ai.app.estate.scope import EstateRequest, inventory_of
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Emit, OutputLine, ignore
from vsphere_ai.connect import tls
from vsphere_ai.connect.secure_shell.hostkeys import HostKeys, fingerprint
from vsphere_ai.connect.secure_shell.ssh import fetch_host_key
from vsphere_ai.connect.secure_shell.trusted import keep_certificate, keep_host_key, name_of
from vsphere_ai.connect.tls import Endpoint, colons, digest
from vsphere_ai.documents.setup.trust import KeyTrustDocument, ShownKeyDocument, VcenterTrustDocument, Verdict
from vsphere_ai.errors import Denied, Mark, UsageError, VsphereAiError, most_serious
from vsphere_ai.language.inventories.patterns import GLOB, REF, PatternError, Term, expand, parse, split
from vsphere_ai.language.inventories.selection import select
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.text import safe
from vsphere_ai.reading.collector import LIGHT

if TYPE_CHECKING:
    from vsphere_ai.language.inventories.inventory import Inventory, VCenterSettings

TIMEOUT = 10.0
AT_ONCE = 8


@dataclass(frozen=True)
class TrustVCenterRequest:
    """Which vCenter's certificate to show; `fingerprint` is the SHA-256 that it must have, empty for any.

    `confirm` is called with a question before it is trusted. `write` stores it beside the inventory.
    """

    confirm: Callable[[str], bool]
    estate: EstateRequest = field(default_factory=EstateRequest)
    fingerprint: str = ""
    write: bool = False


@dataclass(frozen=True)
class TrustHostsRequest:
    """Which hosts' SSH keys to show, by a pattern; `fingerprints` are those that they may have, none for any."""

    confirm: Callable[[str], bool]
    pattern: str
    estate: EstateRequest = field(default_factory=EstateRequest)
    fingerprints: tuple[str, ...] = ()


@dataclass(frozen=True)
class VCenterTrust:
    """What became of a vCenter's certificate; `confirmed` is None where nothing was asked."""

    document: VcenterTrustDocument
    confirmed: bool | None

    @property
    def exit_code(self) -> int:
        """1 where the certificate was not confirmed."""
        return int(self.confirmed is False)


@dataclass(frozen=True)
class KeyTrust:
    """What became of SSH host keys that were shown."""

    document: KeyTrustDocument
    exit_code: int


def trust_vcenter(request: TrustVCenterRequest, emit: Emit = ignore) -> VCenterTrust:
    """Show a certificate, whether it is trusted, and how to trust it.

    `Denied` when it has another fingerprint than the given one.
    """
    session = open_session(request.estate)
    loaded, chosen = session.scope.inventory, session.scope.settings
    endpoint = endpoint_of(chosen)  # no password: what this talks to is not trusted yet
    der = tls.fetch_certificate(endpoint, TIMEOUT)
    seen = tls.digest(der)
    for line in certificate_lines(chosen, endpoint, der):
        emit(OutputLine(line))
    require_fingerprint(endpoint, seen, request.fingerprint)
    distrusted = tls.distrust(endpoint, TIMEOUT)
    by = so_far(chosen, distrusted, seen)
    emit(OutputLine(f"  so far       {by}"))
    confirmed, kept = None, Kept()
    if distrusted is None and not request.write:
        emit(OutputLine("Nothing to do."))
    else:
        confirmed = request.confirm("Trust this certificate?")
        if confirmed:
            kept = _keep(loaded, chosen, der, write=request.write, emit=emit)
    document = VcenterTrustDocument(
        vcenter=chosen.name, address=str(endpoint), sha256=tls.colons(seen), trusted=distrusted is None, trusted_by=by,
        confirmed=confirmed, file=str(kept.file) if kept.file else None, inventory_line=kept.line,
    )  # fmt: skip
    return VCenterTrust(document, confirmed)


def certificate_lines(chosen: VCenterSettings, endpoint: Endpoint, der: bytes) -> Iterator[str]:
    """Yield what a vCenter's certificate says, and its fingerprint."""
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


def _names_in(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [str(n) for n in (*names.get_values_for_type(x509.DNSName), *names.get_values_for_type(x509.IPAddress))]


def require_fingerprint(endpoint: Endpoint, seen: str, wanted: str) -> None:
    """Refuse a certificate (its SHA-256) that is not the wanted one; none is wanted where that is empty."""
    digits = wanted.casefold().removeprefix("sha256:").replace(":", "").strip()
    if wanted and digits != seen:
        raise Denied(f"{endpoint} shows {colons(seen)}, which is not the given fingerprint", "nothing was stored")


def so_far(chosen: VCenterSettings, distrusted: Denied | None, seen: str) -> str:
    """Return whether a certificate is trusted by what the inventory says, in words."""
    pin = chosen.tls.fingerprint
    if pin and pin != seen:
        return f"CHANGED: the inventory pins {colons(pin)}"
    by = "the pinned fingerprint" if pin else chosen.tls.ca_file or "the system's certificate authorities"
    if distrusted is None:
        return f"trusted, by {by}"
    return f"not trusted by {by}: {safe(distrusted.message.rpartition('trusted: ')[2])}"


class Kept(NamedTuple):
    """Where a certificate was written, and the line of the inventory that trusts it; none is needed where empty."""

    file: Path | None = None
    line: str = ""


def _keep(loaded: Inventory, chosen: VCenterSettings, der: bytes, *, write: bool, emit: Emit) -> Kept:
    line, path = f'tls: {{fingerprint: "{colons(digest(der))}"}}', None
    if write:
        path = loaded.base / "trusted" / f"{chosen.name}.pem"
        keep_certificate(path, der)
        emit(OutputLine(f"Written to {path}."))
        if chosen.tls.ca_file and Path(chosen.tls.ca_file).absolute() == path.absolute():
            return Kept(path)
        line = f"tls: {{ca_file: trusted/{chosen.name}.pem}}"
    emit(OutputLine(f"Put this line below {chosen.name}: in {loaded.path}\n    {line}"))
    return Kept(path, line)


@dataclass(frozen=True)
class ShownKey:
    """What a host showed, and how it compares: `verdict` is known, new, changed, revoked, or absent with an `error`.

    `vouched`: vCenter shows the same key, and it needs no confirmation.
    """

    host: str
    known_as: str
    verdict: Verdict
    key: Any = None
    before: Any = None
    error: VsphereAiError | None = None
    vouched: bool = False


def trust_hosts(request: TrustHostsRequest, emit: Emit = ignore) -> KeyTrust:
    """Show the SSH host keys of hosts and keep those that are new once that is confirmed.

    `Denied` when a host has none of the given fingerprints.
    """
    loaded = inventory_of(request.estate)
    if loaded.ssh is None:
        raise UsageError("the inventory does not say how to reach hosts over SSH", "add an ssh: section to it")
    path = Path(loaded.ssh.known_hosts)
    known = HostKeys(path, may_be_absent=True)
    names = _named(loaded, request.pattern) or _looked_up(request.pattern, request.estate)
    ssh = loaded.ssh

    def look(name: str) -> ShownKey:
        try:
            address, port = ssh.endpoint(name)
        except ValueError as error:
            return ShownKey(name, name, "absent", error=UsageError(*str(error).split("\n", 1), rule="usage"))
        return shown_by(known, name, address, port)

    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        shown = list(pool.map(look, names))
    return keep_shown(path, shown, request.confirm, request.fingerprints, emit)


def keep_shown(
    path: Path, shown: Sequence[ShownKey], confirm: Callable[[str], bool], fingerprints: Sequence[str], emit: Emit
) -> KeyTrust:
    """Report keys, and add those that are new to a known_hosts file once that is confirmed."""
    for each in shown:
        emit(OutputLine(_line(each)))
    codes = [e.error.exit_code if e.error else 4 for e in shown if e.verdict in ("absent", "revoked")]
    _all_given([e for e in shown if e.key is not None], {_plain(f) for f in fingerprints})
    new = [e for e in shown if e.verdict in ("new", "changed")]
    asked = [e for e in new if not e.vouched]
    declined = bool(asked) and not confirm(f"Trust {'this key' if len(asked) == 1 else f'these {len(asked)} keys'}?")
    stored = [e for e in new if e.vouched] if declined else new
    for each in stored:
        keep_host_key(path, each.known_as, each.key)
    if stored or not declined:
        emit(OutputLine(f"{len(stored)} of {len(shown)} stored in {path}." if stored else "Nothing was stored."))
    keys = tuple(_key_document(each, stored=each in stored) for each in shown)
    return KeyTrust(KeyTrustDocument(known_hosts=str(path), keys=keys), most_serious([*codes, int(declined)]))


def _key_document(shown: ShownKey, *, stored: bool) -> ShownKeyDocument:
    return ShownKeyDocument(
        name=shown.host,
        verdict=shown.verdict,
        type=shown.key.get_name() if shown.key is not None else None,
        fingerprint=fingerprint(shown.key) if shown.key is not None else None,
        fingerprint_before=fingerprint(shown.before) if shown.verdict == "changed" else None,
        vouched=shown.vouched,
        stored=stored,
        error=shown.error.message if shown.error else None,
    )


def _named(loaded: Inventory, pattern: str) -> tuple[str, ...]:
    """Return the hosts a pattern names outright, without a look into vCenter; none when it needs one."""
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
    group = loaded.hosts.get(term.name)
    if group is None or term.sign:
        yield term
        return
    conditions = {key for key, value in group.selector.model_dump().items() if value}
    if conditions != {"names"}:
        yield Term("", "all")
    for text in group.selector.names or ():
        yield from split(text)


def _looked_up(pattern: str, estate_request: EstateRequest) -> tuple[str, ...]:
    with open_session(estate_request) as session:
        estate = Estate(session.connection.vcenter.about, session.connection.vcenter.read(LIGHT))
    return tuple(t.name for t in select(pattern, "host", session.scope.inventory, estate, mark=Mark("PATTERN")))


def shown_by(known: HostKeys, name: str, address: str, port: int) -> ShownKey:
    """Return what an SSH server shows, and how that compares with what is known of it."""
    try:
        key = fetch_host_key(address, port, known=known, host=name)
    except VsphereAiError as error:
        return ShownKey(name, name, "absent", error=error)
    before = known.known(name, address, port)
    if known.is_revoked(key):
        verdict: Verdict = "revoked"
    elif any(one == key for one in before.values()):
        verdict = "known"
    else:
        verdict = "changed" if before else "new"
    return ShownKey(name, name_of(address, port), verdict, key, next(iter(before.values()), None))


def _line(shown: ShownKey) -> str:
    if shown.error is not None:
        return f"{safe(shown.host)}  not seen: {safe(shown.error.message)}"
    words: dict[str, str] = {"new": "new", "known": "known", "revoked": "REVOKED in the known_hosts file"}
    text = words.get(shown.verdict) or f"CHANGED, it was {fingerprint(shown.before)}"
    text += ", as vCenter shows it" if shown.vouched else ""
    return f"{safe(shown.host)}: {text}\n  {shown.key.get_name()} {fingerprint(shown.key)}"


def _plain(text: str) -> str:
    return text.strip().removeprefix("SHA256:").rstrip("=")


def _all_given(shown: Sequence[ShownKey], given: set[str]) -> None:
    others = [s.host for s in shown if given and _plain(fingerprint(s.key)) not in given]
    if others:
        raise Denied(f"the key of {', '.join(others)} is none of the given fingerprints", "nothing was stored")
