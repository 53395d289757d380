"""Part of a JSON document: a model that writes only what was set, and reads what later versions have added."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, JsonValue


class DocumentPart(BaseModel):
    """A part of a document as JSON. Unknown keys are ignored: keys are only ever added within a schema version."""

    model_config = ConfigDict(defer_build=True, frozen=True)

    def as_json(self) -> dict[str, JsonValue]:
        """Return the JSON form; `model_validate` reads it."""
        return self.model_dump(mode="json", exclude_unset=True, by_alias=True)

    @property
    def keywords(self) -> dict[str, object]:
        """The values that were set, by their names: for a document that has the same keys and more."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class WholePart(DocumentPart):
    """A part that always writes every key, also of what has its default."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    def model_post_init(self, context: object, /) -> None:
        """Note every key as one that was set."""
        self.model_fields_set.update(type(self).model_fields)
