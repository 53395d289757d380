"""Functions of the Python API as callers get them: their exceptions hold no secret (`security.exceptions`)."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import cache, wraps
from types import FunctionType, GeneratorType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def exported(value: object) -> object:
    """Return what the API has under a name: a function with masked exceptions, anything else as it is."""
    return _guarded(value) if isinstance(value, FunctionType) else value


@cache
def _guarded(function: FunctionType) -> Callable[..., object]:
    return _masking(function)


def _masking(function: Callable[P, object]) -> Callable[P, object]:
    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> object:
        try:
            result = function(*args, **options)
        except Exception as error:
            from vsphere_ai.security.exceptions import without_secrets

            raise without_secrets(error)  # noqa: B904 - it is raised again, with what it was raised from
        return _steps(result) if isinstance(result, GeneratorType) else result

    return call


def _steps(steps: Generator[object, None, R]) -> Generator[object, None, R]:
    """Yield what a generator yields, for functions that go on while their caller looks at what they have found."""
    try:
        return (yield from steps)
    except Exception as error:
        from vsphere_ai.security.exceptions import without_secrets

        raise without_secrets(error)  # noqa: B904 - see above
