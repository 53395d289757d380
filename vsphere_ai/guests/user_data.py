"""User data of a playbook for cloud-init: keys that belong to this tool, and how the others are merged with its own.

Source: cloud-init's module reference (docs.cloud-init.io, reference/modules) and its schema-cloud-config-v1.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from vsphere_ai.model.bounded import json_value
from vsphere_ai.model.dated_table import dated_table
from vsphere_ai.model.names.suggestion import mistyped
from vsphere_ai.model.plain import Plain, PlainObject, objects

FOLDER = "/var/lib/vsphere-ai"
"""Folder of this tool in the guest: the NICs as JSON, the probe, and the command that runs it."""
_USERS, _NAME = "write 'users' of vm_set", "a guest has the name of its VM"
_NETWORK = "write 'nics' of vm_set"
_SECRETS = "leave it out: who may read the VM's configuration in vCenter would see private keys"
_MODULES = "leave it out: the guest needs cloud-init's own list of modules to say that it is ready"
OURS: Mapping[str, str] = {
    "users": _USERS,
    "user": _USERS,
    "groups": "create groups by 'runcmd: [[groupadd, NAME]]'",
    "password": _USERS,
    "chpasswd": _USERS,
    "ssh_pwauth": "leave it out: accounts log in over SSH by public keys only",
    "ssh_authorized_keys": _USERS,
    "ssh_keys": _SECRETS,
    "ssh_deletekeys": "leave it out: each VM makes SSH host keys of its own",
    "hostname": _NAME,
    "fqdn": _NAME,
    "preserve_hostname": _NAME,
    "prefer_fqdn_over_hostname": _NAME,
    "create_hostname_file": _NAME,
    "network": _NETWORK,
    "power_state": "leave it out: a run waits until the guest is ready; write 'power_state' of vm_set",
    "datasource": "leave it out: the data come from the VM's advanced settings",
    "datasource_list": "leave it out: the data come from the VM's advanced settings",
    "cloud_init_modules": _MODULES,
    "cloud_config_modules": _MODULES,
    "cloud_final_modules": _MODULES,
    "merge_how": "leave it out: lists of files are joined, every other key is taken as it is",
    "merge_type": "leave it out: lists of files are joined, every other key is taken as it is",
    "system_info": "leave it out: it is part of the image",
    "vendor_data": "leave it out: there is none",
}
"""Keys of cloud-config that this tool sets or relies on -> what to do instead."""
LISTS = ("bootcmd", "runcmd", "packages", "write_files", "mounts")
"""Keys whose values are lists."""
FILES = "write_files"


@cache
def _known() -> frozenset[str]:
    """Return the keys of cloud-config that are known; another one may be of a module of the image, and is passed on."""
    return frozenset((*dated_table("guests/cloud_init.yaml").values["keys"], *OURS))


class UserDataFault(NamedTuple):
    """Fault of user data: the keys and indices that lead to the value, a sentence, and what would work."""

    path: tuple[str | int, ...]
    message: str
    help: str


def user_data_faults(given: Plain) -> Iterator[UserDataFault]:
    """Yield what cannot be given to a guest: keys of this tool, misspelt ones, files in its folder, wrong shapes."""
    if not isinstance(given, Mapping):
        yield UserDataFault((), "user data are a mapping of cloud-config", "write its keys, such as 'packages: [...]'")
        return
    for key, value in given.items():
        if key in OURS:
            yield UserDataFault((key,), f"'{key}' of the user data is set by vsphere-ai", OURS[key])
        elif key not in _known() and (meant := mistyped(key, _known())):
            yield UserDataFault((key,), f"'{key}' is no key of cloud-config", f"did you mean '{meant}'?")
        elif key in LISTS and not isinstance(value, list | tuple):
            yield UserDataFault((key,), f"'{key}' of cloud-config is a list", "write each item after '- '")
    yield from _file_faults(given.get(FILES))


def _file_faults(files: Plain) -> Iterator[UserDataFault]:
    for number, file in enumerate(files if isinstance(files, list | tuple) else ()):
        path = file.get("path") if isinstance(file, Mapping) else None
        at = (FILES, number)
        if not isinstance(path, str) or not path.startswith("/"):
            yield UserDataFault(at, "a file of 'write_files' has no absolute path", "add 'path: /...'")
        elif path == FOLDER or path.startswith(f"{FOLDER}/") or path.endswith("/vsphere-ai-ready.sh"):
            words = f"{path} belongs to vsphere-ai, which writes it there"
            yield UserDataFault(at, words, "choose another path")


def canonical(given: PlainObject) -> str:
    """Return user data as one line of JSON, the same for the same data; empty for none."""
    return json.dumps(_plain(given), sort_keys=True, ensure_ascii=False) if given else ""


def merged(ours: PlainObject, text: str) -> PlainObject:
    """Return the user data of a guest: keys of the play beside ours, its files before ours (see `canonical`)."""
    if not text:
        return ours
    theirs = json_value(text)
    files = (*objects(theirs.get(FILES)), *objects(ours.get(FILES)))
    return {**theirs, **ours, FILES: files}


def keys_of(text: str) -> tuple[str, ...]:
    """Return the keys of canonical user data, in order."""
    return tuple(json_value(text)) if text else ()


def _plain(value: Plain) -> Plain:
    """Return a value of lists and dictionaries, which JSON can write."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(inner) for inner in value]
    return value
