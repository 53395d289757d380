"""Exceptions without secrets: their text, notes and fields, and those of what they were raised from or while handling.

A server's fault holds what it was sent, and a traceback the variables of its frames, such as the arguments of a login.
What leaves the Python API goes to logs and to services that collect errors, past the redactor of the command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from vsphere_ai.errors import Diagnostic, InputError, Mark, VimFault, VsphereAiError
from vsphere_ai.security.redaction import untrusted

E = TypeVar("E", bound=BaseException)
MOST = 50
"""Exceptions of a chain that are looked at; what is behind them is removed."""
_OBJECTS = ("pyVmomi", "pyVim")
"""Libraries whose exceptions hold what a server sent, as fields of any depth."""


class MaskedCause(Exception):
    """Stands for an exception of a library or a server that holds a secret: its type and its text, masked."""


def stand_in(error: BaseException, text: str = "") -> MaskedCause:
    """Return what stands for an exception: its type, and `text` or its own, without fields, traceback and causes."""
    if not text and not _is_object(error):
        text = str(error)
    text = untrusted(text).strip()
    return MaskedCause(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def without_secrets(error: E) -> E:
    """Return an exception, masked in place with all that it was raised from; those of operators lose their tracebacks.

    A bug (`VsphereAiError` itself, or any other class) keeps them, so that it can be found.
    """
    seen: dict[int, BaseException] = {}
    _mask(error, seen, is_bug=not isinstance(error, VsphereAiError) or error.exit_code == VsphereAiError.exit_code)
    return error


def _mask(error: BaseException, seen: dict[int, BaseException], *, is_bug: bool) -> None:
    seen[id(error)] = error
    error.args = tuple(_plain(value) for value in error.args)
    if notes := _notes(error):
        error.__notes__ = [untrusted(note) for note in notes]
    if isinstance(error, VsphereAiError):
        _mask_own(error)
    if not is_bug:
        error.__traceback__ = None
    suppressed = error.__suppress_context__
    error.__cause__, error.__context__ = (
        _masked_cause(other, seen, is_bug=is_bug) for other in (error.__cause__, error.__context__)
    )
    error.__suppress_context__ = suppressed  # which setting a cause changes


def _masked_cause(error: BaseException | None, seen: dict[int, BaseException], *, is_bug: bool) -> BaseException | None:
    if error is None or len(seen) >= MOST:
        return None
    if id(error) not in seen:
        if not isinstance(error, VsphereAiError) and _holds_secret(error):
            seen[id(error)] = stand_in(error)
        else:
            _mask(error, seen, is_bug=is_bug)
    return seen[id(error)]


def _is_object(error: BaseException) -> bool:
    return any(kind.__module__.partition(".")[0] in _OBJECTS for kind in type(error).__mro__)


def _notes(error: BaseException) -> list[str]:
    return [str(note) for note in vars(error).get("__notes__", ())]


def _holds_secret(error: BaseException) -> bool:
    if _is_object(error):
        return True
    texts = (str(error), repr(error), *_notes(error), repr(vars(error)))
    return any(untrusted(text) != text for text in texts)


def _mask_own(error: VsphereAiError) -> None:
    error.message, error.remedy = untrusted(error.message), untrusted(error.remedy)
    if isinstance(error, VimFault):
        error.detail = {str(key): _plain(value) for key, value in error.detail.items()}
    if isinstance(error, InputError):
        error.diagnostics = tuple(_diagnostic(found) for found in error.diagnostics)


def _diagnostic(found: Diagnostic) -> Diagnostic:
    mark = Mark(untrusted(found.mark.file), found.mark.line, found.mark.column)
    return Diagnostic(mark, untrusted(found.message), untrusted(found.help), untrusted(found.excerpt))


def _plain(value: object) -> object:
    """Return a value in which no text holds a secret; what is neither text nor a container stays as it is."""
    match value:
        case str():
            return untrusted(value)
        case Mapping():
            return {key: _plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return type(value)(_plain(inner) for inner in value) if type(value) in (list, tuple) else value
    return value
