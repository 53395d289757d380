"""A farm and a command line per worker."""

from __future__ import annotations

import os

import pytest
from reliability import harness


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
