"""Host masks of LBNL's Node Health Check: which hosts a line is about, what NHC takes for none, and the mask of nodes.

A mask is a glob, ``/a regular expression/`` or ``{a node range}``; ``!`` before it means all other hosts. A range is a
list of names with a digit in them and of ranges with one pair of brackets; at anything else NHC ends the list, and the
hosts behind it are not meant. Source: mej/nhc scripts/common.nhc (mcheck and mcheck_range).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from fnmatch import fnmatchcase

_NAME = re.compile(r"[-a-zA-Z0-9_]+[0-9]+[-.a-zA-Z0-9]*")
_RANGE = re.compile(r"([-a-zA-Z0-9_]+)\[([0-9]+)-([0-9]+)\]([-.a-zA-Z0-9]*)")

_CLASS = re.compile(r"\[:([a-z]+):\]")
_CLASSES = {
    "alpha": "A-Za-z", "digit": "0-9", "alnum": "A-Za-z0-9", "upper": "A-Z", "lower": "a-z", "xdigit": "0-9A-Fa-f",
    "space": r"\s", "blank": r" \t", "punct": r"!-/:-@\[-`{-~",
}  # fmt: skip
"""Classes of characters in brackets, such as ``[:digit:]``."""
_ALSO_THERE = ("unterminated character set", "unterminated subpattern", "unbalanced parenthesis", "bad character range")
"""Errors of Python that POSIX's expressions have, too."""


def mask_of(names: Sequence[str]) -> str:
    """Return a mask for hosts: a range where NHC takes each name for one of a range, a regular expression otherwise.

    It has no backslash, which NHC takes out of its lines.
    """
    if all(map(_NAME.fullmatch, names)):
        return "{" + ",".join(names) + "}"
    return names[0] if len(names) == 1 else "/^(" + "|".join(name.replace(".", "[.]") for name in names) + ")$/"


def wrong_mask(mask: str) -> str:
    """Return why NHC takes a mask for another one than was surely meant; empty where there is no reason."""
    mask = mask.removeprefix("!")
    if mask.startswith("/"):
        if len(mask) < 3 or not mask.endswith("/"):
            return "the regular expression is not closed"
        return _wrong_expression(mask[1:-1])
    if mask.startswith("{") and not mask.endswith("}"):
        return "the node range is not closed"
    if not mask.startswith("{"):
        return ""
    group = next(
        (each for each in mask[1:-1].split(",") if not _NAME.fullmatch(each) and not _RANGE.fullmatch(each)), None
    )
    if group is None:
        return ""
    return f"NHC ends the node range at '{group}': it is no name with a digit, and no range with one [N-M]"


def _compiled(text: str) -> re.Pattern[str]:
    """Return an extended regular expression of POSIX as one of Python; `re.error` for one that is wrong in Python."""
    classes = _CLASS.sub(lambda match: _CLASSES.get(match[1], match[1]), text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of a bracket in brackets, which is none here
        return re.compile(classes)


def _wrong_expression(text: str) -> str:
    """Return why a text is no extended regular expression of POSIX either; Python's are another language."""
    try:
        _compiled(text)
    except (re.error, OverflowError, RecursionError) as error:
        if any(words in str(error) for words in _ALSO_THERE):
            return f"the regular expression is wrong: {error}"
    return ""


def matches(mask: str, host: str) -> bool:
    """Return whether a host mask means a host; a regular expression that is wrong means none."""
    if mask.startswith("!"):
        return not matches(mask[1:], host)
    if mask.startswith("/") and mask.endswith("/"):
        try:
            return _compiled(mask[1:-1]).search(host) is not None
        except (re.error, OverflowError, RecursionError):
            return False
    if mask.startswith("{") and mask.endswith("}"):
        return _in_range(mask[1:-1], host)
    return fnmatchcase(host, mask)


def _in_range(groups: str, host: str) -> bool:
    for group in groups.split(","):
        if _NAME.fullmatch(group):
            if host == group:
                return True
            continue
        parts = _RANGE.fullmatch(group)
        if parts is None:
            return False
        before, first, last, after = parts.groups()
        number = host.removeprefix(before).removesuffix(after)
        # NHC compares the number of digits with those of the first number, or of the last one where that has more
        is_number = host == f"{before}{number}{after}" and re.fullmatch("[0-9]+", number) is not None
        low, high = sorted((int(first), int(last)))
        if is_number and len(number) == max(len(first), len(last)) and low <= int(number) <= high:
            return True
    return False
