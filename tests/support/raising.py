"""Errors of the product by what they say to programs: class, rule id, and the values that stand in the text."""

from __future__ import annotations

from contextlib import contextmanager

import pytest


@contextmanager
def refused(error, rule, *values):
    """Expect an error of this class with this rule id; its text names these values."""
    with pytest.raises(error) as caught:
        yield caught
    assert caught.value.rule == rule, caught.value
    assert [value for value in values if str(value) not in caught.value.message] == [], caught.value.message
