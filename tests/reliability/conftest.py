"""Farms and a command line per worker, and what a run that nothing happens to does on each of them."""

from __future__ import annotations

import contextlib
import re

import pytest
from reliability import harness
from support import every_kind
from support.labs import started
from support.places import INVENTORY


@pytest.fixture(scope="session")
def tool(tmp_path_factory):
    made = harness.Tool(tmp_path_factory.mktemp("said"))
    yield made
    made.close()


@contextlib.contextmanager
def farm(directory, scenario):
    """A lab that ends with this process, at the latest."""
    from vsphere_ai.lab.front import process

    yield started(directory, scenario)
    process.stop(directory)


def learn(lab, tool, folder, **about):
    """Apply a playbook to a fresh farm, with a state folder of its own; return what it did there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
        patch.setenv("VSPHERE_AI_STATE_DIR", str(folder))
        lab.post("/lab/reset")
        mission = harness.Mission(lab, tool, **about)
        mission.learn(folder / "points.txt")
    return mission


def afresh(mission, monkeypatch):
    """Let the commands of a test work on the mission's farm, which is as it was at the start."""
    mission.lab.post("/lab/reset")
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(mission.lab.directory))
    return mission


@pytest.fixture(scope="session")
def r0_lab(tmp_path_factory):
    with farm(tmp_path_factory.mktemp("r0"), harness.R0 / "farm.yml") as lab:
        yield lab


@pytest.fixture(scope="session")
def learned(r0_lab, tool, tmp_path_factory):
    return learn(r0_lab, tool, tmp_path_factory.mktemp("learned"))


@pytest.fixture
def mission(learned, monkeypatch):
    """The reference plan on the fresh reference farm."""
    return afresh(learned, monkeypatch)


@contextlib.contextmanager
def learned_at(place, tool, tmp_path_factory, max_down):
    """What a run of the playbook in a folder does, on a farm of its own that is described there."""
    with farm(tmp_path_factory.mktemp(place.name), place / "farm.yml") as lab:
        books = {"playbook": place / "play.yml", "inventory": place / "inventory.yml"}
        yield learn(lab, tool, tmp_path_factory.mktemp(f"{place.name}-learned"), max_down=max_down, **books)


@pytest.fixture(scope="session")
def large_learned(tool, tmp_path_factory):
    with learned_at(harness.R1, tool, tmp_path_factory, 4) as mission:
        yield mission


@pytest.fixture
def large_mission(large_learned, monkeypatch):
    """The larger plan, for 16 hosts of 8 GPUs and 64 VMs, on the fresh larger farm."""
    return afresh(large_learned, monkeypatch)


@pytest.fixture(scope="session")
def rare_learned(tool, tmp_path_factory):
    with learned_at(harness.R2, tool, tmp_path_factory, 2) as mission:
        yield mission


@pytest.fixture
def rare_mission(rare_learned, monkeypatch):
    """A plan of the calls that no other plan here needs, on a fresh farm."""
    return afresh(rare_learned, monkeypatch)


@pytest.fixture(scope="session")
def network_lab(tmp_path_factory):
    from importlib import resources

    directory = tmp_path_factory.mktemp("network")
    text = (resources.files("vsphere_ai.lab") / "scenarios" / "default.yml").read_text(encoding="utf-8")
    fast = re.sub(r"(?m)^timing: .*$", harness.FAST, text, count=1)
    (directory / "farm.yml").write_text(fast, encoding="utf-8")
    with farm(directory, directory / "farm.yml") as lab:
        yield lab


@pytest.fixture(scope="session")
def network_learned(network_lab, tool, tmp_path_factory):
    folder = tmp_path_factory.mktemp("network-learned")
    (folder / "play.yml").write_text(every_kind.TOGETHER_AND_NEW, encoding="utf-8")
    return learn(network_lab, tool, folder, playbook=folder / "play.yml", inventory=INVENTORY)


@pytest.fixture
def network_mission(network_learned, monkeypatch):
    """Every kind together on the fresh farm that has a network for each."""
    return afresh(network_learned, monkeypatch)
