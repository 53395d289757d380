"""YAML of values on one line: flow style, plain words, and quotes where these would be read as something else."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from pydantic import BaseModel

from vsphere_ai.model.text import escaped

PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
PLAIN_WORDS = re.compile(r"(?:[A-Za-z]|[0-9]+ [A-Za-z])[A-Za-z0-9_.-]*(?: [A-Za-z0-9_.-]+)*")
PLAIN_TERM = re.compile(r"[A-Za-z](?:[A-Za-z0-9_./-]|:(?=[A-Za-z0-9])|\[[0-9]+:[0-9]+\])*")
WORDS = frozenset(("true", "false", "null", "yes", "no", "y", "n"))
"""Words that are no text in YAML 1.2 or 1.1. `on` and `off` are values of settings: these are text in YAML 1.2."""


def stated(value: object) -> object:
    """Return a model as the mapping of what it states."""
    if not isinstance(value, BaseModel):
        return value
    return {k: getattr(value, k) for k in type(value).model_fields if getattr(value, k) is not None}


def flow(value: object) -> str:
    """Return a value as YAML on one line."""
    value = stated(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar(k)}: {flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, tuple):
        return "[" + ", ".join(flow(v) for v in value) + "]"
    return scalar(value)


def scalar(value: object) -> str:
    """Return a plain value as YAML that is the same inside of brackets.

    JSON strings are YAML strings; quoting all odd ones keeps PCI addresses and odd names what they are.
    """
    if isinstance(value, str) and PLAIN.fullmatch(value) and _is_text(value):
        return value
    return escaped(json.dumps(value, ensure_ascii=False), yaml=True)


def term(pattern: str) -> str:
    """Return a pattern as YAML outside of brackets: ranges and references need no quotes there."""
    return pattern if PLAIN_TERM.fullmatch(pattern) and _is_text(pattern) else scalar(pattern)


def prose(text: str) -> str:
    """Return a text of several words as YAML outside of brackets."""
    return text if PLAIN_WORDS.fullmatch(text) and _is_text(text) else scalar(text)


def _is_text(word: str) -> bool:
    return word.casefold() not in WORDS and (word in ("on", "off") or word.casefold() not in ("on", "off"))
