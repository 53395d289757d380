"""Ratios, targets, drawings and the page of the results of benchmarks."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree as Xml

import pytest

from tools.docgen.growth_plot import HIGH, LINE, WIDE, plot
from tools.docgen.measured import Results, Row, Size, cases, columns, number, ratio, read, series, table
from tools.docgen.performance import drawings, machine_text, with_results
from tools.docgen.targets import BUSY, judged

SMALL, LARGE = Size("S", 50, 500), Size("L", 1_000, 10_000)
SVG = "{http://www.w3.org/2000/svg}"


def row(who, role="peer", size=LARGE, subject="reading", case="lab", **figures):
    return Row(subject, case, who, role, size, figures, figures, 3)


ROWS = [
    row("bytes only, nothing parsed", "limit", wall=0.5, cpu=0.1),
    row("vsphere-ai", "ours", wall=2.0, cpu=1.5, mib=100),
    row("pyVmomi, PropertyCollector", wall=20.0, cpu=19.0, mib=200),
]


def test_ratios_are_of_the_limit_and_of_ours():
    assert [ratio(each, ROWS, "limit") for each in ROWS] == [None, 4.0, 40.0]
    assert [ratio(each, ROWS, "ours") for each in ROWS] == [0.25, None, 10.0]


def test_a_column_with_nothing_in_it_is_left_out():
    heads = [column[0] for column in columns(ROWS)]
    assert heads == ["who", "wall s", "CPU s", "MiB", "of the limit", "of ours"]
    assert "40 ×" in table(ROWS)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.00004, "4e-05"), (0.05, "0.050"), (0.5, "0.50"), (12.34, "12.3"), (1234.5, "1,234"), (3, "3")],
)
def test_numbers_have_the_digits_that_mean_something(value, text):
    assert number(value) == text


def test_results_are_read_as_they_were_written(tmp_path):
    file = tmp_path / "results.json"
    written = Results({"processor": "x"}, "2026-01-31", 0.1, tuple(ROWS))
    file.write_text(written.to_json(), "utf-8")
    assert read(file) == written


def test_cases_of_unlike_sizes_are_not_compared():
    small = row("vsphere-ai", "ours", SMALL, wall=1.0)
    assert [len(members) for members in cases([small, *ROWS])] == [1, 3]


def test_targets_are_judged_at_their_size_only():
    judgement = {text: (value, met) for text, _, value, met in judged(ROWS)}
    assert judgement == {
        "read everything, time of the bytes alone (L)": ("4 ×", "yes"),
        "read everything, time of pyVmomi (L)": ("0.10 ×", "yes"),
        "read everything, memory of pyVmomi (L)": ("0.50 ×", "yes"),
    }
    slow = [*ROWS[:1], row("vsphere-ai", "ours", wall=3.0, mib=121), *ROWS[2:]]
    assert [met for *_, met in judged(slow)] == ["no", "no", "no"]
    assert [met for *_, met in judged(slow, busy=True)] == [BUSY, BUSY, "no"]
    assert [met for *_, met in judged(ROWS, busy=True)] == ["yes", "yes", "yes"]
    assert judged([row("vsphere-ai", "ours", SMALL, wall=3.0)]) == []


def grown(*exponents):
    """Rows of estates of 500, 5,000 and 50,000 VMs, whose CPU time grows so."""
    return [
        row(f"reader {n}", "ours", Size(str(vms), 1, vms), cpu=0.01 * (n + 1) * (vms / 500) ** exponent)
        for vms in (50_000, 500, 5_000)
        for n, exponent in enumerate(exponents)
    ]


def test_the_exponent_is_that_of_the_growth():
    found = series(grown(1, 2, 0), "reading", "lab")
    assert [each.exponent for each in found] == pytest.approx([1, 2, 0])
    assert [vms for vms, _ in found[0].points] == [500, 5_000, 50_000]
    assert series(grown(1)[:1], "reading", "lab") == []


def test_a_drawing_has_every_point_and_name_inside_and_no_name_over_another():
    found = series(grown(1, 1.01, 1.02, 0.5, 0.51, 2, 0, 0.01), "reading", "lab")
    root = Xml.fromstring(plot("Reading <all>", "CPU seconds", found))
    names = {text.text: float(text.get("y")) for text in root.iter(f"{SVG}text") if "reader" in text.text}
    assert names.keys() == {
        *(f"reader {n} (n^{e})" for n, e in enumerate(("1.0", "1.0", "1.0", "0.5", "0.5", "2.0"))),
        "reader 6 (constant)",
        "reader 7 (constant)",
    }
    heights = sorted(names.values())
    assert all(after - before >= LINE - 0.11 for before, after in pairwise(heights))
    assert 0 < heights[0] < heights[-1] < HIGH
    for path in root.iter(f"{SVG}path"):
        if path.get("class") == "series":
            points = [tuple(map(float, pair.split())) for pair in path.get("d")[1:].split("L")]
            assert len(points) == 3
            assert all(0 <= x <= WIDE and 0 <= y <= HIGH for x, y in points)
            # a line on logarithmic axes is straight where the exponent stays
            (x1, y1), (x2, y2), (x3, y3) = points
            assert (y3 - y2) / (x3 - x2) == pytest.approx((y2 - y1) / (x2 - x1), abs=0.01)


def test_a_drawing_is_for_light_and_dark_pages_and_loads_nothing():
    text = plot("Reading", "CPU seconds", series(grown(1), "reading", "lab"))
    assert "prefers-color-scheme:dark" in text
    assert 'fill="var(--bg)"' in text
    assert not re.search(r"href|url\(|@import|<script", text)


def test_nothing_to_draw_is_refused():
    with pytest.raises(ValueError, match="two sizes"):
        plot("Reading", "CPU seconds", [])


PAGE = """# Page

<!-- results: machine -->
<!-- end of results -->

By hand.

<!-- results: targets -->
<!-- end of results -->
<!-- results: reading -->
old
<!-- end of results -->

After.
"""


def test_a_page_gets_its_blocks_and_keeps_the_rest():
    results = Results({"cores": "2"}, "2026-01-31", 0.1, tuple(grown(1) + ROWS))
    text = with_results(PAGE, results)
    assert with_results(text, results) == text
    assert "Measured on 2026-01-31, when nothing else ran. The machine: cores 2." in text
    assert "pictures/growth-reading.svg" in text
    assert "old" not in text
    assert "By hand." in text
    assert text.endswith("After.\n")
    assert drawings(results).keys() == {"growth-reading.svg"}


def test_a_page_says_what_else_ran():
    assert "other programs wanted 60% of the cores" in machine_text(Results({}, "2026-01-31", 0.6, ()))


@pytest.mark.parametrize("block", ["writes", "reading"])
def test_a_page_without_a_block_of_a_subject_or_with_one_too_many_is_refused(block):
    page = PAGE.replace("results: reading", f"results: {block}")
    with pytest.raises(ValueError, match="blocks of the page"):
        with_results(page, Results({}, "2026-01-31", 0.1, tuple(ROWS if block == "writes" else [])))
