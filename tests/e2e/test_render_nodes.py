"""Files for tools that watch nodes, from VMs of the lab; what is written is read back; faults have their places."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.lab


@pytest.fixture(autouse=True)
def farm(lab, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))


@pytest.mark.parametrize("form", ["nhc", "prometheus"])
def test_what_is_written_has_no_fault(cli, form):
    inventory = cli.file("lab: true\n", "inventory.yml")
    assert cli("render", form, "train-*", "-i", inventory) == 0, cli.err
    assert "train-01" in cli.out or "instance=~" in cli.out
    file = cli.file(cli.out, f"written.{form}")
    assert cli("render", form, "--check", file) == 0, cli.err
    assert "no fault" in cli.out


@pytest.mark.parametrize(
    ("form", "text", "place"),
    [
        ("nhc", "* || check_fs_free / 5%\n* || check_hw_eth\n", ":2:6"),
        ("prometheus", "groups:\n- name: a\n  rules:\n  - alert: A\n    expr: sum(up\n", ":5:11"),
        ("prometheus", "groups: [\n", ":"),
        ("prometheus", "a: 1\n", ":1:1"),
    ],
)
def test_faults_have_their_places(cli, form, text, place):
    file = cli.file(text, "faulty")
    assert cli("render", form, "--check", file) == 65
    assert f"faulty{place}" in cli.err


def test_a_file_that_is_not_there_and_vms_that_are_not(cli):
    assert cli("render", "nhc", "--check", "nowhere.conf") == 64
    assert cli("render", "nhc", "nothing-*", "-i", cli.file("lab: true\n", "inventory.yml")) == 64
