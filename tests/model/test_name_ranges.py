"""Names folded to ranges: exactly the names that were given, in a time that grows with their number, and whole."""

from __future__ import annotations

import json
import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.growing import Calls, exponent

from vsphere_ai.language.inventories.patterns import MAX_NAMES, expand
from vsphere_ai.model.names.name_ranges import MOST, fold, listed, quoted, shell_word
from vsphere_ai.model.text import safe


def unfolded(terms):
    """What the terms stand for, read by the language of patterns."""
    return sorted(name for t in terms for name in ((json.loads(t),) if t.startswith('"') else expand(t)))


NUMBERED = st.builds(
    lambda stem, number, width, end: f"{stem}{number:0{width}}{end}",
    st.sampled_from(["train-", "esx", "", "r1-n", "vm 7 ", "[a]", "a:"]),
    st.integers(0, 1200),
    st.integers(0, 4),
    st.sampled_from(["", ".lab.local", "-b02", "x[1:3]"]),
)
ANYTHING = st.text(max_size=12) | st.text(alphabet='019[]:,!&*-"\n\x1b\u202eé ', max_size=8)


@settings(max_examples=400, deadline=None)
@given(st.lists(NUMBERED | ANYTHING, max_size=60))
def test_terms_stand_for_exactly_these_names(names):
    assert unfolded(fold(names)) == sorted(set(names))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=150))
def test_names_of_two_numbers_too(pairs):
    names = [f"rack{a:02}-node{b}" for a, b in pairs]
    assert unfolded(fold(names)) == sorted(set(names))


@settings(max_examples=100, deadline=None)
@given(st.lists(NUMBERED | ANYTHING, max_size=40), st.randoms())
def test_the_order_in_which_names_come_does_not_count(names, shuffler):
    other = names * 2
    shuffler.shuffle(other)
    assert fold(other) == fold(names)


def test_numbers_of_one_value_have_an_order():
    assert fold(["00", "0", ""]) == fold(["", "0", "00"])


@settings(max_examples=200, deadline=None)
@given(st.lists(NUMBERED | ANYTHING, min_size=1, max_size=20))
def test_no_term_drives_a_terminal_and_a_shell_takes_it_quoted(names):
    terms = fold(names)
    assert [term for term in terms if safe(term) != term] == []
    assert shlex.split(" ".join(map(shlex.quote, terms))) == list(terms)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([f"train-{n:03}" for n in range(1, 257)], "train-[001:256]"),
        (["b", "a", "b"], "a, b"),
        (["t-1", "t-2"], "t-1, t-2"),
        (["t-1", "t-2", "t-3"], "t-[1:3]"),
        ([f"t-{n}" for n in range(8, 12)], "t-[8:11]"),
        ([f"t-{n:02}" for n in range(8, 12)], "t-[08:11]"),
        (["t-08", "t-9", "t-10", "t-11"], "t-08, t-[9:11]"),
        ([f"t-{n:02}" for n in range(98, 103)], "t-[98:102]"),
        ([f"t-0{n}" for n in range(98, 103)], "t-098, t-099, t-[0100:0102]"),
        ([f"esx{n:02}.lab" for n in (1, 2, 3, 5, 7, 8, 9)], "esx[01:03].lab, esx05.lab, esx[07:09].lab"),
        ([f"r{r}-n{n:02}" for r in (1, 2, 3) for n in range(1, 17)], "r[1:3]-n[01:16]"),
        ([f"gpu-{n}-a100" for n in range(1, 5)], "gpu-[1:4]-a100"),
        (["a,b", "a\nb", "\x1b[2J"], '"\\u001b[2J", "a\\nb", "a,b"'),
        (["all", "x[1:2]", "-rf", ""], '"", "-rf", "all", "x[1:2]"'),
        (["9" * 30 + str(n) for n in range(3)], ", ".join("9" * 30 + str(n) for n in range(3))),
    ],
)  # fmt: skip
def test_as_an_operator_writes_them(names, words):
    assert listed(names) == words


def test_no_term_stands_for_more_names_than_a_pattern_may():
    assert MOST == MAX_NAMES
    terms = fold([f"r{a:02}-vm{b:05}" for a in range(1, 13) for b in range(1, 1001)])
    assert max(len(expand(term)) for term in terms) <= MAX_NAMES
    many = fold([f"vm{n:05}" for n in range(25_000)])
    assert len(many) == 3
    assert sum(len(expand(term)) for term in many) == 25_000


@pytest.mark.parametrize(
    "name_of",
    [
        lambda n: f"train-{n:05}",
        lambda n: f"a{n * 7919 % 10_007}-{n % 13}-{n % 17:02}-{n % 19}",
        lambda n: f"vm {n} [x]",
        lambda n: f"{n % 40:02}" * 8,
        lambda n: f"t{2 * n:06}",
    ],
    ids=["row", "three numbers", "hostile", "eight numbers", "every second"],
)
def test_the_work_grows_with_the_number_of_names(name_of):
    sizes, counts = (500, 1000, 2000, 4000), []
    for size in sizes:
        names = [name_of(n) for n in range(size)]
        with Calls() as calls:
            fold(names)
        counts.append(calls.count)
    assert exponent(sizes, counts) < 1.1


def test_a_quoted_term_reaches_a_command_as_it_is():
    term = listed(f"train-{n:03}" for n in range(1, 4))
    done = subprocess.run(["sh", "-c", f"printf %s {shlex.quote(term)}"], capture_output=True, text=True, check=True)
    assert done.stdout == "train-[001:003]"
    assert quoted("train-001") == "train-001"


@settings(max_examples=60, deadline=None)
@given(st.lists(ANYTHING.filter(lambda name: "\0" not in name), min_size=1, max_size=12))
def test_a_name_in_a_hint_reaches_the_command_whole(names):
    words = " ".join(shell_word(name) for name in names)
    assert safe(words) == words
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {words}"], capture_output=True, check=True)
    assert done.stdout.split(b"\0")[:-1] == [name.encode() for name in names]
