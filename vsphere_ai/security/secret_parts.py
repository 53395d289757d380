"""Parts of secrets in what others write: cut off, wrapped, escaped, in hexadecimal or in base64, once more packed.

`redaction` masks a secret as a whole. A server may quote the first 60 characters of a value, and a mail wraps lines:
here every part of `SHORTEST_PART` characters counts, whatever stands between them as white space or as an escape.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

SHORTEST_PART = 8
"""Characters of the shortest part that is masked."""
SHORTEST_SECRET = 12
"""Characters of the shortest secret of which parts are masked."""
MOST_PACKED = 64
"""Packed values whose parts are known, the newest: each is sent once, and quoted in the answer to that request."""
_GRAM, _STRIDE = 5, 4
"""A part of 8 characters has 5 of them that begin at a multiple of 4: a quarter of all positions finds every part."""
_SPACE = re.compile(r"\s+")
_ESCAPES = re.compile(
    r"\s+|\\[abfnrtv0]"
    r"|%(?P<percent>[0-9A-Fa-f]{2})|\\(?:u(?P<u>[0-9A-Fa-f]{4})|x(?P<x>[0-9A-Fa-f]{2})|(?P<sign>[^\w\s]))"
    r"|&#x(?P<hex>[0-9A-Fa-f]{1,6});|&#(?P<number>[0-9]{1,7});|&(?P<name>amp|lt|gt|quot|apos);"
)
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_HEX = re.compile(r"(?:[0-9A-Fa-f]{2}:?){8,}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{11,}")
_URL_SAFE = str.maketrans("-_", "+/")
_CLASSES = (re.compile(r"[a-z]"), re.compile(r"[A-Z]"), re.compile(r"[0-9]"), re.compile(r"[^\w\s./:-]"))
_TELLING_CLASSES = 3
_CHANGES = re.compile(r"(?<=[0-9])(?=[A-Za-z])|(?<=[A-Za-z])(?=[0-9])")
_TELLING_CHANGES = 3

Span = tuple[int, int]


@dataclass(frozen=True)
class Parts:
    """What parts are looked for: of `secrets` those that no word or name is by chance, of `packed` values all."""

    secrets: tuple[str, ...] = ()
    packed: tuple[str, ...] = ()

    @cached_property
    def _grams(self) -> frozenset[str]:
        texts = (*self.secrets, *self.packed)
        return frozenset(text[at : at + _GRAM] for text in texts for at in range(0, len(text) - _GRAM + 1, _STRIDE))

    @cached_property
    def _telling(self) -> frozenset[str]:
        return frozenset(part for text in self.secrets for part in _windows(text) if is_telling(part))

    @cached_property
    def _all_packed(self) -> str:
        return "\0".join(self.packed)

    def with_secret(self, secret: str) -> Parts:
        """Return the same with the parts of one more secret, where it is long enough to have some."""
        text = _SPACE.sub("", secret)
        if len(text) < SHORTEST_SECRET:
            return self
        # its bytes as well, as which it is unpacked from base64 and percent signs
        spelt = dict.fromkeys((text, text.encode("utf-8", "surrogatepass").decode("latin-1")))
        return Parts((*self.secrets, *spelt), self.packed)

    def with_packed(self, values: Iterable[str]) -> Parts:
        """Return the same with all parts of some packed values; the oldest are forgotten."""
        return Parts(self.secrets, (*self.packed, *values)[-MOST_PACKED:])

    def masked(self, text: str, mask: str, *, decoded: bool) -> str:
        """Return a text with every part masked; `decoded`: also in what is written in hexadecimal and base64 there."""
        if not self._grams:
            return text
        spans = [*self._in(text, _SPACE, lambda _: "", decoded=decoded)]
        spans += self._in(text, _ESCAPES, _unescaped, decoded=decoded)
        for begin, end in reversed(_merged(spans)):
            text = f"{text[:begin]}{mask}{text[end:]}"
        return text

    def _in(
        self, text: str, left_out: re.Pattern[str], instead: Callable[[re.Match[str]], str], *, decoded: bool
    ) -> Iterator[Span]:
        """Yield where parts are in a text without what is left out, as places in the text itself."""
        normal, starts, ends = _without(text, left_out, instead)
        for begin, end in (*self._spans(normal), *(self._encoded(normal) if decoded else ())):
            yield starts[begin], ends[end - 1]

    def _encoded(self, normal: str) -> Iterator[Span]:
        yield from self._spans(normal.translate(_URL_SAFE))
        yield from (run.span() for run in _HEX.finditer(normal) if self._is_in_hex(run[0].replace(":", "")))
        for run in _BASE64.finditer(normal):
            for begin, end in self._in_base64(run[0].translate(_URL_SAFE)):
                yield run.start() + begin, run.start() + end

    def _is_in_hex(self, digits: str) -> bool:
        for offset in range(2):
            even = digits[offset : offset + (len(digits) - offset) // 2 * 2]
            raw = bytes.fromhex(even)
            # packed values are known in base64, in which their bytes begin at any place of three
            spelt = (base64.b64encode(b"\0" * before + raw).decode() for before in range(3))
            if any(any(self._spans(text)) for text in (raw.decode("latin-1"), *spelt)):
                return True
        return False

    def _in_base64(self, text: str) -> Iterator[Span]:
        for offset in range(4):
            core = text[offset:]
            core = core[:-1] if len(core) % 4 == 1 else core
            raw = base64.b64decode(core + "=" * (-len(core) % 4)).decode("latin-1")
            for begin, end in self._spans(raw):
                yield offset + begin * 4 // 3, min(len(text), offset - (-end * 4 // 3))

    def _spans(self, text: str) -> Iterator[Span]:
        """Yield where a text has parts, each as begin and end."""
        grams, looked_at, at = self._grams, 0, 0
        most = len(text) - _GRAM
        while at <= most:
            if text[at : at + _GRAM] in grams:
                # the part that these five characters are of begins up to three characters before
                first, looked_at = max(looked_at, at - SHORTEST_PART + _GRAM), at + 1
                for begin in range(first, at + 1):
                    end = self._end_of_part(text, begin)
                    if end:
                        yield begin, end
                        at = max(at, end - SHORTEST_PART)
                        looked_at = max(looked_at, end - SHORTEST_PART + 1)
                        break
            at += 1

    def _end_of_part(self, text: str, begin: int) -> int:
        """Return where a part ends that begins at a place of a text, as long as it is; 0 where none does."""
        end = begin + SHORTEST_PART
        part = text[begin:end]
        if len(part) < SHORTEST_PART:
            return 0
        place = self._all_packed.find(part)
        if place < 0:
            return end if part in self._telling else 0
        packed, place = self._all_packed, place + SHORTEST_PART
        while end < len(text) and place < len(packed) and text[end] == packed[place] != "\0":
            end, place = end + 1, place + 1
        return end


def is_telling(part: str) -> bool:
    """Return whether a part of a secret is met nowhere by chance, as a word or a name in it would be."""
    classes = sum(pattern.search(part) is not None for pattern in _CLASSES)
    return classes >= _TELLING_CLASSES or len(_CHANGES.findall(part)) >= _TELLING_CHANGES


def _windows(text: str) -> Iterator[str]:
    return (text[at : at + SHORTEST_PART] for at in range(len(text) - SHORTEST_PART + 1))


def _without(
    text: str, left_out: re.Pattern[str], instead: Callable[[re.Match[str]], str]
) -> tuple[str, list[int], list[int]]:
    """Return a text with other characters for what is left out, and where each of its characters begins and ends."""
    found, starts, ends, at = list[str](), list[int](), list[int](), 0
    for match in left_out.finditer(text):
        found.append(text[at : match.start()])
        starts += range(at, match.start())
        ends += range(at + 1, match.start() + 1)
        at = match.end()
        if sign := instead(match):
            found.append(sign)
            starts.append(match.start())
            ends.append(match.end())
    found.append(text[at:])
    starts += range(at, len(text))
    ends += range(at + 1, len(text) + 1)
    return "".join(found), starts, ends


def _unescaped(escape: re.Match[str]) -> str:
    """Return the character that an escape stands for; none for white space."""
    if digits := escape["percent"] or escape["u"] or escape["x"] or escape["hex"]:
        number = int(digits, 16)
    elif escape["number"]:
        number = int(escape["number"])
    else:
        return escape["sign"] or _NAMED.get(escape["name"] or "", "")
    sign = chr(number) if number < 0x110000 else ""
    return "" if sign.isspace() else sign


def _merged(spans: Iterable[Span]) -> list[Span]:
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found
