"""The pictures of the screens: well-formed, nothing from outside, and the plan that is shown today."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from support.places import ROOT
from support.steady import steady

from tools.docgen.pictures import FOLDER, PICTURES, rack_scenario, svg
from tools.docgen.pictures import steady as without_ids
from vsphere_ai.lab.scenario_file import load
from vsphere_ai.language.inventories.patterns import expand

SPACE = "{http://www.w3.org/2000/svg}"
GOLDEN = ROOT / "tests" / "e2e" / "golden" / "plan.txt"


def lines_of(name):
    """The lines of the terminal in a picture."""
    rows = {}
    for text in ElementTree.parse(FOLDER / f"{name}.svg").iter(f"{SPACE}text"):
        rows.setdefault(float(text.get("y")), []).append((float(text.get("x")), text.text or ""))
    return ["".join(t for _, t in sorted(row)).replace("\xa0", " ").rstrip() for _, row in sorted(rows.items())]


def test_there_is_a_picture_of_each_screen():
    assert {path.stem for path in FOLDER.glob("*-*x*.svg")} == set(PICTURES)
    page = (ROOT / "docs" / "screens.md").read_text("utf-8")
    assert set(re.findall(r"pictures/([\w-]+)\.svg", page)) <= set(PICTURES)


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_loads_nothing_and_runs_nothing(name):
    text = (FOLDER / f"{name}.svg").read_text("utf-8")
    ElementTree.fromstring(text)
    assert re.findall(r"https?://[^\"]+", text) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"@import|@font-face|url\((?!#)|<script|<image|href|\son\w+=", text)
    assert "aria-label" in text


@pytest.mark.parametrize(("name", "width"), [("plan-80x24", 80), ("plan-120x40", 120)])
def test_the_plan_in_a_picture_is_the_plan_of_today(name, width):
    golden = GOLDEN.read_text("utf-8")
    screen = next(s for s in re.split(r"(?m)^\$ ", golden) if f", {width} columns)" in s.partition("\n")[0])
    shown = [line for line in screen.splitlines()[1:] if line != "--- standard error"]
    found = list(steady("\n".join(line for line in lines_of(name) if line)))
    # the command at the end is one piece, which a terminal of 80 columns breaks
    assert "".join(found) == "".join(line.rstrip() for line in shown)
    assert found[:40] == [line.rstrip() for line in shown if line.strip()][:40]


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_no_wider_than_its_terminal(name):
    assert max(len(line) for line in lines_of(name)) <= PICTURES[name].columns


@pytest.mark.parametrize("name", ["plan-256-120x40"])
def test_a_plan_of_a_rack_is_two_screens(name):
    assert len(lines_of(name)) <= 2 * PICTURES[name].lines


def test_a_run_is_shown_with_its_table():
    for name in ("apply-80x24", "apply-256-120x40"):
        text = "\n".join(lines_of(name))
        assert re.search(r"HOST OR VM +STEP +TIME", text)
        assert re.search(r"of \d+ steps · \w+( \w+)? \S+ left", text)
    assert "nothing else starts" in "\n".join(lines_of("stopping-120x40"))


def test_what_differs_from_run_to_run_is_not_in_a_picture():
    assert without_ids("Plan 957e87dd  x 127.0.0.1:36455 20261124-051515-e3f7") == (
        "Plan 0123abcd  x 127.0.0.1:40443 20260101-120000-0123"
    )
    assert svg("plan-80x24", PICTURES["plan-80x24"], "a\x1b[31mb") == svg(
        "plan-80x24", PICTURES["plan-80x24"], "a\x1b[31mb"
    )


def test_the_farm_of_the_pictures_has_32_hosts_and_256_vms(tmp_path):
    file = tmp_path / "farm.yml"
    file.write_text(rack_scenario())
    farm = load(file)
    assert [sum(len(expand(each.name)) for each in own) for own in (farm.hosts, farm.vms)] == [32, 256]
