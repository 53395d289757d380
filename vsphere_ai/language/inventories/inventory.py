"""Inventories: which vCenters there are, how to reach their hosts, and what groups of hosts and VMs are called."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from vsphere_ai.addresses.pool import AddressPool
from vsphere_ai.errors import InputError, Mark, UsageError
from vsphere_ai.language.inventories.inventory_fields import (
    Address,
    FilePath,
    InventorySection,
    Password,
    Peer,
    Port,
    split_peer,
)
from vsphere_ai.language.inventories.inventory_guests import GuestsSettings
from vsphere_ai.language.inventories.inventory_leaves import Leaf, read_leaves
from vsphere_ai.language.inventories.inventory_notify import NotifySettings
from vsphere_ai.language.inventories.inventory_pools import read_pools, read_reserved
from vsphere_ai.language.inventories.inventory_variables import VARS, read_inventory_values, refuse_variables
from vsphere_ai.language.inventories.selectors import HostGroup, VmSelector
from vsphere_ai.language.yaml_files.document import FaultCollector, require
from vsphere_ai.language.yaml_files.merge_keys import load
from vsphere_ai.language.yaml_files.validation import ValuePlace, validate
from vsphere_ai.language.yaml_files.variable_values import FOR_ANCHORS, InventoryValues
from vsphere_ai.model.names.networks import AddressRange
from vsphere_ai.model.records.notify_request import NotifyRequest
from vsphere_ai.model.state import TargetKind
from vsphere_ai.security.file_ownership import gap
from vsphere_ai.security.state_dir import lab_dir

CONNECTION, PROJECT_INVENTORY = "connection.yml", "vsphere-ai.yaml"
VARIABLE = "VSPHERE_AI_INVENTORY"
"""An environment variable: the inventory of commands that are given none."""
_configured: list[tuple[Path, str]] = []
"""The inventory that the user's configuration file names, and the place in that file: one, or none."""
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def _fingerprint(text: str) -> str:
    digits = text.casefold().removeprefix("sha256:").replace(":", "")
    if not re.fullmatch(r"[0-9a-f]{64}", digits):
        help = "show it with: openssl x509 -noout -fingerprint -sha256 -in CERTIFICATE"
        raise ValueError(f"this is not a SHA-256 fingerprint (64 hexadecimal digits)\n{help}")
    return digits


class Tls(InventorySection):
    """What a vCenter's certificate is checked against; nothing given: the system's certificate authorities."""

    ca_file: FilePath | None = None
    fingerprint: Annotated[str, AfterValidator(_fingerprint)] | None = None
    """SHA-256 of the certificate, 64 lower-case hexadecimal digits."""

    @model_validator(mode="after")
    def _one(self) -> Tls:
        if self.ca_file and self.fingerprint:
            raise ValueError("'ca_file' and 'fingerprint' exclude each other\nkeep one of them")
        return self


class SshSettings(InventorySection):
    """How to reach the shells of the ESXi hosts. Exactly one of `password` and `key_file` is set.

    `password` and `key_passphrase` are references for `credentials.fetch`.
    """

    username: Annotated[str, Field(min_length=1)] = "root"
    password: Password | None = None
    key_file: FilePath | None = None
    key_passphrase: Password | None = None
    known_hosts: FilePath
    port: Port = 22
    addresses: Mapping[str, Peer] = {}
    """Host name -> ``address:port``, for hosts that are not reached by their name."""
    start_service: Literal["apply", "always", "never"] = "apply"
    """Who may start TSM-SSH on a host where it is stopped: only `apply`, also reading commands, or none."""

    @model_validator(mode="after")
    def _one(self) -> SshSettings:
        if bool(self.password) == bool(self.key_file):
            raise ValueError("ssh needs one of 'password' and 'key_file'\nkeep exactly one of them")
        if self.key_passphrase and not self.key_file:
            raise ValueError("'key_passphrase' is for a 'key_file'\nremove it, or give the key file")
        return self

    def endpoint(self, host: str) -> tuple[str, int]:
        """Return the address and port of a host's SSH service."""
        return split_peer(self.addresses.get(host, host), self.port)


class VCenterSettings(InventorySection):
    """How to reach a vCenter. `password` is a reference for `credentials.fetch`; file paths are absolute."""

    name: str
    address: Address
    port: Port = 443
    username: Annotated[str, Field(min_length=1)]
    password: Password
    tls: Tls = Tls.model_construct()
    lock: Literal["none", "local", "vcenter"] = "local"
    """What keeps other runs away, unless ``--lock`` says something else."""
    ssh: SshSettings | None = None
    """How its hosts are reached, in place of the section of the whole inventory."""
    guests: GuestsSettings | None = None
    """The same of the guests of its VMs."""


@dataclass(frozen=True)
class InventoryGroup:
    """A named selection and the place it is written at."""

    name: str
    selector: HostGroup | VmSelector
    mark: Mark
    excerpt: str = ""


@dataclass(frozen=True)
class Inventory:
    """What an inventory file says. Relative paths in it were taken from `base`, the folder of the file."""

    path: Path
    vcenters: Mapping[str, VCenterSettings] = field(default_factory=dict)
    hosts: Mapping[str, InventoryGroup] = field(default_factory=dict)
    vms: Mapping[str, InventoryGroup] = field(default_factory=dict)
    ssh: SshSettings | None = None
    guests: GuestsSettings | None = None
    notify: NotifySettings | None = None
    pools: Mapping[str, AddressPool] = field(default_factory=dict)
    reserved: tuple[AddressRange, ...] = ()
    """Addresses that no pool gives away."""
    leaves: Mapping[str, Leaf] = field(default_factory=dict)
    variables: InventoryValues = field(default_factory=InventoryValues)
    base: Path = Path()
    lab: bool = False
    found: str = ""
    """How the file was found, in a few words."""

    @property
    def start_ssh(self) -> bool:
        """Whether a run may start the SSH service of a host for its own time."""
        return self.ssh is None or self.ssh.start_service != "never"

    def of_vcenter(self, name: str) -> Inventory:
        """Return this inventory with the sections `ssh` and `guests` that one of its vCenters has in their place."""
        own = self.vcenters[name]
        return replace(self, ssh=own.ssh or self.ssh, guests=own.guests or self.guests)

    @property
    def notify_request(self) -> NotifyRequest:
        """Who is notified unless options name others."""
        if self.notify is None:
            return NotifyRequest()
        command, webhook, secret = (
            text or "" for text in (self.notify.command, self.notify.webhook, self.notify.secret)
        )
        return NotifyRequest(command, webhook, secret, self.path, self.path)

    def groups(self, kind: TargetKind) -> Mapping[str, InventoryGroup]:
        """Return the groups of hosts or of VMs; there are none of datacenters."""
        return {"host": self.hosts, "vm": self.vms}.get(kind, {})


class _File(InventorySection):
    """The keys of an inventory file."""

    lab: bool = False
    vcenters: Mapping[str, Any] = {}
    hosts: Mapping[str, Any] = {}
    vms: Mapping[str, Any] = {}
    ssh: Any = None
    guests: Any = None
    notify: Any = None
    pools: Mapping[str, Any] = {}
    reserved_addresses: tuple[Any, ...] = ()
    leaves: Mapping[str, Any] = {}
    vars: Mapping[str, Any] = {}
    host_vars: Mapping[str, Any] = {}


def load_inventory(path: Path) -> Inventory:
    """Read an inventory; `InputError` with every fault, `UsageError` when it needs a lab and none runs."""
    faults = FaultCollector()
    document = load(path, faults)
    base = path.absolute().parent
    place = ValuePlace(document, (), faults)
    refuse_variables(document, faults)
    data = document.data
    if isinstance(data, Mapping):
        data = {key: value for key, value in data.items() if not key.startswith(FOR_ANCHORS)}
    file = validate(_File, {} if data is None else data, place)
    if file is None:
        raise InputError(faults.found)
    given = file.model_fields_set
    inventory = Inventory(
        path=path,
        vcenters=_vcenters(file.vcenters, place, base),
        hosts=_groups(file.hosts, "hosts", HostGroup, place),
        vms=_groups(file.vms, "vms", VmSelector, place),
        pools=_pools(file, place),
        reserved=read_reserved(file.reserved_addresses, document, faults),
        leaves=read_leaves(file.leaves, place),
        variables=read_inventory_values(document, faults),
        ssh=validate(SshSettings, file.ssh, place.inside(("ssh",)), context=base) if "ssh" in given else None,
        guests=validate(GuestsSettings, file.guests, place.inside(("guests",)), context=base)
        if "guests" in given
        else None,
        notify=validate(NotifySettings, file.notify, place.inside(("notify",)), context=base)
        if "notify" in given
        else None,
        base=base,
        lab=file.lab,
    )
    if file.lab:
        for key in ("vcenters", "ssh"):
            if key in given:
                place.refuse_key((key,), f"'{key}' comes from the lab", "remove it, or remove 'lab: true'")
    elif not file.vcenters:
        place.refuse((), "no vCenter is given", "add 'vcenters: {NAME: {address: ..., ...}}' or 'lab: true'")
    faults.raise_any()
    return _with_lab(inventory) if file.lab else inventory


def find_inventory(given: Path | None) -> Inventory:
    """Load the given inventory, else a named one, else the project's `vsphere-ai.yaml`, else that of the running lab.

    It is named by ``VSPHERE_AI_INVENTORY``, else by the user's configuration file.
    """
    if given is not None:
        require(given, "inventory")
        return replace(load_inventory(given), found="given with -i")
    named = _named()
    if named is not None:
        path, source = named
        require(path, "inventory", source)
        return replace(load_inventory(path), found=f"named by {source}")
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / PROJECT_INVENTORY).is_file():
            _require_own(folder / PROJECT_INVENTORY)
            where = "found in this folder" if folder == here else "found in a folder above this one"
            return replace(load_inventory(folder / PROJECT_INVENTORY), found=where)
        if (folder / ".git").exists():
            break
    try:
        return replace(load_inventory(running_lab()), found="of the running lab")
    except UsageError as error:
        raise UsageError(
            f"no inventory: give one with -i or {VARIABLE}, or write {PROJECT_INVENTORY}, or start the lab",
            "vsphere-ai lab up starts the embedded lab",
            rule="inventory.none",
        ) from error


def configure_inventory(path: Path | None, source: str = "") -> None:
    """Set the inventory that `find_inventory` takes where none is given, and what names it; none without a path."""
    _configured[:] = [(path, source)] if path else []


def _named() -> tuple[Path, str] | None:
    """Return the inventory that the environment or the configuration file names, and by what."""
    path = os.environ.get(VARIABLE)
    return (Path(path), VARIABLE) if path else next(iter(_configured), None)


def _require_own(found: Path) -> None:
    """Refuse an inventory that was found, not named, and that others may have put there.

    It says which programs are run, which files are read for passwords, and where they are sent.
    """
    unsafe = gap(found)
    if unsafe is not None:
        raise UsageError(
            f"the inventory {found} was not named, and {unsafe.path} {unsafe.why}",
            f"if it is the right one: -i {found}",
            rule="inventory.unsafe",
        )


def running_lab() -> Path:
    """Return the inventory file of the running lab; `UsageError` when none runs."""
    path = lab_dir() / CONNECTION
    if not path.is_file():
        raise UsageError("no lab is running", "start it with: vsphere-ai lab up", rule="lab.not-running")
    return path


def _with_lab(inventory: Inventory) -> Inventory:
    path = running_lab()
    if path == inventory.path:
        raise UsageError(
            f"{path} does not say how to reach the lab", "start it anew: vsphere-ai lab down; vsphere-ai lab up"
        )
    lab = load_inventory(path)
    hosts, vms = {**lab.hosts, **inventory.hosts}, {**lab.vms, **inventory.vms}
    return replace(
        inventory, vcenters=lab.vcenters, hosts=hosts, vms=vms, ssh=lab.ssh, guests=inventory.guests or lab.guests
    )


def _vcenters(values: Mapping[str, object], place: ValuePlace, base: Path) -> dict[str, VCenterSettings]:
    found: dict[str, VCenterSettings] = {}
    for name, value in values.items():
        path = ("vcenters", name)
        _check_name(name, path, place)
        if isinstance(value, Mapping) and "name" in value:
            place.refuse_key((*path, "name"), "unknown key 'name'", "the name is the key above")
            continue
        given = {**value, "name": name} if isinstance(value, Mapping) else value
        made = validate(VCenterSettings, given, place.inside(path), context=base)
        if made:
            found[name] = made
    return found


def _pools(file: _File, place: ValuePlace) -> dict[str, AddressPool]:
    for section, name in (*(("pools", n) for n in file.pools), *(("leaves", n) for n in file.leaves)):
        _check_name(name, (section, name), place)
    return read_pools(file.pools, place.document, place.faults)


def _groups(
    values: Mapping[str, object], section: str, model: type[HostGroup | VmSelector], place: ValuePlace
) -> dict[str, InventoryGroup]:
    found: dict[str, InventoryGroup] = {}
    for name, value in values.items():
        path = (section, name)
        _check_name(name, path, place)
        if name == "all":
            place.refuse_key(path, "'all' always means every object", "choose another name for this group")
        bare = isinstance(value, str | tuple)
        names = (value,) if isinstance(value, str) else value
        if section == "hosts" and isinstance(value, Mapping):
            value = {key: each for key, each in value.items() if key != VARS}
        given = {"names": names} if bare else value
        made = validate(model, given, place.inside(path, "names" if bare else ""))
        if made is not None:
            mark = place.document.mark_of_key(path)
            found[name] = InventoryGroup(name, made, mark, place.document.excerpt(mark, len(name)))
    return found


def _check_name(name: str, path: tuple[str, str], place: ValuePlace) -> None:
    if not NAME.fullmatch(name):
        help = "use letters, digits, '_', '-' and '.', and start with a letter"
        place.refuse_key(path, f"'{name}' cannot be a name here", help)
