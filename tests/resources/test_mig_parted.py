"""A configuration of mig-parted as the source of a host's MIG modes and layouts: read with the playbook, then data."""

from __future__ import annotations

import json

import pytest
from support.estates import A100, ESX1, OFF, ON, PCI, estate, host, pci_device, smi, view
from support.judging import judge

from vsphere_ai.errors import InputError
from vsphere_ai.gpu.smi.live import GPUS
from vsphere_ai.language.playbooks.play import from_document, to_document
from vsphere_ai.language.playbooks.playbook import load_playbook
from vsphere_ai.model.facts import ProbeFailure
from vsphere_ai.resources import kinds

FIRST, SECOND = PCI
PARTED = """\
version: v1
mig-configs:
  all-balanced:
    - device-filter: ["0x20B010DE", "0x20F110DE"]
      devices: all
      mig-enabled: true
      mig-devices: {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}
    - device-filter: "0x233110DE"
      devices: all
      mig-enabled: true
      mig-devices: {"7g.80gb": 1}
  second:
    - {devices: [1], mig-enabled: true, mig-devices: {"7g.40gb": 1}}
  bare:
    - {devices: all, mig-enabled: true, mig-devices: {}}
    - {devices: [1], mig-enabled: false}
  off:
    - {devices: all, mig-enabled: false}
  on:
    - {devices: all, mig-enabled: true, mig-devices: {}}
"""


def play(config="all-balanced", file="parted.yaml"):
    return f"- hosts: all\n  mig: {{parted: {{file: {file}, config: {config}}}}}\n"


@pytest.fixture
def book(tmp_path):
    """Write a playbook and its mig-parted file into a folder, and read the playbook."""
    folder = tmp_path / "site"
    folder.mkdir()

    def read(text, parted=PARTED):
        (folder / "parted.yaml").write_text(parted, encoding="utf-8")
        (folder / "play.yml").write_text(text, encoding="utf-8")
        return load_playbook(folder / "play.yml", kinds())

    read.folder = folder
    return read


@pytest.fixture
def mig(book):
    return lambda *given: book(play(*given)).plays[0].states[0].state


def faults(call, *given):
    with pytest.raises(InputError) as caught:
        call(*given)
    assert caught.value.exit_code == 65
    found = caught.value.diagnostics
    return [(d.mark.file.rpartition("/")[2], d.mark.line, d.mark.column, d.message) for d in found]


def on(modes, **more):
    return estate(host(ESX1, probes=smi(modes), **more))


BOTH_ON, BOTH_OFF = dict.fromkeys(PCI, ON), dict.fromkeys(PCI, OFF)
BALANCED = ("2g.10gb:0", "1g.5gb:2", "1g.5gb:3", "3g.20gb:4")


def shape(judged):
    return {pci: (gpu.mode, gpu.layout) for pci, gpu in judged.settled.gpus.items()}


def test_the_entry_for_the_board_becomes_mode_and_layout_of_each_gpu(mig):
    judged = judge(mig(), ESX1, on(BOTH_OFF))
    assert shape(judged) == {pci: ("enabled", BALANCED) for pci in PCI}
    assert set(judged.fields) == {f"{pci} {what}" for pci in PCI for what in ("mode", "layout")}
    assert judged.problems == {}
    assert judged.settled.settle(ESX1, view(on(BOTH_OFF))) == judged.settled


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("second", {SECOND: ("enabled", ("7g.40gb:0",))}),
        ("bare", {FIRST: ("enabled", ()), SECOND: ("disabled", None)}),
        ("off", {FIRST: ("disabled", None), SECOND: ("disabled", None)}),
    ],
)
def test_gpus_are_chosen_by_number_and_the_last_entry_counts(mig, config, expected):
    assert shape(judge(mig(config), ESX1, on(BOTH_ON))) == expected


def test_a_host_it_says_nothing_of_is_refused(mig):
    unknown = judge(mig(), ESX1, on(BOTH_ON, device=0x20B7))  # an A30
    assert unknown.settled.gpus == {}
    assert unknown.problems["mig.no-gpu"].message == "this host has no GPU that all-balanced is about"


def test_where_ssh_fails_only_that_is_said(mig):
    failed = estate(host(ESX1, probes={GPUS.name: ProbeFailure("ssh.stopped", "SSH is stopped", "start it")}))
    assert list(judge(mig(), ESX1, failed).problems) == ["ssh.stopped"]


def test_a_gpu_without_mig_is_as_wanted_when_mig_is_off_and_refused_when_not(mig):
    none = dict.fromkeys(PCI, ("[N/A]", "[N/A]"))
    t4 = on(none, device=0x1EB8)
    assert judge(mig("off"), ESX1, t4).settled.gpus == {}
    assert "mig.not-capable" in judge(mig("second"), ESX1, t4).problems  # it names the GPU's number


def test_all_devices_are_those_with_mig(mig):
    """A host with an A100 and a T4: mig-parted skips the T4 where an entry is about all devices."""
    devices = (pci_device(FIRST, A100), pci_device(SECOND, 0x1EB8))
    modes = {FIRST: ON, SECOND: ("[N/A]", "[N/A]")}
    mixed = estate(host(ESX1, probes=smi(modes), hardware__pciDevice=devices))
    judged = judge(mig("all-balanced"), ESX1, mixed)
    assert shape(judged) == {FIRST: ("enabled", BALANCED)}
    assert judged.problems == {}
    assert shape(judge(mig("bare"), ESX1, mixed)) == {FIRST: ("enabled", ())}
    judged = judge(mig("on"), ESX1, mixed)  # it has no filter, and names no number
    assert shape(judged) == {FIRST: ("enabled", ())}
    assert judged.problems == {}


def test_a_filter_names_the_subsystem(book):
    subsystem = pci_device(FIRST, A100)
    shown = (subsystem["subDeviceId"] & 0xFFFF) << 16 | subsystem["subVendorId"] & 0xFFFF
    both = on(BOTH_ON)
    for number, expected in ((shown, dict.fromkeys(PCI, ("enabled", BALANCED))), (shown ^ 0x10000, {})):
        filters = f'["0x{A100:04X}10DE:0x{number:08X}"]'
        text = PARTED.replace('["0x20B010DE", "0x20F110DE"]', filters)
        state = book(play(), text).plays[0].states[0].state
        assert shape(judge(state, ESX1, both)) == expected


def test_a_profile_the_board_does_not_have_is_refused(mig):
    h100 = on(BOTH_ON, device=0x2331)
    problem = judge(mig("second"), ESX1, h100).problems["mig.layout"]
    assert "7g.40gb" in problem.message


def test_a_saved_plan_needs_the_file_no_more(book):
    playbook = book(play())
    kept = json.loads(json.dumps(to_document(playbook)))
    (book.folder / "parted.yaml").unlink()
    again = from_document(kept, kinds())
    assert again.plays[0].states[0].state == playbook.plays[0].states[0].state
    assert shape(judge(again.plays[0].states[0].state, ESX1, on(BOTH_OFF)))[FIRST] == ("enabled", BALANCED)
    assert to_document(again) == kept


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("version: v1", "version: v2", (1, 10, "the version must be v1")),
        ('"1g.5gb": 2', '"1c.2g.10gb": 2', (7, 35, "1c.2g.10gb cuts a GPU instance into compute instances")),
        ('"1g.5gb": 2', '"1g.5gb": 64', (7, 20, "more than 64 instances on a GPU")),
        ("mig-enabled: true", "mig-enabled: 1", (6, 20, "mig-enabled is 1")),
        ("version: v1", "version: v1\nversion: v2", None),
        ("mig-configs:", "mig-configs: [", None),
    ],
)
def test_a_fault_of_the_file_is_shown_in_the_file(book, old, new, expected):
    found = faults(book, play(), PARTED.replace(old, new, 1))
    assert {f[0] for f in found} == {"parted.yaml"}
    assert all(f[1] and f[2] for f in found)
    assert expected is None or found == [("parted.yaml", *expected)]


def test_other_configurations_may_be_for_something_else(book):
    parted = PARTED.replace('"7g.40gb"', '"1c.7g.40gb"')
    assert book(play(), parted).plays
    assert len(faults(book, play("second"), parted)) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (play("all-balance"), (2, 45, "parted.yaml has no configuration 'all-balance'")),
        (play(file="gone.yaml"), (2, 24, "gone.yaml: the file cannot be read: No such file or directory")),
        (play(file="."), (2, 24, "it is a folder, not a file")),
        (play(file="/etc/hosts"), (2, 24, "'/etc/hosts' is not a file below the folder of")),
        (play(file="../other.yaml"), (2, 24, "'../other.yaml' is not a file below the folder of")),
        (play(file="link.yaml"), (2, 24, "'link.yaml' is not a file below the folder of")),
        (play(file="away/other.yaml"), (2, 24, "'away/other.yaml' is not a file below the folder of")),
        (play(file='"a\\0b"'), (2, 24, "is not a file below the folder of")),
        (play().replace("{parted", "{mode: enabled, parted"), (2, 8, "'parted' says it all, but there is 'mode'")),
        (play().replace("{parted", "{layout: [7g.40gb], parted"), (2, 8, "there is 'layout' as well")),
        (play().replace("{parted", "{gpus: {}, parted"), (2, 8, "there is 'gpus' as well")),
        (play().replace("{file", "{entries: [], file"), (2, 18, "'entries' is read, not set")),
        (play().replace("file: parted.yaml, ", ""), (2, 17, "'file' is missing")),
    ],
)
def test_a_fault_of_the_playbook_is_shown_there(book, text, expected):
    (book.folder.parent / "other.yaml").write_text(PARTED)
    (book.folder / "link.yaml").symlink_to("../other.yaml")
    (book.folder / "away").symlink_to("..")
    ((file, line, column, message),) = faults(book, text)
    assert (file, line, column) == ("play.yml", *expected[:2])
    assert expected[2] in message


def test_a_folder_below_and_a_link_within_are_fine(book):
    (book.folder / "mig").mkdir()
    (book.folder / "mig" / "real.yaml").write_text(PARTED)
    (book.folder / "near.yaml").symlink_to("mig/real.yaml")
    for file in ("mig/real.yaml", "mig/../parted.yaml", "near.yaml"):
        assert book(play(file=file)).plays[0].states[0].state.parted.entries


def test_the_board_of_this_estate_is_in_the_filter():
    assert f"0x{A100:04X}10DE" in PARTED
