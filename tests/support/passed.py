"""Tests that have passed, one a line in a file: what passed on one machine is not run again on another one."""

from __future__ import annotations

from pathlib import Path


def options(parser):
    """Add the options; their values are joined with `=`, else pytest looks for its files where they point to."""
    parser.addoption("--note-passed", metavar="FILE", help="add the ids of the tests that pass to a file")
    parser.addoption("--but-passed", metavar="FILE", help="only tests whose ids are not in this file")


class Notes:
    """The tests of a run that have passed in all their parts; written into the file at the end."""

    def __init__(self, path):
        self.path, self._passed, self._failed = Path(path), {}, set()

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self._failed.add(report.nodeid)
        elif report.when == "call" and report.passed:
            self._passed[report.nodeid] = None

    def pytest_sessionfinish(self):
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(f"{name}\n" for name in self._passed if name not in self._failed)


def note(config):
    """Have the tests that pass noted, in the process that hears of all of them."""
    path = config.getoption("--note-passed")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Notes(path), "passed")


def leave_out(config, items):
    """Deselect the tests that have passed elsewhere."""
    path = config.getoption("--but-passed")
    if not path:
        return
    passed = set(Path(path).read_text("utf-8").splitlines())
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
    items[:] = [item for item in items if item.nodeid not in passed]
