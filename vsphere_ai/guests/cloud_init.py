"""Data of cloud-init in a VM's advanced settings: identity, network, keys of users, and the command that ends it.

Source: cloud-init's DataSourceVMware (doc/rtd/reference/datasources/vmware.rst, since 21.3). Values are written as
``gzip+base64``; a guest reads each by one call of at most 64 KiB (open-vm-tools, lib/include/guest_msg_def.h).
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from ipaddress import ip_address, ip_interface
from typing import cast

from vsphere_ai.guests.netplan import GuestNic, network_config, tables
from vsphere_ai.guests.network_problems import network_problems
from vsphere_ai.guests.ssh_key import public_key
from vsphere_ai.guests.user_data import FOLDER, merged
from vsphere_ai.model.bounded import json_value, yaml_value
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.names.networks import Address
from vsphere_ai.model.plain import Plain, PlainObject
from vsphere_ai.model.state import Target

MOST_BYTES = 64 * 1024
"""Bytes of one encoded value."""
MOST_SETTINGS = 1024 * 1024
"""Bytes of all advanced settings of a VM: the size of its .vmx file (github.com/vmware-tanzu/vm-operator issue 148)."""
MOST_HOSTNAME = 63
MOST_USER = 32
METADATA, USERDATA = "guestinfo.metadata", "guestinfo.userdata"
ENCODINGS = ("base64", "b64", "gzip+base64", "gz+b64")
"""Encodings that cloud-init knows."""
REDACTED = "---"
"""Value of a key that cloud-init has cleared; a guest cannot remove a key."""
HEAD = "#cloud-config\n"
PASSWORD = "hashed_passwd"  # noqa: S105 - the name of a field
"""Field of an account of cloud-init's user data."""
LEFT = "guest.password-left"
EACH_BOOT = "/var/lib/cloud/scripts/per-boot/vsphere-ai-ready.sh"
"""Script that cloud-init runs in its final stage, at the first boot and at each later one (scripts-per-boot)."""

_HOSTNAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_USER = re.compile(r"[a-z_][a-z0-9_-]*")
_FILES = {"ready.sh": "ready.sh", "probe.py": "probe.py.txt"}


@dataclass(frozen=True)
class User:
    """An account of the guest and its public keys, a line each as in ``authorized_keys``.

    Its password, where it `has_password`, comes in when the VM is made (`with_passwords`).
    """

    name: str
    ssh_authorized_keys: tuple[str, ...]
    sudo: bool = True
    has_password: bool = False


@dataclass(frozen=True)
class Guest:
    """What a VM's guest is to be.

    cloud-init takes another `generation`, or another `instance_id`, for a new machine: everything runs again, and the
    SSH host keys are made anew.
    """

    hostname: str
    instance_id: str
    nics: tuple[GuestNic, ...]
    users: tuple[User, ...] = ()
    generation: int = 1
    user_data: str = ""
    """What else cloud-init is to do (see `user_data.canonical`)."""


def guest_problems(target: Target, guest: Guest, settings: Mapping[str, str] | None = None) -> Iterator[Problem]:
    """Yield why a VM's guest cannot be made so, each with a rule id ``guest.*``; `settings` are the VM's other ones."""
    found = list(identity_problems(target, guest))
    found += network_problems(target, guest.nics)
    yield from found
    if not any(problem.rule in ("guest.address", "guest.gateway", "guest.route") for problem in found):
        yield from _sizes(target, extra_config(guest), settings or {})


def identity_problems(target: Target, guest: Guest) -> Iterator[Problem]:
    """Yield the problems of the host name, the users and their keys."""
    if not _HOSTNAME.fullmatch(guest.hostname) or len(guest.hostname) > MOST_HOSTNAME:
        help = f"use at most {MOST_HOSTNAME} lower-case letters, digits and '-', which neither begins nor ends it"
        yield Finding.problem(target, "guest.hostname", f"'{guest.hostname}' is not a valid host name", help)
    for user in guest.users:
        if not _USER.fullmatch(user.name) or len(user.name) > MOST_USER:
            help = f"use at most {MOST_USER} lower-case letters, digits, '_' and '-', a letter first"
            yield Finding.problem(target, "guest.user", f"'{user.name}' is not a valid user name", help)
        if not (user.ssh_authorized_keys or user.has_password):
            help = "give it a public SSH key; without a password it is locked"
            yield Finding.problem(target, "guest.user", f"the user {user.name} could not log in", help)
        for number, key in enumerate(user.ssh_authorized_keys, 1):
            try:
                public_key(key)
            except ValueError as error:
                words, _, help = str(error).partition("\n")
                yield Finding.problem(target, "guest.ssh-key", f"key {number} of the user {user.name} {words}", help)
    names = [user.name for user in guest.users]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Finding.problem(
            target, "guest.user", f"the user {name} is there twice", "keep one of them, with all keys"
        )


def metadata(guest: Guest) -> dict[str, object]:
    """Return the metadata: identity and network."""
    return {
        "instance-id": f"{guest.instance_id}-{guest.generation}",
        "local-hostname": guest.hostname,
        "network": network_config(guest.nics),
        # the user data only: without metadata cloud-init finds no source at the next boot
        "redact": ["userdata"],
    }


def userdata(guest: Guest) -> str:
    """Return the user data: accounts with their keys, and the script that reports at each boot that all is done."""
    contents = {"nics.json": _nics(guest)} | {name: _shipped(file) for name, file in _FILES.items()}
    ours: PlainObject = {
        "users": [
            {
                "name": user.name,
                "ssh_authorized_keys": list(user.ssh_authorized_keys),
                "lock_passwd": not user.has_password,
                "shell": "/bin/bash",
                **({"sudo": "ALL=(ALL) NOPASSWD:ALL"} if user.sudo else {}),
            }
            for user in guest.users
        ],
        "ssh_pwauth": False,
        "write_files": [
            *({"path": f"{FOLDER}/{name}", "content": text} for name, text in contents.items()),
            {"path": EACH_BOOT, "content": f"#!/bin/sh\nexec sh {FOLDER}/ready.sh\n", "permissions": "0755"},
        ],
    }
    words = json.dumps(merged(ours, guest.user_data), ensure_ascii=False)
    # JSON is YAML, but for JSON's escapes of characters beyond U+FFFF
    return f"{HEAD}{words}\n"


def extra_config(guest: Guest) -> dict[str, str]:
    """Return the advanced settings of the VM: each value with its encoding."""
    values = {METADATA: json.dumps(metadata(guest)), USERDATA: userdata(guest)}
    found = {name: _encoded(text) for name, text in values.items()}
    return found | {f"{name}.encoding": "gzip+base64" for name in values}


def with_passwords(settings: Mapping[str, str], hashes: Mapping[str, str]) -> dict[str, str]:
    """Return the advanced settings of `extra_config` with hashed passwords of accounts, by their names."""
    words = json_value(decoded(settings, "userdata").removeprefix(HEAD))
    for user in words["users"]:
        if user["name"] in hashes:
            user[PASSWORD] = hashes[user["name"]]
    return {**settings, USERDATA: _encoded(f"{HEAD}{json.dumps(words, ensure_ascii=False)}\n")}


def holds_password(settings: Mapping[str, str]) -> bool:
    """Return whether the user data of a VM hold a hashed password, or cannot be read."""
    try:
        text = decoded(settings, "userdata")
        users = json_value(text.removeprefix(HEAD))["users"] if PASSWORD in text else ()
        return any(PASSWORD in user for user in users)
    except (ValueError, KeyError, TypeError):
        return True


def guest_checksum(guest: Guest) -> str:
    """Return eight hexadecimal digits that are others where a guest is to be another one.

    They depend neither on how values are packed nor on the probe that this version of the tool ships: a VM that was
    made by an earlier version is not taken for a changed one.
    """
    locked = ((user, [] if not user.has_password else [PASSWORD]) for user in guest.users)
    users = [[user.name, list(user.ssh_authorized_keys), user.sudo, *more] for user, more in locked]
    more = [guest.user_data] if guest.user_data else []
    text = json.dumps([metadata(guest), users, *more], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def decoded(settings: Mapping[str, str], name: str) -> str:
    """Return the text of ``metadata`` or ``userdata``; empty where there is none, or where cloud-init cleared it.

    `ValueError` where a guest could not read it.
    """
    value, encoding = settings.get(f"guestinfo.{name}", "").strip(), settings.get(f"guestinfo.{name}.encoding", "")
    if value in ("", REDACTED):
        return ""
    try:
        raw = base64.b64decode(value, validate=True) if "64" in encoding else value.encode()
        return (_unpacked(raw) if encoding in ("gzip+base64", "gz+b64") else raw).decode()
    except (ValueError, zlib.error) as error:
        words = (
            encoding if encoding in ENCODINGS else "it is marked" if encoding else "text"
        )  # others may write anything
        raise ValueError(f"guestinfo.{name} is not encoded as {words}: {error}") from None


def given_metadata(settings: Mapping[str, str]) -> Mapping[str, Plain]:
    """Return what a VM's metadata say; empty where it has none. `ValueError`: not readable."""
    found = _parsed(decoded(settings, "metadata"))
    return found if isinstance(found, Mapping) else {}


def given_network(settings: Mapping[str, str]) -> Mapping[str, Plain] | None:
    """Return the content of the network file in a VM's metadata; None where it has none. `ValueError`: not readable."""
    found = given_metadata(settings)
    network = found.get("network")
    if isinstance(network, str):
        inner = {"guestinfo.network": network, "guestinfo.network.encoding": str(found.get("network.encoding") or "")}
        network = _parsed(decoded(inner, "network"))
    if network is None or isinstance(network, Mapping):
        return network
    raise ValueError("the network in the metadata is not a mapping")


def missing_addresses(
    planned: Iterable[tuple[str, Sequence[str]]], reported: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, str]]:
    """Yield (MAC, address) of each planned address that a guest does not report; both are by MAC address.

    Addresses are compared as such: ``fd00:0::11`` is ``FD00::11``. What a guest reports that is none is passed over.
    """
    seen = {(mac.lower(), found) for mac, each in reported.items() for text in each if (found := _reported(text))}
    for mac, addresses in planned:
        for text in addresses:
            if (mac, ip_interface(text).ip) not in seen:
                yield mac, text.partition("/")[0]


def _reported(text: str) -> Address | None:
    try:
        return ip_address(text.partition("/")[0])
    except ValueError:
        return None


def _sizes(target: Target, own: Mapping[str, str], others: Mapping[str, str]) -> Iterator[Problem]:
    for name, value in own.items():
        if len(value) > MOST_BYTES:
            words = f"{name} has {len(value):,} bytes, and a guest reads at most {MOST_BYTES:,}"
            yield Finding.problem(target, "guest.size", words, "give the guest fewer users or keys, or less user data")
    total = sum(len(name) + len(value) + len(' = ""\n') for name, value in {**others, **own}.items())
    if total > MOST_SETTINGS:
        words = f"its advanced settings have {total:,} bytes, and a VM's .vmx file at most {MOST_SETTINGS:,}"
        yield Finding.problem(target, "guest.size", words, "remove large settings from the source")


def _nics(guest: Guest) -> str:
    """Return what the probe reads; the generation is first, where a shell finds it."""
    nics = [
        {
            "name": nic.name,
            "mac": nic.mac,
            "table": table,
            "addresses": [str(ip_interface(text)) for text in nic.addresses],
            "gateways": [
                str(ip_address(text)) for text in dict.fromkeys((*nic.gateways, *(r.via for r in nic.routes)))
            ],
        }
        for nic, table in zip(guest.nics, tables(guest.nics), strict=True)
    ]
    return json.dumps({"generation": guest.generation, "nics": nics}, separators=(",", ":")) + "\n"


@cache
def _shipped(name: str) -> str:
    return (resources.files("vsphere_ai.guests") / "first_boot" / name).read_text("utf-8")


def _parsed(text: str) -> Plain:
    """Return the value of a text in JSON, or in YAML: not every escape of JSON is one of YAML."""
    try:
        return cast("Plain", json_value(text))
    except ValueError:
        pass
    try:
        return cast("Plain", yaml_value(text))
    except ValueError as error:
        raise ValueError(f"the metadata is not YAML: {error}") from None


def _unpacked(raw: bytes) -> bytes:
    """Return what gzip packed. A guest can write its own settings: they are read with bounds."""
    packed = zlib.decompressobj(wbits=31)
    found = packed.decompress(raw, MOST_SETTINGS)
    if not packed.eof:
        raise ValueError(f"it is cut off, or has more than {MOST_SETTINGS:,} bytes")
    return found


def _encoded(text: str) -> str:
    # without a time stamp: the same guest has the same text in every plan
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
