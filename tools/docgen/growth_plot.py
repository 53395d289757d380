"""Growth as a drawing: a figure over the number of VMs, both axes logarithmic."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from math import ceil, floor, log10

from tools.docgen.measured import Series

WIDE, HIGH = 820, 380
LEFT, RIGHT, TOP, BOTTOM = 64, 320, 52, 48
"""Room around the plot: the names of the series stand at the right."""
LINE = 17
"""Least distance of two names, as high as their text."""
STYLE = """\
svg{--bg:#fff;--fg:#1c2024;--soft:#5b6570;--line:#d9dee3;
--c0:#0b62c4;--c1:#b3410c;--c2:#1d7a3a;--c3:#8a3ab9;--c4:#6b5d00;--c5:#a8234f;--c6:#0f7580;--c7:#555}
@media (prefers-color-scheme:dark){svg{--bg:#14181c;--fg:#e8ebee;--soft:#a9b3bc;--line:#343c44;
--c0:#7ab8ff;--c1:#ffa273;--c2:#6fd08c;--c3:#d3a1f5;--c4:#dccb58;--c5:#ff9dbb;--c6:#65d0dc;--c7:#c4c4c4}}
text{font:13px system-ui,sans-serif;fill:var(--fg)}.soft{fill:var(--soft)}.head{font-size:15px;font-weight:600}
.grid{stroke:var(--line)}.axis{stroke:var(--soft)}.series{fill:none;stroke-width:2}"""
DASHES = ("", "7 3", "2 3", "9 3 2 3", "", "7 3", "2 3", "9 3 2 3")
MARKS = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
    "M-4 -4h8v8h-8z",
    "M0 -5l5 9h-10z",
    "M0 -5l5 5l-5 5l-5 -5z",
    "M0 5l5 -9h-10z",
    "M-5 -1.5h3.5v-3.5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5z",
    "M-5 -2h10v4h-10z",
    "M-2 -5h4v10h-4z",
)


def plot(title: str, unit: str, found: Sequence[Series]) -> str:
    """Return a drawing of the growth of several series, at most eight; ValueError without any.

    Each has a colour, a dash and a mark of its own, and its name at its end with the exponent of its growth.
    """
    if not found:
        raise ValueError(f"{title}: nothing was measured at two sizes")
    x, y = _scales(found)
    drawn = [_frame(title, unit), *_grid(x, y)]
    ends = _apart([y.at(each.points[-1][1]) for each in found])
    for number, (each, end) in enumerate(zip(found, ends, strict=True)):
        drawn.append(_series(each, number % len(MARKS), [(x.at(vms), y.at(value)) for vms, value in each.points], end))
    said = "; ".join(f"{each.who}: {each.points[0][1]:.2g} to {each.points[-1][1]:.2g}" for each in found)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDE}" height="{HIGH}" viewBox="0 0 {WIDE} {HIGH}" '
        f'role="img" aria-labelledby="t d"><title id="t">{escape(title)}</title>\n'
        f'<desc id="d">{escape(f"{unit} over VMs: {said}")}</desc>\n'
        f'<style>{STYLE}</style>\n<rect width="{WIDE}" height="{HIGH}" rx="6" fill="var(--bg)"/>\n'
        + "\n".join(drawn)
        + "\n</svg>\n"
    )


class _Scale:
    """A logarithmic axis from one power of ten, or a part of it, to another."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        low, high = log10(min(values)), log10(max(values))
        self.low, self.high = floor(low * 4) / 4, ceil(high * 4) / 4
        if self.low == self.high:
            self.high += 1
        self.start, self.end = start, end

    def at(self, value: float) -> float:
        """Return where a value lies, in pixels."""
        return self.start + (log10(value) - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return the values that have a line: the powers of ten; with one or none of them, 2 and 5 times them too."""
        powers = range(floor(self.low), ceil(self.high) + 1)
        for steps in ((1,), (1, 2, 5)):
            found = [s * 10.0**p for p in powers for s in steps if self.low - 1e-9 <= log10(s * 10.0**p) <= self.high]
            if len(found) > 2:
                break
        return found


def _scales(found: Sequence[Series]) -> tuple[_Scale, _Scale]:
    points = [point for each in found for point in each.points]
    x = _Scale([vms for vms, _ in points], LEFT, WIDE - RIGHT)
    return x, _Scale([value for _, value in points], HIGH - BOTTOM, TOP)


def _frame(title: str, unit: str) -> str:
    middle = (LEFT + WIDE - RIGHT) / 2
    return (
        f'<text class="head" x="{LEFT}" y="20">{escape(title)}</text>\n'
        f'<text class="soft" x="{LEFT}" y="37">{escape(unit)}</text>\n'
        f'<text class="soft" x="{middle:g}" y="{HIGH - 10}" text-anchor="middle">VMs of the environment</text>'
    )


def _grid(x: _Scale, y: _Scale) -> list[str]:
    bottom, right = HIGH - BOTTOM, WIDE - RIGHT
    drawn = []
    for value in x.ticks():
        at = x.at(value)
        drawn.append(
            f'<path class="grid" d="M{at:.1f} {TOP}V{bottom}"/>'
            f'<text class="soft" x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">{value:,.0f}</text>'
        )
    for value in y.ticks():
        at = y.at(value)
        drawn.append(
            f'<path class="grid" d="M{LEFT} {at:.1f}H{right}"/>'
            f'<text class="soft" x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{value:,.10g}</text>'
        )
    return [*drawn, f'<path class="axis" fill="none" d="M{LEFT} {TOP}V{bottom}H{right}"/>']


def _apart(wanted: Sequence[float]) -> list[float]:
    """Return heights for names, each as near as can be to the wanted one, none over another, none below the plot."""
    order = sorted(range(len(wanted)), key=lambda number: wanted[number])
    placed = list(wanted)
    for before, number in pairwise(order):
        placed[number] = max(placed[number], placed[before] + LINE)
    lowest = float(HIGH - BOTTOM)
    for number in reversed(order):
        placed[number] = min(placed[number], lowest)
        lowest = placed[number] - LINE
    return placed


def _series(each: Series, number: int, at: Sequence[tuple[float, float]], end: float) -> str:
    colour = f"var(--c{number})"
    line = "L".join(f"{x:.1f} {y:.1f}" for x, y in at)
    marks = "".join(f'<path transform="translate({x:.1f} {y:.1f})" d="{MARKS[number]}"/>' for x, y in at)
    right = WIDE - RIGHT
    name = f"{each.who} (n^{each.exponent:.1f})" if each.exponent > 0.05 else f"{each.who} (constant)"
    dash = f' stroke-dasharray="{DASHES[number]}"' if DASHES[number] else ""
    return (
        f'<path class="series" stroke="{colour}"{dash} d="M{line}"/><g fill="{colour}">{marks}</g>'
        f'<path class="grid" d="M{at[-1][0]:.1f} {at[-1][1]:.1f}L{right + 12} {end:.1f}"/>'
        f'<path fill="{colour}" transform="translate({right + 18} {end:.1f})" d="{MARKS[number]}"/>'
        f'<text x="{right + 28}" y="{end + 4:.1f}">{escape(name)}</text>'
    )
