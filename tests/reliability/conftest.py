"""A farm and a command line per worker, and how to repeat what failed."""

from __future__ import annotations

import os

import pytest
from reliability import harness


def pytest_report_header():
    return f"reliability: RELIABILITY={'full' if harness.FULL else 'small'} RELIABILITY_SEED={harness.SEED}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        tier = "RELIABILITY=full " if harness.FULL else ""
        again = f"{tier}RELIABILITY_SEED={harness.SEED} .venv/bin/python -m pytest '{item.nodeid}'"
        report.sections.append(("replay", again))
    return report


@pytest.fixture(scope="session")
def tool(tmp_path_factory):
    made = harness.Tool(tmp_path_factory.mktemp("said"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def r0_lab(tmp_path_factory):
    from vsphere_ai.lab import process

    directory = tmp_path_factory.mktemp("r0")
    yield process.start(directory, harness.R0 / "farm.yml", exit_with=os.getpid())
    process.stop(directory)


@pytest.fixture(scope="session")
def learned(r0_lab, tool, tmp_path_factory):
    """What the reference plan does on the reference farm."""
    folder = tmp_path_factory.mktemp("learned")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VSPHERE_AI_LAB_DIR", str(r0_lab.directory))
        patch.setenv("VSPHERE_AI_STATE_DIR", str(folder))
        r0_lab.post("/lab/reset")
        mission = harness.Mission(r0_lab, tool)
        mission.learn(folder / "points.txt")
    return mission


@pytest.fixture
def mission(learned, r0_lab, monkeypatch):
    """The reference plan on the fresh reference farm."""
    r0_lab.post("/lab/reset")
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(r0_lab.directory))
    return learned
