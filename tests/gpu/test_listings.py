import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from gpu_transcripts import FILES, calls, listings

from vsphere_ai.gpu.catalog import board
from vsphere_ai.gpu.mig.search import Instance as Placed
from vsphere_ai.gpu.mig.search import mask_of, room, spots
from vsphere_ai.gpu.smi import listings as parsers
from vsphere_ai.gpu.smi.listings import UnreadableOutput

BOARDS = {
    "a100-80gb": "a100-80gb",
    "a100-40gb": "a100-40gb",
    "a30": "a30-24gb",
    "h100-nvl": "h100-94gb",
    "h100": "h100-80gb-sxm",
    "h200": "h200-141gb",
}


def board_of(call):
    return board(next((key for name, key in BOARDS.items() if name in call.file), "a100-40gb"))


@pytest.mark.parametrize("call", listings("-lgi"), ids=str)
def test_instances_of_every_transcript_are_legal_on_its_board(call):
    found = parsers.parse_instances(call.status, call.stdout)
    b = board_of(call)
    assert len(found) == call.stdout.count(" MIG ")
    for gpu in {i.gpu for i in found}:
        here = [i for i in found if i.gpu == gpu]
        taken = [s for i in here for s in range(i.start, i.start + i.size)]
        assert len(taken) == len(set(taken))
        for i in here:
            profile = b.profile(i.profile_name)
            if i.size == 8 and i.profile_id == 0 and "guide" in call.file:
                continue  # inside a guest the instance shows as profile 0 with the whole width
            assert (profile.id, profile.memory_slices) == (i.profile_id, i.size)
            assert i.start in profile.starts


@pytest.mark.parametrize("call", listings("-lci"), ids=str)
def test_compute_instances_of_every_transcript(call):
    found = parsers.parse_compute_instances(call.status, call.stdout)
    assert len(found) == call.stdout.count(" MIG ")
    for i in found:
        assert i.start is not None
        assert board_of(call).find_profile(i.profile_name.removeprefix("1c.")) is not None


@pytest.mark.parametrize("call", listings("-lgip"), ids=str)
def test_listed_profiles_are_those_of_the_catalogue(call):
    for p in parsers.parse_profiles(call.status, call.stdout):
        known = board_of(call).profile(p.name)
        assert (known.id, known.max_instances, known.engines) == (p.id, p.total, p.engines)
        assert p.free <= p.total
        # R450 counts memory a little differently, so do real boards with and without ECC.
        assert known.memory_gib == pytest.approx(p.memory_gib, rel=0.05)


@pytest.mark.parametrize("call", listings("-lgipp"), ids=str)
def test_listed_placements_are_those_of_the_catalogue(call):
    for p in parsers.parse_placements(call.status, call.stdout):
        known = board_of(call).profile(p.profile_id)
        assert (known.starts, known.memory_slices) == (p.starts, p.size)


@pytest.mark.parametrize("name", ["real-h100-sxm.580.173.02.txt", "real-h200.580.173.02.txt"])
def test_free_column_of_real_gpus_agrees_with_our_arithmetic(name):
    gi, _, profiles = calls(next(p for p in FILES if p.name == name))
    b = board_of(gi)
    present = [Placed(i.profile_name, i.start) for i in parsers.parse_instances(0, gi.stdout)]
    largest_first = sorted(b.profiles, key=lambda p: (-p.memory_slices, -p.compute_slices, p.id))
    ours = {p.name: n for p, n in zip(largest_first, room(b, mask_of(spots(b, present))), strict=True)}
    assert ours == {p.name: p.free for p in parsers.parse_profiles(0, profiles.stdout)}


def test_every_kind_of_listing_is_covered_by_transcripts():
    for option, least in (("-lgi", 20), ("-lci", 8), ("-lgip", 10), ("-lgipp", 6)):
        assert len(listings(option)) >= least


PARSERS = [
    parsers.parse_gpus,
    parsers.parse_instances,
    parsers.parse_compute_instances,
    parsers.parse_profiles,
    parsers.parse_placements,
]


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize(
    ("status", "text"),
    [
        (6, "No MIG-enabled devices found.\n"),
        (0, "No MIG-enabled devices found.\n"),
        (6, "No GPU instances found: Not Found\n"),
        (6, "No compute instances found: Not Found\n"),
        (6, "No devices were found\n"),
        (0, "No MIG-enabled devices found.\nWARNING: infoROM is corrupted at gpu 0000:3B:00.0\n"),
    ],
)
def test_nothing_found_is_empty_whatever_the_exit_status(parser, status, text):
    assert parser(status, text) == ()


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize(
    ("status", "text", "said"),
    [
        (
            9,
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
            "ended with 9 (driver not",
        ),
        (127, "sh: nvidia-smi: not found", "sh: nvidia-smi: not found"),
        (0, "", "(no output)"),
        (0, "something new", "something new"),
        (77, "odd", "ended with 77: odd"),
    ],
)
def test_anything_else_is_an_error_with_the_text(parser, status, text, said):
    with pytest.raises(UnreadableOutput) as error:
        parser(status, text)
    assert said in error.value.message
    assert error.value.exit_code == 6


QUERY = "0, 00000000:3B:00.0, NVIDIA A100-PCIE-40GB, GPU-1, Disabled, Enabled, 40960, 535.154.05\n"


def test_query_of_gpus():
    assert parsers.parse_gpus(0, QUERY) == (
        parsers.GpuStatus(0, "0000:3b:00.0", "NVIDIA A100-PCIE-40GB", "GPU-1", False, True, 40960, "535.154.05"),
    )
    assert parsers.parse_gpus(0, QUERY)[0].driver_major == 535


def test_query_with_header_units_and_a_gpu_without_mig():
    text = (
        "index, pci.bus_id, name, uuid, mig.mode.current, mig.mode.pending, memory.total [MiB], driver_version\n"
        "1, 00000000:D8:00.0, Tesla T4, GPU-2, [N/A], [N/A], 15360 MiB, [N/A]\n"
    )
    (gpu,) = parsers.parse_gpus(0, text)
    assert (gpu.mig_current, gpu.mig_pending, gpu.memory_mib, gpu.driver_major) == (None, None, 15360, None)


@pytest.mark.parametrize(
    "text",
    [
        "0, 00000000:3B:00.0, A100\n",
        QUERY.replace("0, 0", "x, 0", 1),
        QUERY.replace("3B", "zz"),
    ],
)
def test_damaged_query_lines_are_refused(text):
    with pytest.raises(UnreadableOutput):
        parsers.parse_gpus(0, text)


WORKING = QUERY.replace("0, 0", "1, 0", 1).replace("3B", "5E").replace("GPU-1", "GPU-2")


@pytest.mark.parametrize(
    ("status", "row", "fault", "mode"),
    [
        (0, QUERY.replace("Disabled, Enabled", "[GPU is lost], [GPU is lost]"), "GPU is lost", None),
        (0, QUERY.replace("40960", "[Unknown Error]"), "Unknown Error", False),
        (0, QUERY.replace("GPU-1", "[GPU requires reset]"), "GPU requires reset", False),
        (0, QUERY.replace("Enabled", "Perhaps"), "its MIG mode is shown as 'Perhaps'", False),
        (0, QUERY.replace("40960", "[Insufficient Permissions]"), "", False),
        (15, "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot the system to recover"
             " this GPU\n", "GPU is lost.  Reboot the system to recover this GPU", None),
        (255, "Unable to determine the device handle for GPU0: 0000:3B:00.0: Unknown Error\n", "Unknown Error", None),
        (255, "Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error\n", "Unknown Error", None),
        (0, QUERY.replace("0, 0", "[Unknown Error], 0", 1), "Unknown Error", False),
    ],
)  # fmt: skip
def test_a_gpu_in_trouble_leaves_the_others_readable(status, row, fault, mode):
    found = {gpu.pci: gpu for gpu in parsers.parse_gpus(status, row + WORKING)}
    assert (found["0000:3b:00.0"].fault, found["0000:3b:00.0"].mig_current) == (fault, mode)
    assert found["0000:5e:00.0"] == parsers.parse_gpus(0, WORKING)[0]


def test_the_domain_of_a_lost_gpus_address_is_not_its_number():
    text = "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.\n"
    lost = next(gpu for gpu in parsers.parse_gpus(15, text + WORKING) if gpu.pci == "0000:3b:00.0")
    assert lost.index is None


def test_a_host_with_a_lost_gpu_alone_is_an_error_with_the_text():
    text = "Unable to determine the device handle for GPU 0000:3B:00.0: Unknown Error\n"
    with pytest.raises(UnreadableOutput, match="device handle"):
        parsers.parse_gpus(255, text)


def test_unknown_memory_is_none():
    for text in ("[N/A]", "0"):
        assert parsers.parse_gpus(0, QUERY.replace("40960", text))[0].memory_mib is None


def test_old_listing_of_compute_instances_without_placement():
    text = "+--+\n| GPU |\n|====|\n|   0      1       MIG 3g.20gb          2         0     |\n+--+\n"
    (one,) = parsers.parse_compute_instances(0, text)
    assert (one.gi_id, one.ci_id, one.profile_id, one.start, one.size) == (1, 0, 2, None, None)


@pytest.mark.parametrize(
    "body",
    [
        "|   0  MIG 1g.5gb     19     7/7        4.95       No     14     0     0   |",
        "|   1     0     0   |",
        "| 0 MIG |",
    ],
)
def test_half_a_profile_is_refused(body):
    with pytest.raises(UnreadableOutput):
        parsers.parse_profiles(0, f"+--+\n|====|\n{body}\n+--+\n")


def test_a_table_without_rule_is_refused():
    with pytest.raises(UnreadableOutput):
        parsers.parse_instances(0, "| 0 MIG 1g.5gb 19 13 6:1 |\n")


numbers = st.integers(0, 999)
names = st.from_regex(r"[1-7]g\.[1-9][0-9]{0,2}gb(\+me|\+gfx|\+me\.all|-me)?", fullmatch=True)
blanks = st.integers(1, 12)
rows = st.lists(st.tuples(numbers, names, numbers, numbers, numbers, numbers), min_size=1, max_size=9)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(rows, blanks, blanks)
def test_columns_may_be_anywhere(listed, wide, narrow):
    lines = ["+---+", "| GPU instances: |", "|=====|"]
    for gpu, name, profile, gi, start, size in listed:
        gap = " " * wide
        lines += [f"|{gap}{gpu}{gap}MIG {name}{' ' * narrow}{profile}{gap}{gi}{gap}{start}:{size}{gap}|", "+----+"]
    found = parsers.parse_instances(0, "\n".join(lines))
    assert [(i.gpu, i.profile_name, i.profile_id, i.gi_id, i.start, i.size) for i in found] == listed


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.text(max_size=120) | st.text(alphabet="|+-= MIG0123456789.:gb/{}\n,", max_size=160), st.sampled_from([0, 6]))
def test_no_text_makes_a_parser_fall_over(text, status):
    for parser in PARSERS:
        try:
            found = parser(status, text)
        except UnreadableOutput:
            continue
        assert isinstance(found, tuple)
