"""Tests that have passed, one a line in a file: what passed on one machine is not run again on another one."""

from __future__ import annotations

from pathlib import Path


def options(parser):
    """Add the options; their values are joined with `=`, else pytest looks for its files where they point to."""
    parser.addoption("--note-passed", metavar="FILE", help="add the ids of the tests that pass to a file")
    parser.addoption("--but-passed", metavar="FILE", help="only tests whose ids are not in this file")


class Notes:
    """The tests of a run that passed in all their parts, and the modules that passed whole; written at the end."""

    def __init__(self, path):
        self.path, self._passed, self._failed, self._modules = Path(path), {}, set(), {}

    def pytest_collectreport(self, report):
        if not report.passed:
            self._modules[module_of(report.nodeid)] = False

    def pytest_runtest_logreport(self, report):
        self._modules.setdefault(module_of(report.nodeid), True)
        if not report.passed:
            self._modules[module_of(report.nodeid)] = False
            self._failed.add(report.nodeid)
        elif report.when == "call":
            self._passed[report.nodeid] = None

    def pytest_sessionfinish(self):
        names = [name for name in self._passed if name not in self._failed]
        names += [module for module, whole in self._modules.items() if whole]
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(f"{name}\n" for name in names)


def module_of(name):
    return name.partition("::")[0]


def note(config):
    """Have the tests that pass noted, in the process that hears of all of them."""
    path = config.getoption("--note-passed")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Notes(path), "passed")


def elsewhere(config):
    """Return the tests, and the modules without others, that have passed elsewhere; read once."""
    path = config.getoption("--but-passed")
    if not hasattr(config, "passed_elsewhere"):
        config.passed_elsewhere = frozenset(Path(path).read_text("utf-8").splitlines() if path else ())
    return config.passed_elsewhere


def is_done(config, path):
    """Return whether a module need not be read: all its tests have passed elsewhere."""
    return path.suffix == ".py" and str(path.relative_to(config.rootpath)) in elsewhere(config)


def leave_out(config, items):
    """Deselect the tests that have passed elsewhere."""
    passed = elsewhere(config)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
    items[:] = [item for item in items if item.nodeid not in passed]
