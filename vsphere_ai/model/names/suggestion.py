"""Suggestion of names that are near to one that is not known."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from string import digits


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``did you mean 'x'?`` with up to three names that are near; empty when none is."""
    names = sorted({name for name in known if name})
    folded = {name.casefold(): name for name in names}
    near = [folded[match] for match in get_close_matches(word.casefold(), folded, n=3, cutoff=0.6)]
    near = near or [name for name in names if len(word) > 2 and name.casefold().startswith(word.casefold())][:3]
    return "did you mean " + " or ".join(f"'{name}'" for name in near) + "?" if near else ""


def mistyped(word: str, known: Iterable[str]) -> str:
    """Return the name of which a word is probably a misspelling; empty where it may well be a name of its own."""
    near = get_close_matches(word, sorted(known), n=1, cutoff=0.85)
    letters = str.maketrans("", "", digits)
    return near[0] if near and near[0].translate(letters) != word.translate(letters) else ""


def same_word(one: str, other: str) -> bool:
    """Return whether two keys are one word in the spellings of several tools: ``num_cpu``, ``num-cpu``, ``NumCpu``."""
    return _letters(one) == _letters(other)


def _letters(key: str) -> str:
    return key.casefold().replace("_", "").replace("-", "")


def suggest(word: str, known: Iterable[str], otherwise: str = "possible here") -> str:
    """Return ``did you mean 'x'?``, or all there is when nothing is near; empty when there is nothing."""
    names = sorted({name for name in known if name})
    shown = ", ".join(names[:12]) + (f", ... ({len(names)} in all)" if len(names) > 12 else "")
    return did_you_mean(word, names) or (f"{otherwise}: {shown}" if names else "")
