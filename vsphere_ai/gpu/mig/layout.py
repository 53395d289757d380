"""The spellings of a wanted MIG layout: profile names, ids, starts, and pasted nvidia-smi commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vsphere_ai.errors import UsageError
from vsphere_ai.model.text import counted

MAX_ITEMS = 64
"""More instances than eight GPUs can hold; a longer list is a mistake, not a layout."""

_ITEM = re.compile(
    r"(?:MIG )?(?P<profile>[1-9]\d*g\.[1-9]\d*gb(?:[+-][a-z][a-z.]*)?|0|[1-9]\d{0,3})(?::(?P<start>0|[1-9]\d{0,2}))?"
)
_SLICES_ONLY = re.compile(r"([1-9]\d*)g")
_COMPUTE_INSTANCE = re.compile(r"([1-9]\d*)c\.([1-9]\d*g\.[1-9]\d*gb(?:[+-][a-z][a-z.]*)?)")
_PLACED = re.compile(r"(?:0|[1-9]\d{0,2}):\d+")
_CREATE = ("-cgi", "--create-gpu-instance")
_VALUED = ("-i", "--id")
_BARE = ("nvidia-smi", "mig", "-C", "--default-compute-instance")


class LayoutError(UsageError):
    """A wanted layout cannot be understood; the message names the token."""

    title = "MIG layout"


@dataclass(frozen=True)
class LayoutItem:
    """One wanted GPU instance: a profile's name or id as written, and the memory slice it shall begin at."""

    profile: str
    start: int | None = None

    def __str__(self) -> str:
        return self.profile if self.start is None else f"{self.profile}:{self.start}"


def parse(layout: str | Sequence[str | int]) -> tuple[LayoutItem, ...]:
    """Return the items of a layout in the order written.

    Takes a list of tokens, a string ``19,14,9``, or a pasted ``nvidia-smi mig -i 0 -cgi 19,14,9 -C`` whose GPU is
    ignored. `LayoutError` names the first token that nvidia-smi would refuse or, worse, read in another way.
    """
    if isinstance(layout, str):
        text = layout.strip()
        tokens: Sequence[str | int] = _list_of_command(text) if " -" in f" {text}" else text.split(",")
    else:
        tokens = layout
    if not tokens or list(tokens) == [""]:
        raise LayoutError("the layout is empty", "name at least one profile, e.g. 3g.20gb or 9:4")
    if len(tokens) > MAX_ITEMS:
        raise LayoutError(
            f"the layout has {len(tokens)} items", f"give at most {MAX_ITEMS}: a GPU takes no more instances"
        )
    return tuple(parse_item(token) for token in tokens)


def parse_item(token: str | int) -> LayoutItem:
    """Return the item of one token: ``3g.20gb``, ``MIG 3g.20gb``, ``9``, each with an optional ``:start``.

    Stricter than nvidia-smi, which takes ``19:`` and ``19:x`` for "any start" and ``9:-4`` for "let the driver choose".
    """
    text = str(token).strip() if isinstance(token, str | int) and not isinstance(token, bool) else ""
    match = _ITEM.fullmatch(text)
    if match is not None:
        start = match["start"]
        return LayoutItem(match["profile"], None if start is None else int(start))
    raise LayoutError(f"{token!r} is not a MIG profile", _remedy(text))


def _remedy(text: str) -> str:
    profile, colon, start = text.partition(":")
    if not text:
        return "a comma too many, or an empty item"
    if slices := _SLICES_ONLY.fullmatch(profile.lower()):
        size = f"it is {slices[1]} compute slices, and the name of a profile has its memory, too"
        return f"{size}: such as 3g.20gb on an A100 40GB; vsphere-ai mig layouts BOARD lists those of a board"
    if compute := _COMPUTE_INSTANCE.fullmatch(profile.lower()):
        what = f"it is a compute instance of {counted(int(compute[1]), 'compute slice')} in a GPU instance {compute[2]}"
        return f"{what}: write {compute[2]}; in a VM one compute instance takes all of it"
    if _PLACED.fullmatch(start):
        return f"write {profile}:{start.partition(':')[0]}: the size behind the start is that of the profile"
    if colon and not re.fullmatch(r"0|[1-9]\d{0,2}", start):
        return f"the start after ':' must be a memory slice number, not {start!r}"
    if _ITEM.fullmatch(profile.strip().lower().replace("mig ", "MIG ")):
        return f"write {profile.strip().lower().removeprefix('mig ')}: lower case, no blanks"
    return "write a name such as 3g.20gb or an id such as 9, with an optional start: 9:4"


def _list_of_command(text: str) -> list[str]:
    try:
        words = iter(shlex.split(re.sub(r"^sudo\s+", "", text)))
    except ValueError as error:
        raise LayoutError(f"the command cannot be read: {error}", "balance its quotes") from error
    found: list[str] | None = None
    for word in words:
        if word in _VALUED:
            next(words, None)
        elif word in _CREATE:
            if found is not None:
                raise LayoutError(f"the command has {word} twice", f"give one {word} with all profiles")
            value, more = _value(words)
            found = value.split(",")
            if more is not None and more not in _BARE:
                raise LayoutError(f"{more!r} does not belong into a layout", "give only what follows -cgi")
        elif word not in _BARE:
            raise LayoutError(f"{word!r} does not belong into a layout", "give only what follows -cgi")
    if found is None:
        raise LayoutError(f"the command creates no GPU instances: {text!r}", "add -cgi with a list of profiles")
    return found


def _value(words: Iterator[str]) -> tuple[str, str | None]:
    """Return the value of an option and the word after it; an unquoted ``MIG 3g.20gb`` makes several words."""
    value: list[str] = []
    for word in words:
        if word.startswith("-"):
            return " ".join(value), word
        value.append(word)
    return " ".join(value), None
