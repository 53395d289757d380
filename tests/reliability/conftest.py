"""A farm and a command line per worker."""

from __future__ import annotations

import os
import re

import pytest
from reliability import harness
from support import every_kind
from support.places import INVENTORY


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


@pytest.fixture(scope="session")
def network_lab(tmp_path_factory):
    from importlib import resources

    from vsphere_ai.lab import process

    directory = tmp_path_factory.mktemp("network")
    text = (resources.files("vsphere_ai.lab") / "scenarios" / "default.yml").read_text(encoding="utf-8")
    fast = re.sub(r"(?m)^timing: .*$", harness.FAST, text, count=1)
    (directory / "farm.yml").write_text(fast, encoding="utf-8")
    yield process.start(directory, directory / "farm.yml", exit_with=os.getpid())
    process.stop(directory)


@pytest.fixture(scope="session")
def network_learned(network_lab, tool, tmp_path_factory):
    """What a playbook of every kind does on the farm that has a network for each."""
    folder = tmp_path_factory.mktemp("network-learned")
    playbook = folder / "play.yml"
    playbook.write_text(every_kind.TOGETHER_AND_NEW, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VSPHERE_AI_LAB_DIR", str(network_lab.directory))
        patch.setenv("VSPHERE_AI_STATE_DIR", str(folder))
        network_lab.post("/lab/reset")
        mission = harness.Mission(network_lab, tool, playbook, INVENTORY)
        mission.learn(folder / "points.txt")
    return mission


@pytest.fixture
def network_mission(network_learned, network_lab, monkeypatch):
    """Every kind together on the fresh farm of networks."""
    network_lab.post("/lab/reset")
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(network_lab.directory))
    return network_learned


@pytest.fixture(scope="session")
def r1_lab(tmp_path_factory):
    from vsphere_ai.lab import process

    directory = tmp_path_factory.mktemp("r1")
    yield process.start(directory, harness.R1 / "farm.yml", exit_with=os.getpid())
    process.stop(directory)


@pytest.fixture(scope="session")
def large_learned(r1_lab, tool, tmp_path_factory):
    """What a plan for 16 hosts of 8 GPUs and 64 VMs does."""
    folder = tmp_path_factory.mktemp("r1-learned")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VSPHERE_AI_LAB_DIR", str(r1_lab.directory))
        patch.setenv("VSPHERE_AI_STATE_DIR", str(folder))
        r1_lab.post("/lab/reset")
        mission = harness.Mission(r1_lab, tool, harness.R1 / "play.yml", harness.R1 / "inventory.yml", max_down=4)
        mission.learn(folder / "points.txt")
    return mission


@pytest.fixture
def large_mission(large_learned, r1_lab, monkeypatch):
    """The larger plan on the fresh larger farm."""
    r1_lab.post("/lab/reset")
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(r1_lab.directory))
    return large_learned


@pytest.fixture
def mission(learned, r0_lab, monkeypatch):
    """The reference plan on the fresh reference farm."""
    r0_lab.post("/lab/reset")
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(r0_lab.directory))
    return learned
