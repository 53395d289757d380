"""A headless Chromium for all tests of pages: one browser, with the system's own program."""

from __future__ import annotations

import pytest
from support.chromium import Visit
from support.programs import path_of, uses_program
from support.required import required_module


@pytest.fixture(scope="session")
@uses_program("chromium")
def chromium():
    required_module("playwright", "browser")
    required_module("axe_playwright_python", "browser")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path_of("chromium"), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def visit(chromium):
    """Pages that are opened once, and are kept for the tests of a module."""
    with Visit(chromium) as opened:
        yield opened
