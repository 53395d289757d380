"""Pages in the headless Chromium of all tests."""

from __future__ import annotations

import pytest
from support.chromium import Visit


@pytest.fixture(scope="module")
def visit(chromium):
    """Pages that are opened once, and are kept for the tests of a module."""
    with Visit(chromium) as opened:
        yield opened
