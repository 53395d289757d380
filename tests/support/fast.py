"""Which tests are fast: those of the rooms that start no lab and no server, without the modules that take longest."""

from __future__ import annotations

SUITES = (
    "browser",
    "docs",
    "e2e",
    "honesty",
    "integrations",
    "recorded",
    "reliability",
    "thirdparty",
    "vcsim",
    "lab",
    "connect",
    "security",
)
"""Folders of tests that drive the whole tool, the lab, or servers of their own."""
FIXTURES = {"lab", "session_lab", "make_lab", "idle_labs", "client", "cli", "tool"}
SLOW = {
    "tests/capacity/test_brute.py",
    "tests/capacity/test_lab.py",
    "tests/capacity/test_spare_hosts.py",
    "tests/cli/test_startup.py",
    "tests/language/test_fuzz.py",
    "tests/language/test_fuzz_cli.py",
    "tests/planning/test_document.py",
    "tests/tools/test_bench.py",
    "tests/tools/test_labs.py",
    "tests/tools/test_new_scaffolds.py",
    "tests/tools/test_programs.py",
}
"""Modules that start processes, or try thousands of cases."""


def is_fast(item):
    """Tell whether a test is one of the fast ones."""
    path = item.nodeid.partition("::")[0]
    return not (
        path.split("/")[1] in SUITES
        or path in SLOW
        or FIXTURES & set(getattr(item, "fixturenames", ()))
        or item.get_closest_marker("lab")
        or item.get_closest_marker("vcsim")
    )
