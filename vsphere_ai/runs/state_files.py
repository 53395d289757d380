"""Files of the state folder that hold one document each: read whole or named, written in one piece."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from vsphere_ai.documents.stored import DamagedDocument, Stored, StoredDocument, read_stored
from vsphere_ai.errors import Mark, Storage
from vsphere_ai.security.files import STATE, append_private, flush, read_bytes, write_private

REMEDY = "make room, or look at who owns the folder"


def read_state(path: Path, model: type[Stored]) -> Stored | None:
    """Return the document of a file; None where there is no file.

    `DamagedDocument` where the file cannot be read, or holds something else: it is never taken for an empty one.
    """
    content = _content(path, model)
    return None if content is None else read_stored(model, content, str(path))


def read_state_lines(path: Path, model: type[Stored]) -> Iterator[Stored]:
    """Yield the document of each line of a file, none where there is no file; `DamagedDocument` as `read_state`."""
    content = _content(path, model)
    for number, line in enumerate(content.removesuffix(b"\n").split(b"\n") if content is not None else (), 1):
        yield read_stored(model, line, str(path), number)


def _content(path: Path, model: type[StoredDocument]) -> bytes | None:
    try:
        return read_bytes(path, STATE)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedDocument(f"{error.strerror}", model.remedy, Mark(str(path)), rule=model.rule) from None


def write_state(path: Path, document: StoredDocument, remedy: str = REMEDY, *, durable: bool = False) -> None:
    """Write a document into its file; `Storage` where that cannot be. `durable`: it is on the disk then."""
    try:
        write_private(path, f"{document.as_text()}\n".encode())
        if durable:
            flush(path.parent)
    except OSError as error:
        raise Storage(f"{path}: {error.strerror}", remedy) from error


def append_state(path: Path, document: StoredDocument, remedy: str = REMEDY) -> None:
    """Add a document as a line to a file; `Storage` where that cannot be."""
    try:
        is_cut = path.exists() and not read_bytes(path, STATE).endswith(b"\n")  # as an editor may leave it
        append_private(path, ("\n" if is_cut else "") + f"{document.as_text()}\n")
    except OSError as error:
        raise Storage(f"{path}: {error.strerror}", remedy) from error
