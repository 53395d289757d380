"""Settings that are observed: made without checks, as pydantic makes them."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, Field, PrivateAttr

from vsphere_ai.model.state import Settings, setting
from vsphere_ai.resources import kinds

kinds()


def below(kind):
    for each in kind.__subclasses__():
        yield each
        yield from below(each)


def told(made):
    return made.__dict__, [*made.__dict__], made.model_fields_set, made.__pydantic_extra__, made.__pydantic_private__


KINDS = sorted({kind for kind in below(Settings) if kind.model_fields}, key=lambda kind: kind.__qualname__)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__qualname__)
def test_observed_settings_are_those_that_pydantic_makes(kind):
    names = [*kind.model_fields]
    by_pydantic = BaseModel.model_construct.__func__
    for given in ({}, dict.fromkeys(reversed(names), 5), {names[-1]: "x"}, {names[0]: ()}, {"no_such": 1, names[0]: 2}):
        made, expected = kind.model_construct(**given), by_pydantic(kind, **given)
        assert told(made) == told(expected)
        assert {n: getattr(made, n, "unset") for n in names} == {n: getattr(expected, n, "unset") for n in names}
    assert told(kind.model_construct({"a"})) == told(by_pydantic(kind, {"a"}))


class Odd(Settings):
    others: list[str] = Field(default_factory=list)
    renamed: int | None = Field(default=None, alias="called")
    _private: int = PrivateAttr(default=3)


def test_settings_with_fields_that_are_made_anew():
    one, other = Odd.model_construct(called=5), Odd.model_construct()
    assert (one.renamed, one._private) == (5, 3)
    assert one.others == other.others == []
    assert one.others is not other.others


class Plain(Settings):
    first: str
    second: int | None = setting("a number")


def test_settings_are_their_own():
    one, other = Plain.model_construct(first="a"), Plain.model_construct(first="b", second=1)
    assert (one.first, one.second, other.first, other.second) == ("a", None, "b", 1)
    assert one == Plain(first="a")
    assert one.model_copy(update={"second": 7}) == Plain(first="a", second=7)
    assert one.model_dump() == {"first": "a", "second": None}
