"""Objects of a Kubernetes manifest with their places, and what rules find in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Annotated, ClassVar, Generic, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    JsonValue,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from vsphere_ai.errors import Mark
from vsphere_ai.language.yaml_files.document import Document, DocumentPath
from vsphere_ai.model.finding import Finding, Subject, Verdict

BrokenRule = InitErrorDetails
"""A rule that a part of an object breaks, as pydantic has it; see `broken`."""
ObjectFinding = Finding[Subject]
"""A finding about one place of a manifest: its subject is the object, with the mark of the place.

``fail``: the API server or the operator refuses or ignores it.
"""


def _with_lists(value: object) -> object:
    """Return a value of a document, whose lists are tuples, as JSON has it."""
    if isinstance(value, dict):
        return {key: _with_lists(each) for key, each in value.items()}
    return [_with_lists(each) for each in value] if isinstance(value, tuple) else value


Anything = Annotated[JsonValue, BeforeValidator(_with_lists)]
"""A value of a field that is not looked into."""


RULES_NOTED = object()
"""Context of a validation that looks at types only: the rules were already held against the value."""


def rule_error(rule: str, message: str, help: str = "", verdict: Verdict = "fail") -> PydanticCustomError:
    """Return a broken rule as a validator raises it; the type of such an error is the rule, and has a dot."""
    return PydanticCustomError(rule, "{message}", {"message": message, "help": help, "verdict": verdict})


def broken(rule: str, message: str, help: str = "", at: DocumentPath = (), verdict: Verdict = "fail") -> BrokenRule:
    """Return a rule that a part of an object breaks, at a path below this part."""
    return InitErrorDetails(type=rule_error(rule, message, help, verdict), loc=tuple(at), input=None)


def keeps(rule: str, parse: Callable[[str], object]) -> AfterValidator:
    """Return the validator of a text that `parse` has to take; its `ValueError` has a sentence, and a remedy below."""

    def check(text: str, info: ValidationInfo) -> str:
        if info.context is not RULES_NOTED:
            try:
                parse(text)
            except ValueError as error:
                message, _, help = str(error).partition("\n")
                raise rule_error(rule, message, help) from None
        return text

    return AfterValidator(check)


class RuledModel(BaseModel):
    """A part of an object that validates itself by its types, and by rules across its fields."""

    model_config = ConfigDict(defer_build=True)

    def broken_rules(self) -> Iterator[BrokenRule]:
        """Yield the rules that the values break together."""
        return iter(())

    @model_validator(mode="after")
    def _rules_hold(self, info: ValidationInfo) -> Self:
        found = [] if info.context is RULES_NOTED else list(self.broken_rules())
        if found:
            raise ValidationError.from_exception_data(type(self).__name__, found)
        return self


class Spec(RuledModel):
    """A part of an object as its CustomResourceDefinition has it; the names of fields are those of the manifest."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    MISTAKES: ClassVar[Mapping[str, str]] = {}
    """Fields of older releases or of other APIs -> what to write instead."""


T = TypeVar("T")
S_co = TypeVar("S_co", bound=Spec, covariant=True)


@dataclass(frozen=True)
class Manifest:
    """One object: its kind, and where in which document it stands."""

    document: Document
    path: DocumentPath
    data: Mapping[str, JsonValue]

    @property
    def api_version(self) -> str:
        """Return ``group/version``; empty when it is not text."""
        return _text(self.data.get("apiVersion"))

    @property
    def group(self) -> str:
        """Return the API group, such as ``spiderpool.spidernet.io``."""
        return self.api_version.partition("/")[0]

    @property
    def kind(self) -> str:
        """Return the kind, such as ``SpiderIPPool``; empty when it is not text."""
        return _text(self.data.get("kind"))

    @property
    def name(self) -> str:
        """Return ``metadata.name``; empty when it is not text."""
        return _text(self.metadata.get("name"))

    @property
    def namespace(self) -> str:
        """Return ``metadata.namespace``; empty when there is none."""
        return _text(self.metadata.get("namespace"))

    @property
    def metadata(self) -> Mapping[str, JsonValue]:
        """Return what ``metadata`` holds."""
        found = self.data.get("metadata")
        return found if isinstance(found, dict) else {}

    def __str__(self) -> str:
        return f"{self.kind} {self.name or '(no name)'}"

    def fault(self, path: DocumentPath, rule: str, message: str, help: str = "") -> ObjectFinding:
        """Return a failure at a path below the object."""
        return self._failed(self.document.mark_of((*self.path, *path)), rule, message, help)

    def key_fault(self, path: DocumentPath, rule: str, message: str, help: str = "") -> ObjectFinding:
        """Return a failure at the key, not the value, that a path ends in."""
        return self._failed(self.document.mark_of_key((*self.path, *path)), rule, message, help)

    def warning(self, path: DocumentPath, rule: str, message: str, help: str = "") -> ObjectFinding:
        """Return a warning at a path below the object."""
        return replace(self.fault(path, rule, message, help), verdict="warn")

    def _failed(self, mark: Mark, rule: str, message: str, help: str) -> ObjectFinding:
        excerpt = self.document.excerpt(mark)
        evidence = (("excerpt", excerpt),) if excerpt else ()
        return Finding(Subject("object", str(self), mark=mark), rule, "fail", message, help, evidence)

    def mark_of(self, path: DocumentPath = ()) -> Mark:
        """Return the place of a path below the object."""
        return self.document.mark_of((*self.path, *path))


class Texts:
    """Reads the texts of one object, and keeps the faults of those that cannot be read."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.faults: list[ObjectFinding] = []

    def read(self, path: DocumentPath, rule: str, parse: Callable[[str], T], text: str) -> T | None:
        """Return what a text means; None, with the fault kept, when `parse` refuses it with a `ValueError`."""
        try:
            return parse(text)
        except ValueError as error:
            message, _, help = str(error).partition("\n")
            self.faults.append(self.manifest.fault(path, rule, message, help))
            return None

    def read_all(self, path: DocumentPath, rule: str, parse: Callable[[str], T], texts: Iterable[str]) -> dict[int, T]:
        """Return what the texts of a list mean, by their index."""
        each = ((index, self.read((*path, index), rule, parse, text)) for index, text in enumerate(texts))
        return {index: found for index, found in each if found is not None}


@dataclass(frozen=True)
class TypedObject(Generic[S_co]):
    """An object whose schema holds, with its spec as a model."""

    manifest: Manifest
    spec: S_co


def manifests(documents: Iterable[Document]) -> Iterator[Manifest | ObjectFinding]:
    """Yield the objects of manifests, also those of a ``List``; a fault for what is no object."""
    for document in documents:
        if document.data is not None:
            yield from _objects(Manifest(document, (), {}), document.data)


def version_fault(manifest: Manifest, version: str) -> ObjectFinding | None:
    """Return what is wrong with the version or the name of an object of a known kind."""
    if manifest.api_version != f"{manifest.group}/{version}":
        message = f"'{manifest.api_version}' is not served"
        return manifest.fault(("apiVersion",), "manifest.version", message, f"write {manifest.group}/{version}")
    if not manifest.name:
        return manifest.fault(("metadata",), "manifest.name", "the object has no name", "add metadata.name")
    return None


def is_newer_kind(kind: str, known: Iterable[str]) -> bool:
    """Return whether a kind is none of those known, nor nearly one: a newer release may have it, it is not judged."""
    names = tuple(known)
    return kind not in names and not get_close_matches(kind, names, n=1, cutoff=0.8)


def twice(objects: Iterable[Manifest]) -> Iterator[ObjectFinding]:
    """Yield objects of the same kind and name as one before."""
    seen: dict[tuple[str, str, str, str], Manifest] = {}
    for each in objects:
        first = seen.setdefault((each.group, each.kind, each.namespace, each.name), each)
        if first is not each and each.name:
            message = f"{each} is written twice: first in {first.mark_of()}"
            yield each.fault(("metadata", "name"), "manifest.twice", message, "keep one of them")


def _objects(place: Manifest, data: object) -> Iterator[Manifest | ObjectFinding]:
    if (
        not isinstance(data, dict)
        or not isinstance(data.get("kind"), str)
        or not isinstance(data.get("apiVersion"), str)
    ):
        help = "an object begins with apiVersion, kind and metadata"
        yield place.fault((), "manifest.object", "this is not a Kubernetes object: it has no apiVersion or kind", help)
        return
    found = Manifest(place.document, place.path, data)
    items = data.get("items")
    if found.kind.endswith("List") and isinstance(items, tuple):
        for index, item in enumerate(items):
            yield from _objects(Manifest(place.document, (*place.path, "items", index), {}), item)
        return
    yield found


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
