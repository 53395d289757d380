"""mig-parted's configuration file: what it means, what is wrong with it and where, and writing it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vsphere_ai.errors import InputError
from vsphere_ai.gpu.catalog import boards
from vsphere_ai.gpu.mig import parted
from vsphere_ai.gpu.mig.layout import LayoutItem
from vsphere_ai.gpu.mig.parted import PartedEntry, entry_for, together, write
from vsphere_ai.gpu.mig.parted_profile import gpu_instances
from vsphere_ai.language.yaml_files.document import FaultCollector, parse
from vsphere_ai.language.yaml_files.go_values import go_data


def read_noting(text, **given):
    """Read a text as the command does: every fault with its place, and the notes."""
    faults, notes = FaultCollector(), FaultCollector()
    document = parse(text, "parted.yml", faults)
    refuse, note = ((lambda *said, to=to: document.refuse(to, *said)) for to in (faults, notes))
    configs = parted.read(go_data(document.root), refuse, note, **given)
    faults.raise_any()
    return configs, [each.message for each in notes.found]


def read(text):
    """Read a text, of which nothing is noted."""
    configs, notes = read_noting(text)
    assert notes == []
    return configs


EXAMPLE = """\
version: v1
mig-configs:
  all-disabled:
    - devices: all
      mig-enabled: false

  all-enabled:
    - devices: all
      mig-enabled: true
      mig-devices: {}

  all-balanced:
    - device-filter: ["0x20B010DE", "0x20F110DE"]
      devices: all
      mig-enabled: true
      mig-devices:
        "1g.5gb": 2
        "2g.10gb": 1
        "3g.20gb": 1
    - device-filter: "0x20B210DE"
      devices: all
      mig-enabled: true
      mig-devices:
        "1g.10gb+me": 1

  custom:
    - devices: [0, 1]
      mig-enabled: false
      mig-devices: {}
    - devices: [2]
      mig-enabled: true
      mig-devices: {"7g.40gb": 1}
"""
ONE = "version: v1\nmig-configs:\n  c:\n    - {devices: all, mig-enabled: true, mig-devices: {}}\n"


def test_the_example_of_the_project():
    found = read(EXAMPLE)
    assert list(found) == ["all-disabled", "all-enabled", "all-balanced", "custom"]
    assert found["all-disabled"] == (PartedEntry(False),)
    assert found["all-enabled"] == (PartedEntry(True),)
    balanced = (LayoutItem("1g.5gb"), LayoutItem("1g.5gb"), LayoutItem("2g.10gb"), LayoutItem("3g.20gb"))
    assert found["all-balanced"][0] == PartedEntry(True, balanced, None, (0x20B0, 0x20F1))
    assert found["all-balanced"][1] == PartedEntry(True, (LayoutItem("1g.10gb+me"),), None, (0x20B2,))
    assert found["custom"] == (PartedEntry(False, (), (0, 1)), PartedEntry(True, (LayoutItem("7g.40gb"),), (2,)))


@pytest.mark.parametrize(
    ("config", "index", "ids", "at"),
    [
        ("all-disabled", 5, (0x1234,), 0),
        ("all-balanced", 0, (0x20F1,), 0),
        ("all-balanced", 0, (0x20B2,), 1),
        ("all-balanced", None, (0x20B5, 0x20B2), 1),
        ("all-balanced", 0, (0x1EB8,), None),
        ("custom", 1, (0x20F1,), 0),
        ("custom", 2, (0x20F1,), 1),
        ("custom", 3, (0x20F1,), None),
        ("custom", None, (0x20F1,), 1),
    ],
)
def test_which_entry_counts_for_a_gpu(config, index, ids, at):
    entries = read(EXAMPLE)[config]
    assert entry_for(entries, index, ids) == (None if at is None else entries[at])


def test_the_last_entry_that_speaks_of_a_gpu_counts():
    entries = (PartedEntry(True), PartedEntry(False, (), (1,)))
    assert entry_for(entries, 1, ()) is entries[1]
    assert entry_for(entries, 0, ()) is entries[0]


def entry(text):
    return f"version: v1\nmig-configs:\n  c:\n    - {text}\n"


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("[1]\n", (1, 1), "not a mig-parted configuration"),
        ("version: v2\n" + ONE.partition("\n")[2], (1, 10), "the version must be v1"),
        (ONE.partition("\n")[2], (1, 1), "the version must be v1"),
        (ONE + "extra: 1\n", (5, 8), "no field 'extra'"),
        ("version: v1\nmig-configs: {}\n", (2, 14), "at least one configuration"),
        ("version: v1\nmig-configs: {c: []}\n", (2, 18), "a list of at least one entry"),
        ("version: v1\nmig-configs: {c: all}\n", (2, 18), "a list of at least one entry"),
        ("version: v1\nmig-configs: {c: [1]}\n", (2, 19), "an entry is a mapping"),
        (entry("{devices: all, mig-enabled: true, mig-devices: {}, also: 1}"), (4, 64), "no field 'also'"),
        (entry("{devices: some, mig-enabled: false}"), (4, 17), "devices must be all or a list"),
        (entry("{devices: [true], mig-enabled: false}"), (4, 17), "devices must be all or a list"),
        (entry("{mig-enabled: false}"), (4, 7), "devices must be all or a list"),
        (entry("{devices: all, mig-enabled: 1}"), (4, 35), "mig-enabled must be true or false"),
        (entry("{devices: all}"), (4, 7), "mig-enabled must be true or false"),
        (entry("{devices: all, mig-enabled: true}"), (4, 7), "mig-devices is missing"),
        (entry("{devices: all, mig-enabled: false, mig-devices: {1g.5gb: 1}}"), (4, 55), "although mig-enabled is"),
        (entry("{devices: all, mig-enabled: true, mig-devices: [1]}"), (4, 54), "a mapping of profile names to counts"),
        (entry("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: -1}}"), (4, 63), "a number from 0 on"),
        (entry("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: two}}"), (4, 63), "a number from 0 on"),
        (entry("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 0, 2g.10gb: 0}}"), (4, 54), "all counts are 0"),
        (entry("{devices: all, mig-enabled: false, mig-devices: {1g.5gb: 0}}"), (4, 55), "all counts are 0"),
        (entry("{devices: all, mig-enabled: false, device-filter: 0}"), (4, 57), "0 is no text"),
        (entry("{devices: all, mig-enabled: 'yes'}"), (4, 35), "mig-enabled must be true or false"),
        (entry("{devices: all, mig-enabled: yEs}"), (4, 35), "mig-enabled must be true or false"),
        (entry("{devices: [1.5], mig-enabled: false}"), (4, 17), "devices must be all or a list"),
        (entry("{devices: all, mig-enabled: true, mig-devices: {'1g.5gb+me,me': 1}}"), (4, 71), "is not"),
        (entry("{devices: all, mig-enabled: true, mig-devices: {3G.20GB: 1}}"), (4, 64), "is not a MIG profile"),
        (entry("{devices: all, mig-enabled: true, mig-devices: {'3g.20gb:4': 1}}"), (4, 68), "is not a profile name"),
        (entry("{devices: all, mig-enabled: true, mig-devices: {'9': 1}}"), (4, 60), "is not a profile name"),
        (entry("{devices: all, device-filter: 0x20B010DE, mig-enabled: false}"), (4, 37), "is no text"),
    ],
)  # fmt: skip
def test_faults_have_a_place(text, place, said):
    with pytest.raises(InputError) as error:
        read(text)
    (fault,) = error.value.diagnostics
    assert said in f"{fault.message}; {fault.help}"
    assert (fault.mark.line, fault.mark.column) == place


def test_all_faults_are_told_at_once():
    text = "version: v1\nmig-configs:\n  a: []\n  b:\n    - {devices: 1, mig-enabled: 2}\n"
    with pytest.raises(InputError) as error:
        read(text)
    assert len(error.value.diagnostics) == 3


def test_gpus_that_are_alike_become_one_entry():
    whole, cut = (
        PartedEntry(True, (LayoutItem("7g.40gb"),)),
        PartedEntry(True, (LayoutItem("1g.5gb"), LayoutItem("3g.20gb"))),
    )
    assert together({0: whole, 1: whole}) == (whole,)
    assert together({0: whole, 1: cut, 2: whole}) == (
        PartedEntry(True, whole.wanted, (0, 2)),
        PartedEntry(True, cut.wanted, (1,)),
    )
    assert together({1: whole}) == (PartedEntry(True, whole.wanted, (1,)),), "GPU 0 has no MIG: all would be wrong"
    turned = PartedEntry(True, tuple(reversed(cut.wanted)))
    assert together({0: cut, 1: turned}) == (cut,)


def test_what_is_written():
    cut = PartedEntry(True, (LayoutItem("3g.20gb"), LayoutItem("1g.5gb"), LayoutItem("1g.5gb")), (0,))
    everywhere = PartedEntry(True, (), None, (0x20B0, 0x20F1))
    text = write({"node-1": (cut, PartedEntry(False, (), (1,))), "all on": (everywhere,)})
    assert text == (
        "version: v1\n"
        "mig-configs:\n"
        "  node-1:\n"
        "    - devices: [0]\n"
        "      mig-enabled: true\n"
        '      mig-devices: {"3g.20gb": 1, "1g.5gb": 2}\n'
        "    - devices: [1]\n"
        "      mig-enabled: false\n"
        '  "all on":\n'
        '    - device-filter: ["0x20B010DE", "0x20F110DE"]\n'
        "      devices: all\n"
        "      mig-enabled: true\n"
        "      mig-devices: {}\n"
    )


profiles = st.sampled_from(sorted({p.name for b in boards() for p in b.profiles}))
entries = st.builds(
    lambda wanted, devices, ids: PartedEntry(True, tuple(LayoutItem(p) for p in sorted(wanted)), devices, ids),
    st.lists(profiles, max_size=7),
    st.none() | st.lists(st.integers(0, 15), min_size=1, max_size=3).map(tuple),
    st.lists(st.integers(0, 0xFFFF), max_size=2).map(tuple),
)
names = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_characters="\x7f"), min_size=1, max_size=9)


several = st.lists(entries, min_size=1, max_size=3).map(tuple)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.dictionaries(names.filter(str.isprintable), several, min_size=1, max_size=3))
def test_what_is_written_reads_the_same(configs):
    assert read(write(configs)) == configs


@pytest.mark.parametrize("name", ["yes", "null", "True", "1", "a: b", "#x", "-", '"', "\\"])
def test_odd_names_are_quoted(name):
    assert list(read(write({name: (PartedEntry(False),)}))) == [name]


SUBSYSTEMS = """version: v1
mig-configs:
  c:
    - device-filter: ["0x233010DE:0x16C110DE", "0x20B010DE"]
      devices: all
      mig-enabled: true
      mig-devices: {"1g.10gb": 7}
    - device-filter: "0x233010DE:0x16c010de"
      devices: all
      mig-enabled: true
      mig-devices: {"3g.40gb": 2}
"""


@pytest.mark.parametrize(
    ("device", "subsystem", "profile"),
    [
        (0x2330, 0x16C110DE, "1g.10gb"),
        (0x2330, 0x16C010DE, "3g.40gb"),
        (0x2330, 0x16C210DE, None),
        (0x20B0, 0x134F10DE, "1g.10gb"),  # a filter without subsystem is about every one
        (0x2330, None, "3g.40gb"),  # not known: any, the last entry counts
    ],
)
def test_filters_by_subsystem(device, subsystem, profile):
    """mig-parted 0.15; its own test of device filters has these cases."""
    entries = read(SUBSYSTEMS)["c"]
    found = entry_for(entries, 0, (device,), subsystem)
    assert (found.wanted[0].profile if found else None) == profile


def test_filters_by_subsystem_are_written_as_they_are_read():
    configs = read(SUBSYSTEMS)
    assert read(write(configs)) == configs
    empty = read(ONE.replace("devices: all", "device-filter: '', devices: all"))
    assert all(not e.device_ids and not e.subsystems for e in next(iter(empty.values())))


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("devices: [0, -1], mig-enabled: false", "no GPU has the number -1"),
        ("devices: [], mig-enabled: false", "devices is an empty list"),
        ("devices: all, mig-enabled: ", "mig-enabled is empty"),
        ("devices: all, device-filter: '20B0', mig-enabled: false", "'20B0' is not a device id"),
        ("devices: all, device-filter: ['0x20B01234'], mig-enabled: false", "'0x20B01234' is not a device id"),
        ("devices: all, device-filter: [null], mig-enabled: false", "'' is not a device id"),
        ("devices: all, device-filter: '0x20B010DE:1:2', mig-enabled: false", "is not a device id"),
    ],
)
def test_what_mig_parted_reads_and_surely_misreads_is_noted(text, note):
    """The program's own reader takes each of these texts (api/spec/v1/spec.go), and none is about a GPU with MIG."""
    configs, notes = read_noting(entry(f"{{{text}}}"))
    assert len(configs["c"]) == 1
    assert [note in each for each in notes] == [True]


def test_a_filter_that_is_no_device_id_is_about_no_gpu():
    configs, _ = read_noting(entry("{devices: all, device-filter: '20B0', mig-enabled: false}"))
    assert entry_for(configs["c"], 0, (0x20B0,)) is None
    assert read(write(configs)) == configs


def test_a_file_without_configurations_is_read():
    assert read_noting("version: v1\n") == ({}, ["there is no configuration in this file"])


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("[0, 1]", (0, 1)),
        ("[1.0, 0x2]", (1, 2)),
        ("[010, 09]", (8, 9)),
        ("[null]", (0,)),
        ("[1_0, 1e1, +3]", (10, 10, 3)),
    ],
)
def test_numbers_are_those_of_go(text, numbers):
    (own,) = read(entry(f"{{devices: {text}, mig-enabled: false}}"))["c"]
    assert own.devices == numbers


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("{1c.3g.20gb: 3}", ["1c.3g.20gb"] * 3),
        ("{3c.3g.20gb: 1, 03g.020gb: 1}", ["3g.20gb", "3g.20gb"]),
        ("{1g.5gb: , 1g.10gb-me: 1.0}", ["1g.10gb-me"]),
        ("{'1g.5gb+me,gfx': 1}", ["1g.5gb+gfx,me"]),
    ],
)
def test_profiles_are_read_as_mig_parted_does(text, wanted):
    (own,) = read(entry(f"{{devices: all, mig-enabled: true, mig-devices: {text}}}"))["c"]
    assert [item.profile for item in own.wanted] == wanted


@pytest.mark.parametrize(
    ("text", "said"),
    [("{1c.3g.20gb: 3}", "cuts a GPU instance into compute instances"), ("{1g.5gb: 65}", "more than 64 instances")],
)
def test_what_vms_cannot_have_is_refused_for_them_alone(text, said):
    whole = entry(f"{{devices: all, mig-enabled: true, mig-devices: {text}}}")
    assert len(read(whole)["c"]) == 1
    with pytest.raises(InputError, match=said):
        read_noting(whole, of_vms=True)


def items(*names):
    return [LayoutItem(name) for name in names]


@pytest.mark.parametrize(
    ("wanted", "first", "last"),
    [
        (["3g.20gb", "1g.5gb"], ["3g.20gb", "1g.5gb"], None),
        (["1c.3g.20gb"] * 3, ["3g.20gb"], ["3g.20gb"]),
        (["1c.3g.20gb"] * 4, ["3g.20gb"] * 2, ["3g.20gb"] * 2),
        (["2c.3g.20gb", "1c.3g.20gb", "2c.3g.20gb", "1c.3g.20gb"], ["3g.20gb"] * 3, ["3g.20gb"] * 2),
        (["3g.20gb", "1c.3g.20gb"], ["3g.20gb"] * 2, ["3g.20gb"] * 2),
        (["2c.4g.20gb", "1c.3g.20gb"], ["3g.20gb", "4g.20gb"], ["3g.20gb", "4g.20gb"]),
        (["9c.3g.20gb"], ["9c.3g.20gb"], ["9c.3g.20gb"]),
    ],
)
def test_gpu_instances_that_compute_instances_need(wanted, first, last):
    """In the order of mig-parted, the larger first, a new instance is begun where the last one is full."""
    found = [sorted(item.profile for item in need) for need in gpu_instances(items(*wanted))]
    assert found == [sorted(first), *([] if last is None else [sorted(last)])]


@pytest.mark.parametrize(("word", "enabled"), [("yes", True), ("On", True), ("no", False), ("off", False), ("y", True)])
def test_booleans_are_those_of_gos_yaml_reader(word, enabled):
    devices = "mig-devices: {}" if enabled else ""
    text = f"version: v1\nmig-configs:\n  a:\n  - devices: all\n    mig-enabled: {word}\n    {devices}\n"
    (entry,) = read(text)["a"]
    assert entry.enabled is enabled
