from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from vsphere_ai.language.yaml_files.document import FaultCollector, describe, parse
from vsphere_ai.language.yaml_files.validation import ValuePlace, settable, validate
from vsphere_ai.model.names.suggestion import suggest
from vsphere_ai.model.state import observed


def _even(name):
    if len(name) % 2:
        raise ValueError(f"{name} is odd\nwrite another letter")
    return name


class Inner(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    size: Annotated[int, Field(multiple_of=2, lt=100)] = 2
    serial: str | None = observed("Read from the device.")


class Outer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    items: tuple[Inner, ...] | Literal["none"] = ()
    named: Mapping[str, Inner] = {}
    worded: Mapping[Literal["backup", "vmotion"], Inner] = {}
    even: Mapping[Annotated[str, AfterValidator(_even)], int] = {}
    ratio: float = 1.0
    reserve: Literal["full", "none"] | int = 0
    password: str = ""


def check(text):
    document, faults = parse(text, "a.yml"), FaultCollector()
    made = validate(Outer, document.data, ValuePlace(document, (), faults))
    return made, [(d.mark.line, d.mark.column, d.message, d.help) for d in sorted(faults.found)]


def test_a_value_becomes_a_model():
    made, faults = check("items: [{size: 4}]\nnamed: {a: {size: 6}}\nratio: 0.5\n")
    assert faults == []
    assert made == Outer(items=(Inner(size=4),), named={"a": Inner(size=6)}, ratio=0.5)
    assert check("items: none")[0] == Outer(items="none")


FAULTS = {
    "items: [{size: 3}]": (1, 16, "the number 3 does not fit here", "input should be a multiple of 2"),
    "items: [{size: 100}]": (1, 16, "the number 100 is out of range", "give less than 100"),
    "items: [{sise: 4}]": (1, 10, "unknown key 'sise'", "did you mean 'size'?"),
    "items: [{serial: x}]": (
        1,
        10,
        "'serial' is read, not set",
        "remove it: the tool shows it, a playbook cannot set it",
    ),
    "items: some": (1, 8, "expected a list or 'none', but this is 'some'", "write a list: [some]"),
    "reserve: ful": (1, 10, "expected 'full' or 'none' or a whole number, but this is 'ful'", ""),
    "reserve: 1.5": (1, 10, "expected 'full' or 'none' or a whole number, but this is the number 1.5", ""),
    "named: {a: {sise: 4}}": (1, 13, "unknown key 'sise'", "did you mean 'size'?"),
    "worded: {foo: {size: 4}}": (1, 10, "unknown key 'foo'", "possible here: backup, vmotion"),
    "worded: {vmotoin: {size: 4}}": (1, 10, "unknown key 'vmotoin'", "did you mean 'vmotion'?"),
    "even: {ab: 1, abc: 2}": (1, 15, "abc is odd", "write another letter"),
    "named: {a: 5}": (
        1,
        12,
        "expected a mapping (key: value), but this is the number 5",
        "write a mapping (key: value)",
    ),
    "ratio: '1'": (1, 8, "expected a number, but this is '1'", "write a number"),
    "password: 7": (1, 11, "expected text, but this is this value", ""),
    "- a": (1, 1, "expected a mapping (key: value), but this is a list", "write a mapping (key: value)"),
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_fault_says_what_was_given_and_what_would_work(text):
    made, faults = check(text)
    assert made is None
    (fault,) = faults
    line, column, message, help = FAULTS[text]
    assert fault[:3] == (line, column, message)
    if help:
        assert fault[3] == help


def test_keys_that_may_be_written_at_a_place():
    assert settable(Outer) == ["items", "named", "worded", "even", "ratio", "reserve", "password"]
    assert settable(Outer, ("items", 0)) == settable(Outer, ("named", "a")) == ["size"]


@pytest.mark.parametrize(
    ("word", "known", "advice"),
    [
        ("profles", ["profiles", "mode"], "did you mean 'profiles'?"),
        ("PROFILES", ["profiles"], "did you mean 'profiles'?"),
        ("esx01", ["esx01.example.com", "b"], "did you mean 'esx01.example.com'?"),
        ("zzz", ["a", "b"], "possible here: a, b"),
        ("zzz", [], ""),
        (
            "zzz",
            [str(n) for n in range(20)],
            "possible here: 0, 1, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, ... (20 in all)",
        ),
    ],
)
def test_the_nearest_word_is_suggested(word, known, advice):
    assert suggest(word, known) == advice


@pytest.mark.parametrize(
    ("value", "source", "said"),
    [
        (None, "", "nothing"),
        (True, "True", "'True' (true or false)"),
        (False, "", "'false' (true or false)"),
        (31, "0x1F", "the number 0x1F"),
        ("x" * 100, "", "'" + "x" * 57 + "...'"),
        ((), "", "a list"),
        ({}, "", "a mapping"),
    ],
)
def test_a_value_is_described_as_in_the_file(value, source, said):
    assert describe(value, source) == said
