"""Data of cloud-init in a VM's advanced settings: identity, network, keys of users, and the command that ends it.

Source: cloud-init's DataSourceVMware (doc/rtd/reference/datasources/vmware.rst, since 21.3). Values are written as
``gzip+base64``; a guest reads each by one call of at most 64 KiB (open-vm-tools, lib/include/guest_msg_def.h).
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vsphere_ai.guests.netplan import GuestNic, network_config

MOST_BYTES = 64 * 1024
"""Bytes of one encoded value."""
READY = "guestinfo.vsphere-ai.ready"
"""Key that the guest writes when cloud-init has ended: the generation of what it was given."""
MOST_HOSTNAME = 63

_HOSTNAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_KEY = re.compile(r"(ssh-(ed25519|rsa|dss)|ecdsa-sha2-nistp\d+|sk-[a-z0-9@.-]+) [A-Za-z0-9+/=]+( .*)?")


@dataclass(frozen=True)
class User:
    """An account of the guest and its public keys; it has no password."""

    name: str
    ssh_authorized_keys: tuple[str, ...]
    sudo: bool = True


@dataclass(frozen=True)
class Guest:
    """What a VM's guest is to be. `instance_id` is another one where everything of cloud-init has to run again."""

    hostname: str
    instance_id: str
    nics: tuple[GuestNic, ...]
    users: tuple[User, ...] = ()
    generation: int = 1


def faults(guest: Guest) -> Iterator[str]:
    """Yield what a guest cannot be given, a sentence each."""
    if not _HOSTNAME.fullmatch(guest.hostname) or len(guest.hostname) > MOST_HOSTNAME:
        yield f"'{guest.hostname}' is no host name: at most {MOST_HOSTNAME} lower-case letters, digits and '-' inside"
    for user in guest.users:
        for key in user.ssh_authorized_keys:
            if not _KEY.fullmatch(key):
                yield f"a key of the user {user.name} is no public key of SSH: it begins with '{key[:12]}'"
    for name, value in extra_config(guest).items():
        if len(value) > MOST_BYTES:
            yield f"{name} has {len(value)} bytes, and a guest reads at most {MOST_BYTES}"


def metadata(guest: Guest) -> dict[str, object]:
    """Return the metadata: identity and network."""
    return {
        "instance-id": guest.instance_id,
        "local-hostname": guest.hostname,
        "network": {"config": network_config(guest.nics)},
        # the user data only: without metadata cloud-init finds no source at the next boot
        "redact": ["userdata"],
    }


def userdata(guest: Guest) -> str:
    """Return the user data: accounts with their keys, and the command that says that all of it was done."""
    said = f"{READY} {guest.generation}"
    words = json.dumps({
        "users": [
            {
                "name": user.name,
                "ssh_authorized_keys": list(user.ssh_authorized_keys),
                "lock_passwd": True,
                "shell": "/bin/bash",
                **({"sudo": "ALL=(ALL) NOPASSWD:ALL"} if user.sudo else {}),
            }
            for user in guest.users
        ],
        "ssh_pwauth": False,
        "runcmd": [["vmware-rpctool", f"info-set {said}"]],
    })  # fmt: skip
    return f"#cloud-config\n{words}\n"  # JSON is YAML


def extra_config(guest: Guest) -> dict[str, str]:
    """Return the advanced settings of the VM: each value with its encoding."""
    values = {"metadata": json.dumps(metadata(guest)), "userdata": userdata(guest)}
    found = {f"guestinfo.{name}": _encoded(text) for name, text in values.items()}
    return found | {f"guestinfo.{name}.encoding": "gzip+base64" for name in values}


def decoded(settings: Mapping[str, str], name: str) -> str:
    """Return what `extra_config` wrote for ``metadata`` or ``userdata``; empty where there is nothing."""
    value = settings.get(f"guestinfo.{name}", "")
    return gzip.decompress(base64.b64decode(value)).decode() if value else ""


def missing_addresses(nics: Sequence[GuestNic], reported: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Yield (MAC, address) of each planned address that a guest does not report; `reported` is by MAC address."""
    seen = {(mac.lower(), text.partition("/")[0].lower()) for mac, each in reported.items() for text in each}
    for nic in nics:
        for text in nic.addresses:
            found = text.partition("/")[0]
            if (nic.mac, found.lower()) not in seen:
                yield nic.mac, found


def _encoded(text: str) -> str:
    # without a time stamp: the same guest has the same text in every plan
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
