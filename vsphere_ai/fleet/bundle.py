"""Bundle: a playbook and the files that it names, as text, for machines that do not have them.

On the other machine they lie in a folder of their own; what comes back has the names that they have here.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pydantic import JsonValue, TypeAdapter

from vsphere_ai.errors import InputError, UsageError
from vsphere_ai.language.inventories.inventory import Inventory
from vsphere_ai.language.playbooks.playbook import load_playbook
from vsphere_ai.language.playbooks.reference import Reference
from vsphere_ai.language.playbooks.variables import Overrides
from vsphere_ai.language.yaml_files.document import require, text_of
from vsphere_ai.language.yaml_files.opened_files import opened
from vsphere_ai.model.variables import Value
from vsphere_ai.resources import kinds
from vsphere_ai.security.files import make_private_folder, write_private


@dataclass(frozen=True)
class Bundle:
    """Texts by their names below the playbook's folder; files of variables as they were named, with their texts."""

    folder: str
    playbook: str
    texts: Mapping[str, str]
    values: tuple[tuple[str, str], ...] = ()


_BUNDLE: TypeAdapter[Bundle] = TypeAdapter(Bundle)


def bundle_values(bundle: Bundle) -> JsonValue:
    """Return a bundle as JSON values."""
    found: JsonValue = _BUNDLE.dump_python(bundle, mode="json")
    return found


def bundle_of(values: JsonValue) -> Bundle:
    """Return the bundle that values are of."""
    return _BUNDLE.validate_python(values)


def pack(playbook: Path, vars_files: tuple[Path, ...] = ()) -> Bundle:
    """Return a playbook with every file that reading it takes: those that it includes, and those that settings name.

    What is wrong in it is found where it is planned, with the variables of the inventory there. `UsageError` where it
    is not there, or takes outputs of other playbooks; `InputError` where it cannot be read.
    """
    require(playbook, "playbook")
    read: dict[Path, str] = {}
    token = opened.set(read)
    try:
        text_of(playbook)
        with suppress(InputError):
            given = Overrides((), (), lambda: Inventory(playbook), strict=False)
            load_playbook(playbook, kinds(), _refused, given)
    finally:
        opened.reset(token)
    folder = playbook.parent
    texts = {path.relative_to(folder).as_posix(): text for path, text in read.items() if path.is_relative_to(folder)}
    return Bundle(str(folder), playbook.name, texts, tuple((str(f), text_of(f)) for f in vars_files))


def _refused(reference: Reference) -> Value:
    text = (
        f"{reference.mark}: '{reference.text}' is an output of another playbook, which workers of a fleet do not have"
    )
    site = "write a variable there, and its value as vars: into the inventory of each worker, or give --var"
    help = f"{site}; the value now: vsphere-ai output {reference.file} {reference.name}"
    raise UsageError(text, help, rule="usage.references")


@contextmanager
def unpacked(bundle: Bundle) -> Iterator[tuple[Path, tuple[Path, ...], Callable[[JsonValue], JsonValue]]]:
    """Write the files of a bundle into a folder; yield playbook, files of variables, and what renames them back."""
    with tempfile.TemporaryDirectory(prefix="vsphere-ai-") as made:
        folder = Path(made).resolve()
        own, values = folder / "playbook", [folder / f"values-{n}" for n in range(len(bundle.values))]
        for name, text in bundle.texts.items():
            _write(own, name, text)
        names = {f"{own}/": _prefix(bundle.folder)}
        files = []
        for place, (name, text) in zip(values, bundle.values, strict=True):
            _write(place, PurePosixPath(name).name, text)
            files.append(place / PurePosixPath(name).name)
            names[f"{place}/"] = _prefix(str(PurePosixPath(name).parent))
        yield own / bundle.playbook, tuple(files), lambda value: _renamed(value, names)


def _prefix(folder: str) -> str:
    return "" if folder == "." else f"{folder.rstrip('/')}/"


def _write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        raise UsageError(f"'{name}' is not below the folder of its playbook", "put it there", rule="fleet.bundle")
    make_private_folder(path.parent)
    write_private(path, text.encode())


def _renamed(value: JsonValue, names: Mapping[str, str]) -> JsonValue:
    if isinstance(value, str):
        for made, name in names.items():
            value = value.replace(made, name)
        return value
    if isinstance(value, dict):
        return {key: _renamed(each, names) for key, each in value.items()}
    return [_renamed(each, names) for each in value] if isinstance(value, list) else value
