"""`vsphere-ai capacity` as it is run, against the lab."""

import json
import re

import pytest
from support.places import INVENTORY, PLAYBOOKS

pytestmark = pytest.mark.lab


@pytest.fixture
def capacity(lab, capsys):
    from vsphere_ai.cli.main import main

    def run(*words):
        code = main(["capacity", "-i", str(INVENTORY), *map(str, words)])
        return code, capsys.readouterr().out

    return run


@pytest.fixture
def divided(lab, capsys):
    """The farm after its hosts were put into MIG mode by the example playbook."""
    from vsphere_ai.cli.main import main

    assert main(["apply", "-i", str(INVENTORY), str(PLAYBOOKS / "ai-ready-cluster.yml"), "--yes"]) == 0
    capsys.readouterr()


@pytest.fixture
def wants(tmp_path):
    """Write a playbook that gives the training VMs a profile."""
    import yaml

    example = yaml.safe_load((PLAYBOOKS / "ai-ready-cluster.yml").read_text("utf-8"))

    def write(profiles):
        for play in example:
            if "vgpu" in play:
                play["vgpu"] = profiles
        path = tmp_path / "play.yml"
        path.write_text(yaml.safe_dump(example), encoding="utf-8")
        return path

    return write


def verdict(capacity, *words):
    """Exit code, whether the VMs fit, and whether that is exact."""
    code, out = capacity(*words, "-o", "json")
    found = json.loads(out)["verdict"]
    return code, found["fits"], found["exact"]


def test_before_and_after(capacity, divided):
    code, out = capacity()
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "    |3g.20gb                        |3g.20gb                        |" in out
    assert "    runs    train-01 (3-20c), train-02 (3-20c)" in out
    assert "    slices  4 of 8 free" in out
    assert "esx03.lab.local" in out.partition("No GPU that gives vGPUs: ")[2]


def test_the_same_as_json(capacity, divided):
    code, out = capacity("-o", "json", "--limit", "esx02.lab.local")
    data = json.loads(out)
    assert (code, data["schema_version"]) == (0, 1)
    (host,) = data["hosts"]
    first, second = host["gpus"]
    (one,) = first["running"]
    assert (one["vm"], one["profile"], one["guest_driver"]) == ("train-03", "grid_a100-3-20c", "470.256.02")
    assert first["instances"] == [{"profile": "3g.20gb", "start": 4, "in_use": True}]
    assert first["free_slices"] == [0, 1, 2, 3]
    assert first["placement_known"]
    assert second["room"]["grid_a100-1-5c"] == 7
    assert "verdict" not in data


def test_a_playbook_that_fits(capacity):
    code, out = capacity(PLAYBOOKS / "ai-ready-cluster.yml")
    assert code == 0
    assert verdict(capacity, PLAYBOOKS / "ai-ready-cluster.yml") == (0, True, True)
    # where they are before anything was applied: all four go to new instances of the planned MIG mode
    assert len(re.findall(r"^ +0000:\S+ +grid_a100-3-20c .*\d$", out, re.MULTILINE)) == 4


def test_a_playbook_that_does_not(capacity, wants):
    code, out = capacity(wants(["grid_a100-7-40c", "grid_a100-7-40c"]))
    assert code == 1
    assert verdict(capacity, wants(["grid_a100-7-40c", "grid_a100-7-40c"])) == (1, False, True)
    assert len(set(re.findall(r"train-0\d", out))) == 2, "two of the four VMs are left over"
    data = json.loads(capacity(wants(["grid_a100-7-40c", "grid_a100-7-40c"]), "-o", "json")[1])
    assert data["verdict"]["fits"] is False
    assert data["verdict"]["room"] == {"grid_a100-7-40c": 4}


def test_with_a_spare_host(capacity, wants):
    assert capacity(wants(["grid_a100-3-20c"]), "--spare-hosts", "1")[0] == 0
    assert verdict(capacity, wants(["grid_a100-7-40c"]), "--spare-hosts", "1") == (1, False, True)
    assert verdict(capacity, wants(["grid_a100-7-40c"])) == (0, True, True)


def test_the_play_says_how_many_hosts_are_spare(capacity, wants):
    path = wants(["grid_a100-7-40c"])
    path.write_text(path.read_text("utf-8").replace("vgpu:", "spare_hosts: 1\n  vgpu:"), encoding="utf-8")
    assert verdict(capacity, path) == (1, False, True)
    assert verdict(capacity, path, "--spare-hosts", "0") == (0, True, True)


def test_limited_to_a_vm(capacity, divided):
    code, out = capacity("--limit", "train-03")
    assert code == 0
    assert out.startswith("esx02.lab.local  2 GPUs, 1 VM")
    assert "esx01" not in out


def test_nothing_is_changed(capacity, lab):
    capacity()
    capacity(PLAYBOOKS / "ai-ready-cluster.yml")
    assert lab.get("/lab/ledger")["entries"] == []
