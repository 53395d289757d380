"""Start of a project: what an inventory and a first playbook are written from. Nothing is changed or written here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from vsphere_ai.app.estate.connection import endpoint_of
from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import session_of
from vsphere_ai.app.estate.show_estate import ShowResult, shown
from vsphere_ai.app.events import Emit, SessionOpened, ignore
from vsphere_ai.app.project.project_groups import project_groups
from vsphere_ai.app.project.trust import TIMEOUT, certificate_lines, require_fingerprint, so_far
from vsphere_ai.connect import tls
from vsphere_ai.errors import Denied, UsageError
from vsphere_ai.language.inventories.inventory import (
    NAME,
    PROJECT_INVENTORY,
    Inventory,
    VCenterSettings,
    load_inventory,
    running_lab,
)
from vsphere_ai.language.inventories.inventory_fields import split_peer
from vsphere_ai.model.records.project import Project, ProjectVCenter
from vsphere_ai.resources import kinds
from vsphere_ai.security.credentials import fetch
from vsphere_ai.security.file_ownership import gap
from vsphere_ai.security.secret_ref import FORMS, NoPassword, is_reference

PROJECT_PLAYBOOK = "playbook.yml"


@dataclass(frozen=True)
class FoundVCenter:
    """A vCenter that answers: its certificate in words, the SHA-256 of that, and whether it is trusted already."""

    vcenter: ProjectVCenter
    lines: tuple[str, ...]
    fingerprint: str
    trusted: bool

    def pinned(self) -> ProjectVCenter:
        """Return the vCenter with this certificate and no other."""
        return replace(self.vcenter, fingerprint=self.fingerprint)


@dataclass(frozen=True)
class ProjectRequest:
    """What to start with: a vCenter, or the running lab without one.

    `folder` is the project's; relative paths of the vCenter begin there. `ask_password`: the password is asked for on
    the terminal, for this once, wherever it will be later.
    """

    folder: Path
    vcenter: ProjectVCenter | None = None
    ask_password: bool = False
    parallel: int = 8


@dataclass(frozen=True)
class ProjectResult:
    """What was found: the project with its groups, and the live state as `show` has it."""

    project: Project
    shown: ShowResult


def project_files(folder: Path) -> tuple[Path, Path]:
    """Return the paths of a project's inventory, which is found without being named, and of its first playbook."""
    return folder / PROJECT_INVENTORY, folder / PROJECT_PLAYBOOK


def why_not_found(inventory: Path) -> str:
    """Return why an inventory is taken only where it is named with ``-i``; empty where it is found by itself."""
    unsafe = gap(inventory)
    return f"{unsafe.path} {unsafe.why} ({unsafe.remedy})" if unsafe else ""


def find_vcenter(address: str, folder: Path, *, fingerprint: str = "", ca_file: str = "") -> FoundVCenter:
    """Look at the certificate of a vCenter, given as ``name``, ``name:port`` or ``[IPv6]:port``. No login is made.

    `UsageError` for what is no address, `Unreachable`, `Denied` where it shows another fingerprint than the given one.
    """
    try:
        host, port = split_peer(address.strip(), 443)
    except ValueError as error:
        message, _, help = str(error).partition("\n")
        raise UsageError(message, help, rule="usage.vcenter") from None
    label = host.partition(".")[0]
    name = label if NAME.fullmatch(label) and "." in host else "vcenter"
    made = ProjectVCenter(name, host, port, "", "", ca_file=ca_file)
    chosen = _settings(made, folder)
    endpoint = endpoint_of(chosen)
    der = tls.fetch_certificate(endpoint, TIMEOUT)
    seen = tls.digest(der)
    require_fingerprint(endpoint, seen, fingerprint)
    distrusted = tls.distrust(endpoint, TIMEOUT)
    lines = (*certificate_lines(chosen, endpoint, der), f"  so far       {so_far(chosen, distrusted, seen)}")
    return FoundVCenter(made, lines, tls.colons(seen), distrusted is None or bool(fingerprint))


def require_reference(text: str) -> str:
    """Return a reference to a password; `UsageError` for another text, which is not repeated: it may be one."""
    if not is_reference(text):
        raise UsageError(
            "--password-from does not say where a password is", f"write {FORMS}", rule="usage.password-from"
        )
    return text


def why_no_password(vcenter: ProjectVCenter, folder: Path) -> str:
    """Return why there is no password behind a reference now; empty where there is one, or where it is asked for."""
    if vcenter.password.startswith("prompt:"):
        return ""
    settings = _settings(vcenter, folder)
    try:
        fetch(settings.password, folder, purpose=f"password of {vcenter.username} at {vcenter.address}")
    except NoPassword as error:
        return "; ".join(each for each in (error.message, error.remedy) if each)
    return ""


def read_project(request: ProjectRequest, emit: Emit = ignore) -> ProjectResult:
    """Log in once, read everything and find groups. Changes nothing.

    `Denied` where the login is refused (rule ``login.refused``), or where the account sees neither hosts nor VMs.
    """
    inventory = _inventory(request)
    with session_of(inventory, None, EstateRequest(parallel=request.parallel), emit) as session:
        emit(SessionOpened(session.connection.close, inventory.notify_request))
        found = shown(session, kinds())
    if not (found.estate.hosts or found.estate.vms):
        raise Denied(
            f"{session.scope.settings.username} sees no host and no VM in this vCenter",
            "give the account System.View and System.Read on what it is to see, for example the role Read-only on a "
            "datacenter, propagated to children",
            rule="account.sees-nothing",
        )
    return ProjectResult(Project(request.vcenter, project_groups(found.estate, inventory)), found)


def _inventory(request: ProjectRequest) -> Inventory:
    if request.vcenter is None:
        return load_inventory(running_lab())
    settings = _settings(request.vcenter, request.folder)
    if request.ask_password:
        settings = settings.model_copy(update={"password": "prompt:"})
    path = request.folder / PROJECT_INVENTORY
    return Inventory(path, {settings.name: settings}, base=request.folder.absolute())


def _settings(vcenter: ProjectVCenter, folder: Path) -> VCenterSettings:
    """Return the settings as an inventory in that folder would give them."""
    given = dict(_given(vcenter))
    return VCenterSettings.model_validate(given, context=folder.absolute())


def _given(vcenter: ProjectVCenter) -> Iterator[tuple[str, object]]:
    yield from (("name", vcenter.name), ("address", vcenter.address), ("port", vcenter.port))
    yield "username", vcenter.username or "unknown"
    yield "password", vcenter.password or "prompt:"
    if vcenter.ca_file:
        yield "tls", {"ca_file": vcenter.ca_file}
    elif vcenter.fingerprint:
        yield "tls", {"fingerprint": vcenter.fingerprint}
