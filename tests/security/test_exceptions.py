"""Exceptions that leave the Python API: no secret in their text, notes, fields, causes, contexts and frames."""

from __future__ import annotations

import traceback

import pytest
from pyVmomi import vim
from support.secret_traces import all_of

from vsphere_ai import app
from vsphere_ai.app.api_errors import exported
from vsphere_ai.errors import Diagnostic, InputError, Mark, Unreachable, VimFault, VsphereAiError
from vsphere_ai.security import redaction
from vsphere_ai.security.exceptions import MaskedCause, without_secrets

SECRET = "Xk3!tt%y<Kp&9\"'aBc"


@pytest.fixture(autouse=True)
def _known():
    with redaction.fresh():
        redaction.register(SECRET)
        yield


def refused_by_a_library(secret):
    raise vim.fault.InvalidName(msg=f"refused: {secret}", name=secret)


def fails(kind, secret):
    try:
        try:
            refused_by_a_library(secret)
        except vim.fault.InvalidName as error:
            raise ValueError(f"cannot: {secret}") from error
    except ValueError as error:
        error.add_note(secret)
        if kind is VimFault:
            raise VimFault(f"doing: {secret}", f"see {secret}", {"_typeName": "X", "a": [{"b": secret}]}) from error
        if kind is InputError:
            raise InputError([Diagnostic(Mark(secret, 1, 1), secret, secret, secret)]) from error
        raise kind(f"doing: {secret}")  # noqa: B904 - only a context


@pytest.mark.parametrize("kind", [VimFault, InputError, Unreachable, VsphereAiError, RuntimeError])
def test_an_exception_of_the_api_holds_no_secret(kind):
    def function(_request):
        fails(kind, SECRET)

    with pytest.raises(kind) as caught:
        exported(function)(None)
    is_bug = kind in (VsphereAiError, RuntimeError)
    error = caught.value
    assert type(error) is kind
    text = (
        all_of(error) if not is_bug else "\n".join([str(error), repr(vars(error)), *traceback.format_exception(error)])
    )
    assert "***" in text
    assert [part for part in (SECRET[at : at + 8] for at in range(len(SECRET) - 7)) if part in text] == []
    chain = error.__cause__ or error.__context__
    assert isinstance(chain, MaskedCause), "what it was raised from is named, and stands there no more"
    assert str(chain).startswith("ValueError: cannot: ***")


def test_a_generator_of_the_api():
    def function():
        yield 1
        fails(Unreachable, SECRET)

    steps = exported(function)()
    assert next(steps) == 1
    with pytest.raises(Unreachable) as caught:
        next(steps)
    assert SECRET not in all_of(caught.value)


def test_what_holds_no_secret_stays_as_it_is():
    try:
        try:
            raise OSError(2, "No such file", "name")
        except OSError as error:
            raise Unreachable("not there", "look") from error
    except Unreachable as error:
        kept = without_secrets(error)
        assert isinstance(kept.__cause__, OSError)
        assert (kept.message, kept.remedy, kept.__cause__.filename) == ("not there", "look", "name")
        assert kept.__suppress_context__


def test_a_circle_and_a_long_chain_have_an_end():
    one, two = ValueError("one"), ValueError("two")
    one.__context__, two.__cause__ = two, one
    assert without_secrets(one).__context__ is two
    last = ValueError(SECRET)
    for number in range(3000):
        error = Unreachable(str(number))
        error.__cause__, last = last, error
    assert SECRET not in all_of(without_secrets(last))


def test_functions_of_the_api_are_the_same_at_each_look():
    assert app.plan is app.plan
    assert app.plan.__name__ == "plan"
    assert isinstance(app.PlanRequest, type)
