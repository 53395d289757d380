"""Reports in a real browser at 4, 256 and 1,000 VMs: light and dark, wide and narrow, by keyboard, and on paper."""

from __future__ import annotations

from itertools import pairwise

import pytest
from support import large_fleets, large_reports
from support.chromium import WIDTHS
from support.gates import busy
from support.seeds import FULL

from vsphere_ai.report.pages.capacity_page import capacity_report
from vsphere_ai.report.pages.findings_page import findings_report
from vsphere_ai.report.pages.fleet_page import fleet_report
from vsphere_ai.report.pages.fleet_plan_page import fleet_plan_report
from vsphere_ai.report.pages.formats.html import MOST_BYTES, MOST_NODES, html
from vsphere_ai.report.pages.plan_page import plan_report
from vsphere_ai.report.pages.run_page import run_report
from vsphere_ai.report.pages.trace_page import trace_report

REPORTS = {
    "plan": (large_reports.plan, plan_report),
    "run": (large_reports.run, run_report),
    "check": (large_reports.check, findings_report),
    "trace": (large_reports.trace, trace_report),
    "capacity": (large_reports.capacity, capacity_report),
    "fleet": (large_fleets.run, lambda both: fleet_report(*both, {})),
    "fleet-plan": (large_fleets.plan, fleet_plan_report),
}
FARMS = {4: 2, 256: 32, 1000: 1000}
"""VMs of a farm, and its hosts."""
AXE = {4: (("light", 1280), ("dark", 390)), 256: (("light", 390),), 1000: (("dark", 1280),)}
"""In which colours and at which width axe-core looks at the reports of a farm."""
ALL = [(name, vms) for vms in FARMS for name in REPORTS if FULL or vms == 4 or name in ("run", "fleet")]
"""Each report of a small farm, and of larger ones the two that grow the most; with RELIABILITY=full each of all."""
OPENS = 2.0
"""Seconds in which a report is to open; the tests allow for a machine that is busy with other tests."""
BUSY = 5


@pytest.fixture(scope="module")
def opened(visit, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")

    def show(name, vms):
        path = folder / f"{name}-{vms}.html"
        if not path.exists():
            document, report = REPORTS[name]
            path.write_text(html(report(document(FARMS[vms], vms))), "utf-8")
        return visit(path.as_uri())

    return show


@pytest.mark.parametrize(("name", "vms"), ALL)
def test_a_report_opens_says_nothing_on_the_console_and_fits_the_window(name, vms, opened):
    page = opened(name, vms)
    size = page.page.evaluate("document.documentElement.outerHTML.length")
    print(f"{name} of {vms}: {page.seconds:.2f} s, {page.count('*')} elements, {size} characters")
    assert page.seconds < OPENS * busy()
    assert page.count("*") <= MOST_NODES
    assert size <= MOST_BYTES
    for scheme in ("light", "dark"):
        for width in WIDTHS:
            page.look(scheme, width)
            assert page.overflow() <= 0, (scheme, width)
    assert page.faults() == []


@pytest.mark.parametrize(("name", "vms"), ALL)
def test_axe_finds_nothing_serious(name, vms, opened):
    page = opened(name, vms)
    page.page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    for scheme, width in AXE[vms]:
        page.look(scheme, width)
        assert page.barriers() == [], (scheme, width)


def test_axe_would_find_text_that_can_hardly_be_read(visit, tmp_path):
    path = tmp_path / "bad.html"
    path.write_text("<!doctype html><html lang=en><title>t</title><main><p style='color:#eee'>grey</main>", "utf-8")
    (found,) = visit(path.as_uri()).barriers()
    assert found.startswith("color-contrast")


@pytest.mark.parametrize("name", REPORTS)
def test_hostile_names_are_inert_text(name, opened):
    page = opened(name, 4)
    assert page.count("img, iframe, object") == 0
    assert page.count("script") == 1
    assert page.count("[onload], [onerror]") == 0
    text = page.page.evaluate("document.body.textContent")
    assert name == "run" or "<script>alert(1)</script>" in text
    assert "\u202e" not in text
    assert "\u2028" not in text
    assert page.faults() == []


def test_a_report_of_1000_hosts_scrolls_to_what_is_far_below(opened):
    from playwright.sync_api import expect

    page = opened("run", 1000)
    page.look("light", 1280)
    page.page.click("a[href='#s-steps-not-begun']")
    expect(page.page.locator("#s-steps-not-begun")).to_be_in_viewport()
    page.page.mouse.wheel(0, -4000)
    expect(page.page.locator("#s-steps-not-begun")).not_to_be_in_viewport()


def test_the_filter_leaves_the_rows_that_have_the_text(opened):
    from playwright.sync_api import expect

    page = opened("run", 256).page
    rows = page.locator("#s-steps tbody tr")
    assert rows.count() > 100
    page.fill("#filter", "ESX0007")
    expect(page.locator("#found")).to_contain_text("of")
    shown = page.locator("#s-steps tbody tr:not([hidden])").all_text_contents()
    assert shown
    assert all("esx0007" in text for text in shown)
    page.fill("#filter", "no such row")
    expect(page.locator("#found")).to_contain_text("0 of")
    page.fill("#filter", "")
    expect(page.locator("#found")).to_have_text("")
    assert page.locator("#s-steps tbody tr[hidden]").count() == 0


def test_theme_and_folds_are_switched(opened):
    page = opened("plan", 256)
    page.look("light", 1280)
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.page.evaluate(colour)
    page.page.click("#theme")
    assert page.page.evaluate(colour) != light
    page.page.click("#theme")
    assert page.page.evaluate(colour) == light
    page.page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = false; })")
    page.page.click("#fold")
    assert page.count("details:not([open])") == 0
    page.page.click("#fold")
    assert page.count("details[open]") == 0


def test_it_is_used_by_keyboard(opened):
    page = opened("plan", 4).page
    page.evaluate("document.activeElement.blur(); window.scrollTo(0, 0)")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#content"
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert {"SUMMARY", "DIV"} <= reached


def test_landmarks_headings_and_tables_are_in_order(opened):
    page = opened("plan", 256)
    assert [page.count(each) for each in ("header", "main", "h1")] == [1, 1, 1]
    levels = page.page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map((each) => Number(each.tagName[1]))")
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert page.count("table") == page.count("table > caption")
    assert page.count("svg[role=img]") == page.count("svg[role=img] > title")


def test_on_paper_everything_is_unfolded_and_light(chromium, opened, tmp_path):
    page = opened("plan", 4)
    page.look("dark", 1280)
    page.page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = false; })")
    made = page.page.pdf(path=tmp_path / "plan.pdf")
    assert made.startswith(b"%PDF")
    page.page.emulate_media(media="print", color_scheme="dark")
    assert page.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.page.locator(".tools").is_visible()
    assert page.page.locator("#s-steps td").first.is_visible()


def test_it_is_whole_without_its_script(chromium, tmp_path):
    path = tmp_path / "plan.html"
    path.write_text(html(plan_report(large_reports.plan(2, 4))), "utf-8")
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    assert not page.locator(".tools").is_visible()
    assert page.locator("#s-impact td").first.is_visible()
    page.locator("#s-steps summary").click()
    assert page.locator("#s-steps td").first.is_visible()
    context.close()
