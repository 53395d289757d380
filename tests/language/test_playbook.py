from __future__ import annotations

import json
from pathlib import Path

import pytest

from vsphere_ai.errors import InputError
from vsphere_ai.language.inventories.inventory import HostGroup, Inventory, InventoryGroup, VCenterSettings
from vsphere_ai.language.playbooks.desired import desired, vcenters
from vsphere_ai.language.playbooks.play import Power, Rolling, from_document, to_document
from vsphere_ai.language.playbooks.playbook import load_playbook

FULL = """\
- name: GPU hosts
  hosts: gpu_hosts
  graphics: {default_type: shared_direct}
  mig: {gpus: {0000:3b:00.0: {layout: [3g.20gb, 9]}}}
  rolling: {max_unavailable: 25%, evacuate: power_off, reboot: api, timeout: 1h30m}
  power: {shutdown_timeout: 90s, force: true}
  vcenter: lab

- vms: [train-01, train-02]
  vgpu: [grid_a100-20c, grid_a100-20c]
  pvrdma:
    - {port_group: rdma}
"""


def settings(name):
    return VCenterSettings(name=name, address="a", username="u", password="env:P")


@pytest.fixture
def inventory():
    return Inventory(
        Path("i.yml"),
        vcenters={"lab": settings("lab")},
        hosts={"gpu_hosts": InventoryGroup("gpu_hosts", HostGroup(cluster="gpu-a"), None)},
    )


@pytest.fixture
def read(tmp_path, kinds):
    def read(text):
        path = tmp_path / "play.yml"
        path.write_text(text)
        return load_playbook(path, kinds)

    return read


@pytest.fixture
def want(read, inventory, estate):
    return lambda text: desired(read(text), inventory, estate)


def faults(call):
    with pytest.raises(InputError) as caught:
        call()
    return [(d.mark.line, d.mark.column, d.message, d.help) for d in caught.value.diagnostics]


def test_everything_a_play_can_say(read, kinds):
    hosts, vms = read(FULL).plays
    assert (hosts.name, hosts.target, hosts.pattern, hosts.vcenter) == ("GPU hosts", "host", "gpu_hosts", "lab")
    assert [stated.state.kind for stated in hosts.states] == ["graphics", "mig"]
    assert hosts.states[1].state.gpus["0000:3b:00.0"].layout == ("3g.20gb", 9)
    assert hosts.rolling == Rolling(max_unavailable="25%", evacuate="power_off", reboot="api", timeout=5400)
    assert hosts.power == Power(shutdown_timeout=90, force=True)
    assert (hosts.mark.line, hosts.pattern_mark.line, hosts.pattern_mark.column) == (1, 2, 10)
    assert (hosts.states[1].mark.line, hosts.states[1].mark.column) == (4, 3)
    assert (vms.name, vms.target, vms.pattern, vms.vcenter) == ("vms train-01,train-02", "vm", "train-01,train-02", "")
    assert vms.states[0].state == kinds["vgpu"](profiles=("grid_a100-20c", "grid_a100-20c"))
    assert vms.states[1].state.adapters[0].port_group == "rdma"
    assert (vms.rolling, vms.power) == (Rolling(), Power())


def test_what_a_play_leaves_out_is_careful():
    careful = {"max_unavailable": 1, "serial": (), "max_fail": 0, "evacuate": "refuse", "reboot": "ssh"}
    assert Rolling().model_dump() == {**careful, "timeout": 1800, "settle": 60}
    assert Power().model_dump() == {"shutdown_timeout": 300, "force": False}


def test_a_playbook_survives_being_saved(read, kinds, inventory, estate):
    playbook = read(FULL)
    saved = json.loads(json.dumps(to_document(playbook)))
    again = from_document(saved, kinds)
    assert again == playbook
    assert to_document(again) == to_document(playbook)
    assert desired(again, inventory, estate) == desired(playbook, inventory, estate)
    assert [play.rolling.model_fields_set for play in again.plays] == [
        p.rolling.model_fields_set for p in playbook.plays
    ]


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d.update(format=99),
        lambda d: d.pop("plays"),
        lambda d: d.update(plays=7),
        lambda d: d["plays"][0]["states"][0].update(kind="nothing"),
        lambda d: d["plays"][0]["states"][0]["state"].update(default_type="x"),
        lambda d: d["plays"][0].update(rolling={"timeout": -1}),
    ],
)
def test_a_damaged_saved_playbook_is_refused(damage, read, kinds):
    saved = to_document(read(FULL))
    damage(saved)
    with pytest.raises(InputError, match="saved plan: the saved playbook cannot be read") as caught:
        from_document(saved, kinds)
    assert caught.value.diagnostics[0].help == "make the plan again"


def test_the_digest_is_that_of_the_text(read):
    assert read(FULL).digest == read(FULL).digest
    assert read(FULL).digest != read(FULL + "\n").digest
    assert len(read(FULL).digest) == 64


def test_every_target_gets_what_all_plays_want_of_it(want, kinds):
    plans = want(
        "- {hosts: gpu_hosts, mig: {mode: enabled}, rolling: {timeout: 10m}}\n"
        "- {hosts: esx01.lab.local, graphics: {default_type: shared}, rolling: {evacuate: vmotion}}\n"
        "- {hosts: all, mig: {mode: enabled}, power: {force: true}}\n"
    )
    assert [target.name for target in plans] == sorted(target.name for target in plans)
    by_name = {target.name: plan for target, plan in plans.items()}
    first = by_name["esx01.lab.local"]
    assert first.states == (kinds["mig"](mode="enabled"), kinds["graphics"](default_type="shared"))
    assert first.rolling == Rolling(timeout=600, evacuate="vmotion")
    assert first.power == Power(force=True)
    assert {kind: mark.line for kind, mark in first.marks.items()} == {"mig": 1, "graphics": 2}
    assert by_name["esx02.lab.local"].rolling == Rolling(timeout=600)
    assert by_name["esx-odd.lab.local"].rolling == Rolling()


def test_two_plays_that_want_different_things_are_named_both(want, tmp_path):
    text = (
        "- hosts: gpu_hosts\n  mig: {mode: enabled}\n  rolling: {timeout: 10m}\n"
        "- hosts: esx0[1:2].lab.local\n  mig: {mode: disabled}\n  rolling: {timeout: 20m}\n"
    )
    names, file, help = "esx01.lab.local, esx02.lab.local", tmp_path / "play.yml", "keep one of them"
    assert faults(lambda: want(text)) == [
        (4, 3, f"two plays want a different 'rolling' of {names}: here and at {file}:1:3", help),
        (5, 3, f"two plays want a different 'mig' of {names}: here and at {file}:2:3", help),
    ]


def test_every_pattern_that_means_nothing_is_named_with_its_line(want):
    text = "- hosts: gpu_host\n  mig: {mode: enabled}\n- vms: infra-01\n  vgpu: [a]\n- vms: train-09\n  vgpu: [a]\n"
    found = faults(lambda: want(text))
    assert [(line, column) for line, column, _, _ in found] == [(1, 10), (3, 8), (5, 8)]
    assert "did you mean 'gpu_hosts'?" in found[0][3]
    with pytest.raises(InputError) as caught:
        want(text)
    assert caught.value.diagnostics[1].excerpt.startswith("    3 | - vms: infra-01\n")


def test_a_play_is_for_one_vcenter(read, inventory, estate):
    two = Inventory(Path("i.yml"), vcenters={"lab": settings("lab"), "edge": settings("edge")})
    playbook = read(
        "- {hosts: esx01.lab.local, vcenter: lab, mig: {mode: enabled}}\n"
        "- {hosts: elsewhere, vcenter: edge, mig: {mode: enabled}}\n"
    )
    assert vcenters(playbook, two) == ("edge", "lab")
    assert [target.name for target in desired(playbook, two, estate, vcenter="lab")] == ["esx01.lab.local"]
    assert vcenters(read("- {hosts: all, mig: {mode: enabled}}\n"), inventory) == ("lab",)
    (unsaid,) = faults(lambda: vcenters(read("- {hosts: all, mig: {mode: enabled}}\n"), two))
    assert unsaid[2:] == (
        "the inventory has 2 vCenters",
        "choose one with --vcenter, or add 'vcenter: ...' to this play; there is: edge, lab",
    )
    (unknown,) = faults(lambda: vcenters(read("- {hosts: all, vcenter: lap, mig: {mode: enabled}}\n"), two))
    assert unknown[2:] == ("the inventory has no vCenter 'lap'", "did you mean 'lab'?")


@pytest.mark.parametrize(
    ("text", "value"), [("90s", 90), ("30m", 1800), ("1h30m", 5400), ("24h", 86400), ("2m5s", 125)]
)
def test_a_time_is_a_number_and_a_unit(text, value):
    assert Rolling(timeout=text).timeout == value


@pytest.mark.parametrize(
    "text", ["", "30", "m", "1.5h", "-1m", "0s", "25h", "30m1h", "1 h", "30M", True, 0, -5, 1.5, None]
)
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ValueError, match="time"):
        Rolling(timeout=text)


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "0%", "101%", "25", "05%", None])
def test_what_is_no_number_of_hosts_is_refused(value):
    with pytest.raises(ValueError, match="number of hosts"):
        Rolling(max_unavailable=value)


@pytest.mark.parametrize("value", [1, 8, "1%", "25%", "100%"])
def test_hosts_are_counted_or_a_share(value):
    assert Rolling(max_unavailable=value).max_unavailable == value
