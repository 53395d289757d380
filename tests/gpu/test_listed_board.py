"""What a live host lists wins over the catalogue; where they differ, somebody is told."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.estates import A100, ESX1, OFF, ON, PCI, host, pci_device, smi

from vsphere_ai.gpu.catalog import board, board_of_device, boards
from vsphere_ai.gpu.mig import layout
from vsphere_ai.gpu.mig.placement import transition
from vsphere_ai.gpu.mig.search import Instance
from vsphere_ai.gpu.smi.live import GPUS, PLACEMENTS, PROFILES
from vsphere_ai.gpu.vgpus import listed_board, vgpu
from vsphere_ai.gpu.vgpus.listed_board import ListedBoard, boards_as_listed
from vsphere_ai.model.facts import CommandOutput, ProbeFailure

sys.path.insert(0, str(Path(__file__).parent))

from gpu_transcripts import FILES, calls

FIRST, SECOND = PCI
BOTH_ON = dict.fromkeys(PCI, ON)
NOTHING = CommandOutput(6, "No MIG-enabled devices found.\n")


def first(path, option):
    """The first answer of a transcript to a listing that lists anything."""
    asked = (c for c in calls(path) if c.argv.split()[-1] == option and "-cgi" not in c.argv)
    return next((c for c in asked if "No MIG-enabled" not in c.stdout), None)


def listing(path):
    return {
        probe.name: CommandOutput(found.status, found.stdout)
        for probe, option in ((PROFILES, "-lgip"), (PLACEMENTS, "-lgipp"))
        if (found := first(path, option)) is not None
    }


def named(name):
    return next(p for p in FILES if p.name == name)


A100_550 = listing(named("session-a100-80gb.550.163.01.txt"))


def seen(lists, *, device=A100, modes=BOTH_ON, instances=(), driver="550.163.01"):
    return host(ESX1, device=device, probes={**smi(modes, instances, driver), **lists})


def board_as_listed(facts, pci, table):
    """The board of one GPU and the disagreements, whatever the catalogue says of its device."""
    found = listed_board._combined(listed_board._outputs(facts), ((pci, table),))[pci]
    return found.board, found.disagreements


def changed(lists, old, new):
    assert any(old in o.stdout for o in lists.values())
    return {name: CommandOutput(0, o.stdout.replace(old, new)) for name, o in lists.items()}


SESSIONS = [
    ("session-a100-40gb.470.256.02.txt", "a100-40gb", 470),
    ("session-a100-40gb.535.261.03.txt", "a100-40gb", 535),
    ("session-a100-40gb.550.163.01.txt", "a100-40gb", 550),
    ("session-a100-80gb.470.256.02.txt", "a100-80gb", 470),
    ("session-a100-80gb.535.261.03.txt", "a100-80gb", 535),
    ("session-a100-80gb.550.163.01.txt", "a100-80gb", 550),
    ("session-a30.550.163.01.txt", "a30-24gb", 550),
    ("session-h100.535.261.03.txt", "h100-80gb-sxm", 535),
    ("session-h100.550.163.01.txt", "h100-80gb-sxm", 550),
    ("real-a30.535.183.01.txt", "a30-24gb", 535),
    ("real-h100-nvl.560.35.03.txt", "h100-94gb", 560),
]


@pytest.mark.parametrize(("name", "key", "driver"), SESSIONS)
def test_the_catalogue_is_what_gpus_list(name, key, driver):
    lists = listing(named(name))
    assert set(lists) == {PROFILES.name, PLACEMENTS.name}
    table = board(key)
    mine, said = board_as_listed(seen(lists, driver=f"{driver}.1"), FIRST, table)
    assert said == ()
    assert (mine.memory_slices, mine.compute_slices) == (table.memory_slices, table.compute_slices)
    known = {p.name: p for p in table.profiles}
    for p in mine.profiles:
        documented = known[p.aliases[0] if p.aliases and p.name not in known else p.name]
        same = {"name": "", "aliases": (), "memory_gib": 0.0, "min_driver": None}
        assert replace(p, **same) == replace(documented, **same)
    assert len(mine.profiles) == len(known)


def test_r470_calls_the_whole_gpu_by_another_name_and_both_names_work():
    mine, said = board_as_listed(
        seen(listing(named("session-a100-80gb.470.256.02.txt")), driver="470.256.02"), FIRST, board("a100-80gb")
    )
    assert said == ()  # the catalogue knows the other name
    whole = mine.profile("7g.80gb")
    assert (whole.name, whole.vgpu_suffix) == ("7g.79gb", "7-80C")
    assert mine.profile("7g.79gb") is whole
    # too new for R470, so it is not listed; it stays known, with the driver it needs
    assert mine.profile("1g.20gb").min_driver == 510


@pytest.mark.parametrize(
    "lists",
    [
        {},
        {PROFILES.name: NOTHING, PLACEMENTS.name: NOTHING},
        {PROFILES.name: A100_550[PROFILES.name]},
        {PLACEMENTS.name: A100_550[PLACEMENTS.name]},
        {PROFILES.name: ProbeFailure("ssh.denied", "no")},
    ],
)
def test_without_a_listing_the_catalogue_holds(lists):
    found = boards_as_listed(seen(lists))
    table = board_of_device(A100)
    assert found == {pci: ListedBoard(table, table) for pci in PCI}


def test_a_gpu_nvidia_smi_does_not_show_is_as_documented():
    found = boards_as_listed(seen(A100_550, modes={FIRST: ON}))
    assert found[SECOND].board is found[SECOND].table
    assert found[FIRST].board.find_profile("1g.10gb").id == 19


@pytest.mark.parametrize("probe", [GPUS])
def test_a_state_that_cannot_be_read_is_somebody_elses_to_tell(probe):
    facts = host(ESX1, probes={**smi(BOTH_ON), **A100_550, probe.name: CommandOutput(9, "failed")})
    table = board_of_device(A100)
    assert boards_as_listed(facts) == {pci: ListedBoard(table, table) for pci in PCI}


@pytest.mark.parametrize("probe", [PROFILES, PLACEMENTS])
def test_a_listing_that_cannot_be_read_is_told_with_its_text(probe):
    found = boards_as_listed(seen({**A100_550, probe.name: CommandOutput(0, "a brand new\nformat\n")}))
    (line,) = found[FIRST].disagreements
    assert "a brand new / format" in line
    assert found[FIRST].board is board_of_device(A100)


def test_a_gpu_without_mig_is_not_bothered_with_listings():
    found = boards_as_listed(seen({PROFILES.name: CommandOutput(0, "new")}, device=0x1EB8))
    assert found[FIRST].disagreements == ()


def test_the_list_of_one_gpu_says_nothing_of_the_other():
    found = boards_as_listed(seen(A100_550, device=0x20B2))
    assert found[FIRST].disagreements == ()
    assert found[SECOND].board is found[SECOND].table


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("{0,4}:4", "{0,2,4}:4", "3g.40gb: the host lists starts 0,2,4, the catalogue 0,4"),
        ("{0,4}:4", "{0,4}:3", "3g.40gb: the host lists memory slices 3, the catalogue 4"),
        ("4g.40gb        5     1/1", "4g.40gb        5     2/2",
         "4g.40gb: the host lists instances at most 2, the catalogue 1"),
        ("4g.40gb ", "5g.50gb ", "the host lists 5g.50gb (id 5), which the catalogue does not have for a100-80gb"),
        ("4g.40gb ", "4g.45gb ", "4g.45gb: the host lists name 4g.45gb, the catalogue 4g.40gb"),
        ("+me    20", "+me    21", "1g.10gb+me: the host lists id 21, the catalogue 20"),
    ],
)  # fmt: skip
def test_what_the_host_lists_wins_and_the_difference_is_told(old, new, said):
    lists = changed(A100_550, old, new)
    if "21" in new:
        lists = changed(lists, "Profile ID 20", "Profile ID 21")
    mine, lines = board_as_listed(seen(lists), FIRST, board("a100-80gb"))
    assert said in lines
    if "starts" in said:
        assert mine.profile("3g.40gb").starts == (0, 2, 4)
    if new.startswith("5g"):
        assert set(lines) == {said, "the host does not list 4g.40gb (id 5), which the catalogue has for a100-80gb"}
        assert mine.profile("5g.50gb").compute_slices == 5
        assert mine.profile("5g.50gb").vgpu_suffix is None
        assert mine.find_profile("4g.40gb") is None


def test_an_unknown_board_becomes_usable_once_the_host_lists_it():
    facts = seen(A100_550, device=0x7777)
    mine, (line,) = board_as_listed(facts, FIRST, None)
    assert "the catalogue does not know NVIDIA A100-PCIE-40GB" in line
    assert (mine.key, mine.memory_slices, mine.compute_slices, mine.memory_gb) == ("nvidia-a100-pcie-40gb", 8, 7, 40)
    assert mine.mig_capable
    assert mine.profile("3g.40gb").starts == (0, 4)
    assert board_as_listed(seen({}, device=0x7777), FIRST, None) == (None, ())


def test_memory_nobody_knows_is_none_at_all():
    probes = {**smi(BOTH_ON), **A100_550}
    probes[GPUS.name] = CommandOutput(0, probes[GPUS.name].stdout.replace("40960", "[N/A]"))
    mine, _ = board_as_listed(host(ESX1, device=0x7777, probes=probes), FIRST, None)
    assert mine.memory_gb is None


def test_an_instance_of_a_profile_nobody_lists_is_known_all_the_same():
    here = [(0, "1g.11gb", 77, 7, "0:1"), (0, "1g.11gb", 77, 8, "1:1"), (0, "odd", 78, 9, "2:1")]
    mine, said = board_as_listed(seen({}, instances=here[:2]), FIRST, board("a100-40gb"))
    assert said == ()
    odd = mine.profile("1g.11gb")
    assert (odd.id, odd.compute_slices, odd.memory_slices, odd.starts, odd.max_instances) == (77, 1, 1, (0, 1), 2)
    with_me = board_as_listed(seen({}, instances=[(0, "9g.1gb", 1, 1, "0:1")]), FIRST, None)
    assert with_me == (None, ())


def test_ids_whose_meaning_differs():
    lists = changed(A100_550, "2g.20gb       14", "1g.20gb+x     14")
    found = boards_as_listed(seen(lists, device=0x20B2))[FIRST]
    documented, listed = found.other_meaning("14")
    assert (documented.name, listed.name) == ("2g.20gb", "1g.20gb+x")
    assert found.other_meaning("9") is None
    assert found.other_meaning("999") is None
    assert ListedBoard(None, board("t4-16gb")).other_meaning("9") is None
    assert ListedBoard(board("t4-16gb"), None).other_meaning("9") is None


def test_a_name_that_is_no_slice_count_has_no_compute_slices():
    lists = changed(A100_550, "MIG 4g.40gb", "MIG 4x.40gb")
    mine, _ = board_as_listed(seen(lists), FIRST, board("a100-80gb"))
    assert mine.profile("4x.40gb").compute_slices == 0


def test_a_different_driver_is_not_a_disagreement():
    old = listing(named("session-a100-40gb.470.256.02.txt"))
    assert board_as_listed(seen(old, driver="470.256.02"), FIRST, board("a100-40gb"))[1] == ()
    said = board_as_listed(seen(old, driver="550.1"), FIRST, board("a100-40gb"))[1]
    assert said == ("the host does not list 1g.10gb (id 15), which the catalogue has for a100-40gb",)
    # where the driver's version cannot be read nothing is excused
    assert board_as_listed(seen(old, driver="[N/A]"), FIRST, board("a100-40gb"))[1] == said


def test_modes_make_no_difference():
    assert boards_as_listed(seen(A100_550, modes=dict.fromkeys(PCI, OFF), device=0x20B2))[FIRST].disagreements == ()


@pytest.mark.parametrize("table", [b for b in boards() if b.profiles], ids=lambda b: b.key)
def test_a_board_that_lists_what_is_documented_never_disagrees(table):
    rows = "".join(
        f"| 0 MIG {p.name} {p.id} {p.max_instances}/{p.max_instances} {p.memory_gib or 1} No "
        f"{p.engines.sm or 1} {p.engines.dec or 0} {p.engines.enc or 0} |\n"
        f"| {p.engines.ce or 0} {p.engines.jpeg or 0} {p.engines.ofa or 0} |\n"
        for p in table.profiles
    )
    places = "".join(
        f"GPU 0 Profile ID {p.id} Placements: {{{','.join(map(str, p.starts))}}}:{p.memory_slices}\n"
        for p in table.profiles
    )
    lists = {PROFILES.name: CommandOutput(0, f"+--+\n|==|\n{rows}+--+\n"), PLACEMENTS.name: CommandOutput(0, places)}
    mine, said = board_as_listed(seen(lists, device=table.device_ids[0], driver="999.1"), FIRST, table)
    assert said == ()
    assert {p.name for p in mine.profiles} == {p.name for p in table.profiles}
    assert mine.verified


# -- boards of which the catalogue knows little


PRO_5000 = 0x2BB3
PRO_5000_LISTS = {
    PROFILES.name: CommandOutput(
        0,
        "+--+\n|==|\n"
        "| 0 MIG 1g.12gb 14 4/4 11.62 No 24 1 1 |\n| 1 1 0 |\n"
        "| 0 MIG 2g.24gb 5 2/2 23.50 No 48 1 1 |\n| 2 1 0 |\n"
        "| 0 MIG 4g.48gb 0 1/1 47.38 No 110 3 3 |\n| 4 1 1 |\n+--+\n",
    ),
    PLACEMENTS.name: CommandOutput(
        0,
        "GPU 0 Profile ID 14 Placements: {0,3,6,9}:3\nGPU 0 Profile ID 5 Placements: {0,6}:6\n"
        "GPU 0 Profile ID 0 Placement : {0}:12\n",
    ),
}


def test_a_board_with_names_only_is_whole_once_its_host_lists_it():
    table = board_of_device(PRO_5000)
    mine, (line,) = board_as_listed(seen(PRO_5000_LISTS, device=PRO_5000, driver="580.65.05"), FIRST, table)
    assert line == f"the catalogue has no placements of {table.title}; the host's own list is used"
    assert (mine.key, mine.named_profiles, mine.memory_slices, mine.compute_slices) == (table.key, (), 12, 4)
    assert mine.profile_names == ("1g.12gb", "2g.24gb", "4g.48gb")  # nothing of the table is added
    assert mine.profile(5).starts == (0, 6)
    assert mine.mig_capable


def test_what_stands_on_a_board_with_names_only_can_be_drawn():
    here = [(0, "1g.12gb", 14, 3, "3:3")]
    mine, said = board_as_listed(seen({}, device=PRO_5000, instances=here), FIRST, board_of_device(PRO_5000))
    assert said == ()
    assert (mine.profile_names[0], mine.memory_slices) == ("1g.12gb", 6)
    assert mine.named_profiles  # where another one may start is still not known
    told = transition(mine, (Instance("1g.12gb", 3, in_use=True),), layout.parse("1g.12gb,1g.12gb"))
    assert told.reasons[0].startswith("placements of this board are not published")


def named_by_host(*types, devices=(PRO_5000, PRO_5000), lists=PRO_5000_LISTS):
    facts = host(
        ESX1,
        probes={**smi(BOTH_ON, driver="580.1"), **lists},
        hardware__pciDevice=tuple(pci_device(p, d) for p, d in zip(PCI, devices, strict=True)),
        config__sharedPassthruGpuTypes=types,
    )
    return boards_as_listed(facts)


def test_a_host_names_the_vgpus_of_a_board_the_catalogue_has_no_names_of():
    types = (
        "NVIDIA_rtx_pro_5000_blackwell-4-48q",
        "nvidia_rtx_pro_5000_blackwell-1-12q",
        "grid_a100-3-20c",
        "SomeFPGA",
    )
    mine = named_by_host(*types)[FIRST].board
    assert mine.vgpu_names == ("nvidia_rtx_pro_5000_blackwell",)
    assert vgpu.mig_profile(mine, vgpu.parse(types[1])).name == "1g.12gb"
    assert named_by_host()[FIRST].board.vgpu_names == ()
    # an A100 beside it has names of its own
    both = named_by_host(*types, devices=(PRO_5000, A100))
    assert both[FIRST].board.vgpu_names == ("nvidia_rtx_pro_5000_blackwell",)
    assert both[SECOND].board is board_of_device(A100)


def test_with_two_boards_without_names_nobody_knows_whose_they_are():
    name = "nvidia_rtx_pro_5000_blackwell-1-12q"
    for other in (0x31C2, 0x7777):
        assert named_by_host(name, devices=(PRO_5000, other))[FIRST].board.vgpu_names == ()


def test_an_unknown_board_is_as_large_as_the_largest_vgpu_its_host_lists():
    found = named_by_host("nvidia_x9-47c", "nvidia_x9-1-5c", devices=(0x7777, A100), lists=A100_550)
    assert (found[FIRST].board.memory_gb, found[FIRST].board.vgpu_names) == (47, ("nvidia_x9",))
