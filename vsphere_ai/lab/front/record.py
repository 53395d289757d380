"""Record of a running lab, ``lab.json``: written when it serves, read by every command that looks for a lab."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from vsphere_ai.errors import Mark
from vsphere_ai.lab.front.starting import LabFailed

FILE = "lab.json"
FORMAT = 1
_KINDS = {"str": str, "int": int, "bool": bool}


@dataclass(frozen=True)
class LabRecord:
    """A lab: its process, where its vCenter and its control endpoint are, the latter's token, and its scenario."""

    pid: int
    url: str
    port: int
    control_port: int
    scenario: str
    scenario_file: str
    scenario_digest: str
    run_jobs: bool
    hosts: int
    vms: int
    token: str
    format: int = FORMAT

    def as_text(self) -> str:
        """Return the content of the file."""
        return json.dumps(asdict(self), indent=2)


def read_record(directory: Path) -> LabRecord | None:
    """Return the record of the lab of a directory; None where there is none, `LabFailed` for an unreadable one."""
    path = directory / FILE
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise LabFailed(f"{path} cannot be read: {error.strerror}", "make it readable for this account") from None
    try:
        values = json.loads(content)
    except json.JSONDecodeError as error:
        raise _damaged(Mark(str(path), error.lineno, error.colno), f"it is not JSON: {error.msg}") from None
    except (ValueError, RecursionError):
        raise _damaged(Mark(str(path), 1, 1), "it is not JSON") from None
    text = content.decode("utf-8", "replace")
    if not isinstance(values, dict):
        raise _damaged(Mark(str(path), 1, 1), "it should be an object")
    values.setdefault("format", FORMAT)  # a lab that an earlier version has started says none
    if values["format"] != FORMAT:
        raise _damaged(_place(path, text, "format"), f"format: another version of vsphere-ai, this one reads {FORMAT}")
    for field in fields(LabRecord):
        value, kind = values.get(field.name), _KINDS[str(field.type)]
        if field.name not in values:
            raise _damaged(Mark(str(path), 1, 1), f"{field.name}: it is missing")
        if type(value) is not kind:
            raise _damaged(_place(path, text, field.name), f"{field.name}: it should be of type {field.type}")
    return LabRecord(**{field.name: values[field.name] for field in fields(LabRecord)})


def _place(path: Path, text: str, key: str) -> Mark:
    """Return where a key of the file is."""
    at = max(text.find(f'"{key}"'), 0)
    return Mark(str(path), text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


def _damaged(mark: Mark, why: str) -> LabFailed:
    return LabFailed(f"{mark}: {why}", f"end the process of that lab, then remove {Path(mark.file).parent}")
