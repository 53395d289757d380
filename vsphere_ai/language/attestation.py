"""Attestations: an operator's answers on manual checks, with owner, date and expiry."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from vsphere_ai.language.yaml_files.document import FaultCollector, load, require
from vsphere_ai.language.yaml_files.validation import ValuePlace, validate
from vsphere_ai.model.names.suggestion import suggest
from vsphere_ai.model.names.yaml_text import prose, scalar
from vsphere_ai.model.records.assessment import Attestation


def _day(value: object) -> date:
    """Return a date that is written 2026-11-23; ValueError for anything else."""
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        raise ValueError(f"{value} is no date\nwrite a date as 2026-11-23") from None


Day = Annotated[date, BeforeValidator(_day)]


class _Answer(BaseModel):
    """One answer of the file."""

    model_config = ConfigDict(defer_build=True, extra="forbid", strict=True, frozen=True)

    rule: str
    answer: Literal["yes", "no", "not applicable"]
    owner: Annotated[str, Field(min_length=1)]
    date: Day
    expires: Day
    note: str = ""

    @model_validator(mode="after")
    def _in_order(self) -> _Answer:
        if self.expires < self.date:
            raise ValueError("the answer expires before its date\nlet 'expires' be a later date")
        return self


def load_attestations(path: Path, known: Collection[str]) -> Mapping[str, Attestation]:
    """Return the answers of a file by the id of their rule; `known` are the rules that can be attested.

    `InputError` with every fault of the file: an unknown rule, one that is answered twice, a date in the future.
    """
    require(path, "file of attestations")
    faults = FaultCollector()
    document = load(path, faults)
    found: dict[str, Attestation] = {}
    items = document.data
    if not isinstance(items, (list, tuple)):
        document.refuse(faults, (), "attestations are a list", "begin each answer with '- rule: ID'")
        items = ()
    for index, item in enumerate(items):
        given = validate(_Answer, item, ValuePlace(document, (index,), faults))
        if given is None:
            continue
        if given.rule not in known:
            help = suggest(given.rule, known, "rules that are attested")
            document.refuse(faults, (index, "rule"), f"'{given.rule}' is no rule that is attested", help)
        elif given.rule in found:
            document.refuse(faults, (index, "rule"), f"'{given.rule}' is answered twice", "keep one answer")
        elif given.date > date.today():
            document.refuse(faults, (index, "date"), f"{given.date} is in the future", "write the day of the answer")
        else:
            answer = Attestation(given.rule, given.answer, given.owner, given.date, given.expires, given.note)
            found[given.rule] = answer
    faults.raise_any()
    return found


def attestations_text(answers: Iterable[Attestation], questions: Mapping[str, str]) -> str:
    """Return a file of attestations: each answer below its question, which stands in a comment."""
    lines = ["# Attestations (manual checks): yes, no, or not applicable; by whom, when, and until when."]
    for answer in answers:
        lines += ["", f"# {questions.get(answer.rule, answer.rule)}", f"- rule: {scalar(answer.rule)}"]
        lines += [f"  answer: {scalar(answer.answer)}", f"  owner: {prose(answer.owner)}"]
        lines += [f"  date: {answer.given.isoformat()}", f"  expires: {answer.expires.isoformat()}"]
        lines += [f"  note: {scalar(answer.note)}"] if answer.note else []
    return "\n".join(lines) + "\n"
