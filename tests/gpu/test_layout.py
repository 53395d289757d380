import re
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from gpu_transcripts import FOLDER, calls

from vsphere_ai.gpu.catalog import board
from vsphere_ai.gpu.mig.layout import LayoutError, LayoutItem, parse, parse_item


@pytest.mark.parametrize(
    ("token", "item"),
    [
        ("3g.20gb", LayoutItem("3g.20gb")),
        ("MIG 3g.20gb", LayoutItem("3g.20gb")),
        ("MIG 3g.20gb:4", LayoutItem("3g.20gb", 4)),
        ("1g.5gb+me:2", LayoutItem("1g.5gb+me", 2)),
        ("1g.24gb-me", LayoutItem("1g.24gb-me")),
        ("2g.48gb+me.all:6", LayoutItem("2g.48gb+me.all", 6)),
        (9, LayoutItem("9")),
        ("0:0", LayoutItem("0", 0)),
        (" 9:4 ", LayoutItem("9", 4)),
    ],
)
def test_tokens(token, item):
    assert parse_item(token) == item


@pytest.mark.parametrize(
    ("token", "help_"),
    [
        ("19:", "start after ':'"),
        ("19:x", "start after ':'"),
        ("19:2x", "start after ':'"),
        ("9:-4", "start after ':'"),
        ("9:04", "start after ':'"),
        ("09", "write a name"),
        ("+9", "write a name"),
        ("9 :4", "no blanks"),
        ("3G.20GB", "write 3g.20gb"),
        ("mig 3g.20gb", "write 3g.20gb"),
        ("", "comma too many"),
        (-9, "write a name"),
        (True, "comma too many"),
        (2.5, "comma too many"),
        ("3g", "3 compute slices"),
        ("1c.3g.20gb", "a compute instance of 1 compute slice in a GPU instance 3g.20gb: write 3g.20gb"),
        ("3g.20gb:4:4", "write 3g.20gb:4"),
        ("9;reboot", "write a name"),
        ("\u0669", "write a name"),
    ],
)
def test_what_nvidia_smi_would_misread_is_refused_by_name(token, help_):
    with pytest.raises(LayoutError) as error:
        parse_item(token)
    assert repr(token) in error.value.message
    assert help_ in error.value.remedy


def test_nvidia_smi_agrees_with_every_token_we_take():
    a100 = board("a100-40gb")
    judged = 0
    for call in calls(FOLDER / "argument-parsing.550.163.01.txt"):
        token = re.search(r'-cgi "(.*)"', call.argv)[1]
        try:
            items = parse(token)
        except LayoutError:
            continue
        for item in items:
            profile = a100.find_profile(item.profile)
            made = profile is not None and f"(ID {profile.id:>2})" in call.stdout
            assert made == ("Successfully" in call.stdout)
            judged += 1
    assert judged >= 5


@pytest.mark.parametrize(
    "text",
    [
        "19,14,9",
        "19, 14, 9",
        "-cgi 19,14,9 -C",
        "nvidia-smi mig -i 0 -cgi 19,14,9 -C",
        "sudo nvidia-smi mig --id 00000000:3B:00.0 --create-gpu-instance 19,14,9 --default-compute-instance",
        "nvidia-smi mig -C -cgi '19,14,9'",
        ["19", 14, "9"],
    ],
)
def test_lists_and_pasted_commands(text):
    assert parse(text) == (LayoutItem("19"), LayoutItem("14"), LayoutItem("9"))


def test_a_name_with_a_blank_in_an_unquoted_command():
    assert parse("nvidia-smi mig -i 0 -cgi MIG 3g.20gb,2g.10gb:0 -C") == (
        LayoutItem("3g.20gb"),
        LayoutItem("2g.10gb", 0),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ([], "empty"),
        ("9,,19", "''"),
        ("9,", "''"),
        ("nvidia-smi mig -i 0 -lgi", "'-lgi'"),
        ("nvidia-smi mig -cgi 9 -dgi", "'-dgi'"),
        ("nvidia-smi mig -cgi 9 -C -x", "'-x'"),
        ("nvidia-smi mig -cgi 9 -C -cgi 5", "twice"),
        ("nvidia-smi mig -C", "creates no"),
        ("nvidia-smi mig -cgi", "empty"),
        ("nvidia-smi -cgi '9", "cannot be read"),
        ("rm -rf /", "'rm'"),
        (["9"] * 65, "65 items"),
    ],
)
def test_lists_that_are_no_layout(text, said):
    with pytest.raises(LayoutError) as error:
        parse(text)
    assert said in error.value.message
    assert error.value.exit_code == 64


@settings(deadline=None, derandomize=True)
@given(st.from_regex(r"([1-7]g\.[1-9][0-9]?gb(\+me)?|[1-9][0-9]?)", fullmatch=True), st.none() | st.integers(0, 99))
def test_an_item_reads_as_it_is_written(profile, start):
    item = LayoutItem(profile, start)
    assert parse(str(item)) == (item,)


@settings(deadline=None, derandomize=True)
@given(st.text(max_size=40) | st.text(alphabet="0123456789g.b:,-+ cgimeC'\"", max_size=40))
def test_any_text_is_a_layout_or_a_clear_error(text):
    try:
        items = parse(text)
    except LayoutError:
        return
    assert items
    assert all(parse_item(str(item)) == item for item in items)
