"""User data of a set of VMs as a playbook writes them: keys of cloud-config, their text, or a file beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from pydantic import ConfigDict, model_validator

from vsphere_ai.guests import user_data
from vsphere_ai.model.plain import Plain, PlainObject, as_tuples
from vsphere_ai.model.state import Settings, setting
from vsphere_ai.resources.playbook_files import Files

HEAD = "#cloud-config"
FIELD, FILE, TEXT = "user_data", "file", "text"


class SetUserData(Settings):
    """What cloud-init does in every guest of a set, beside what this tool gives it; any key of cloud-config.

    `packages`, `runcmd`, `write_files` and all others but those of this tool, which are refused. A text is the name of
    a file beside the playbook, or begins with `#cloud-config`.
    """

    model_config = ConfigDict(extra="allow")

    file: str | None = setting("File of cloud-config beside the playbook, instead of its keys.", min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _with_tuples(cls, value: object) -> object:
        """Return values as the reader of playbooks makes them: those of a saved plan have lists."""
        return as_tuples(value)

    @property
    def content(self) -> PlainObject:
        """The keys of cloud-config with their values."""
        return cast("PlainObject", self.model_extra or {})

    @property
    def text(self) -> str:
        """The same as one text (see `user_data.canonical`)."""
        return user_data.canonical(self.content)

    def __str__(self) -> str:
        return ", ".join(sorted(self.content)) or "nothing"


def as_user_data(value: object) -> object:
    """Return what a playbook says as a mapping: a text is one of cloud-config, or names a file that has it."""
    if not isinstance(value, str):
        return value
    if not value.lstrip().startswith("#"):
        return {FILE: value}
    first = value.lstrip().splitlines()[0].strip()
    if first != HEAD:
        raise ValueError(f"user data that begin with '{first[:40]}' are not cloud-config\nbegin with '{HEAD}'")
    return {TEXT: value}


def with_file(said: SetUserData | None, files: Files) -> SetUserData | None:
    """Return user data with the content of their file or text; every fault is noted where it stands."""
    if said is None:
        return None
    if said.file is None and TEXT not in said.content:
        for fault in user_data.user_data_faults(said.content):
            files.refuse((FIELD, *fault.path), fault.message, fault.help)
        return said
    if said.file is not None and said.content:
        files.refuse((FIELD,), "user data have a file, and keys beside it", "write the keys into the file")
        return said
    inner = files.text((FIELD,)) if said.file is None else files.load((FIELD, FILE))
    if inner is None:
        return said
    for fault in user_data.user_data_faults(cast("Plain", inner.data)):
        inner.refuse(fault.path, fault.message, fault.help)
    return SetUserData(**inner.data) if isinstance(inner.data, Mapping) and not {FILE, TEXT} & {*inner.data} else said
