"""Files of operators that are one model, such as profiles, jobs and baselines: read with every fault at its place."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from vsphere_ai.errors import Diagnostic, InputError
from vsphere_ai.language.yaml_files.document import Document, FaultCollector, require
from vsphere_ai.language.yaml_files.merge_keys import load
from vsphere_ai.language.yaml_files.validation import ValuePlace, validate

M = TypeVar("M", bound=BaseModel)


def load_model(model: type[M], path: Path, what: str) -> M:
    """Load a file, of which `what` is a word for people.

    `InputError` with file, line and column of every fault, `UsageError` when there is no such file.
    """
    require(path, what)
    faults = FaultCollector()
    return read_model(model, load(path, faults), faults)


def read_model(model: type[M], document: Document, faults: FaultCollector) -> M:
    """Return the model that a document is, an empty one where it is empty; `InputError` with every fault."""
    data = {} if document.data is None else document.data
    made = validate(model, data, ValuePlace(document, (), faults))
    faults.raise_any()
    if made is None:
        help_ = f"keys of it are {', '.join(sorted(model.model_fields))}"
        raise InputError([Diagnostic(document.mark_of(), f"this is no {model.__name__}", help_)])
    return made
