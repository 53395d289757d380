"""Verdicts of burns: losses compared bit for bit, pace, and what nvidia-smi showed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsphere_ai.benchmarks.checks import is_passed
from vsphere_ai.benchmarks.programs.burn import Burned, BurnReport, Sample, agreed, judge, read_report, samples_in

CONFIGURATION = {"torch": "2.4.0", "gpu": "A100", "seed": 1}
SOUND = Sample(1410, 1410, 389, 68, 0)


def report(digest="aa", **more):
    values = {"configuration": CONFIGURATION, "at": 1500.0, "cycles": 100, "steps": 20000, "first": digest}
    return BurnReport(**{**values, "digests": {digest: 100}, "end": True, **more})


def burned(*reports, samples=(SOUND,)):
    return [
        Burned(f"trn-{n:02}", 0, f"esx{n:02}", "0000:3b:00.0", each, samples, "host")
        for n, each in enumerate(reports, 1)
    ]


def rules(found):
    return [[c.rule for c in each.checks] for each in found]


def test_sound_gpus_pass_and_what_they_agree_on_is_kept():
    gpus = burned(report(), report(), report())
    found = judge(gpus, {})
    assert rules(found) == [[], [], []]
    assert list(agreed(gpus).values()) == [("aa", 3)]
    assert agreed(burned(report())) == {}


def test_one_wrong_bit_among_several_is_named_and_among_two_it_is_not_known_which():
    found = judge(burned(report(), report("ab"), report()), {})
    assert rules(found) == [[], ["burn.differs"], []]
    assert "2 GPUs" in found[1].checks[0].message
    both = judge(burned(report(), report("ab")), {})
    assert rules(both) == [["burn.no-majority"], ["burn.no-majority"]]
    assert "trn-02 (esx02, 0000:3b:00.0)" in both[0].checks[0].message
    assert not any(is_passed(each.checks) for each in both)


def test_an_earlier_burn_of_exactly_the_same_configuration_decides():
    earlier = {report().key: {"aa": 4}}
    assert rules(judge(burned(report("ab")), earlier)) == [["burn.differs"]]
    assert rules(judge(burned(report()), earlier)) == [[]]
    newer = report("ab", configuration={**CONFIGURATION, "torch": "2.5.0"})
    assert rules(judge(burned(newer), earlier)) == [["burn.alone"]]


def test_a_gpu_that_differs_from_itself_is_corrupt_and_has_no_vote():
    bad = report(digests={"aa": 90, "ab": 10}, differs={"cycle": 7, "step": 57, "expected": "3e00", "found": "3e01"})
    found = judge(burned(bad, report("ac"), report("ac")), {})
    assert rules(found) == [["burn.corrupt"], [], []]
    assert "10 of 100 cycles" in found[0].checks[0].message
    assert "cycle 7 at step 57 (3e01, not 3e00)" in found[0].checks[0].message


def test_other_software_is_not_compared_and_is_said():
    other = report("zz", configuration={**CONFIGURATION, "torch": "2.5.0"})
    found = judge(burned(report(), report(), other), {})
    assert rules(found) == [[], [], ["burn.alone", "burn.configuration"]]
    assert "torch 2.5.0, elsewhere 2.4.0" in found[2].checks[1].message


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        (None, "burn.not-measured"),
        (BurnReport(refused="No module named 'torch'"), "burn.refused"),
        (report(end=False), "burn.not-measured"),
        (report(configuration={}), "burn.not-measured"),
        (report(first=""), "burn.not-measured"),
        (report(finite=False), "burn.not-finite"),
    ],
)
def test_what_was_not_measured_is_no_pass(given, rule):
    found = judge(burned(given, report(), report()), {})
    assert rules(found)[0] == [rule]
    assert not is_passed(found[0].checks)


def test_pace_against_the_others_and_against_its_own_beginning():
    slow = report(steps=17000)
    assert rules(judge(burned(report(), report(), slow), {})) == [[], [], ["burn.slow"]]
    assert rules(judge(burned(report(), slow), {})) == [[], []], "two GPUs have no median"
    fading = report(pace=[14.0] * 15 + [12.0] * 10)
    assert rules(judge(burned(report(), fading), {})) == [[], ["burn.fading"]]


@pytest.mark.parametrize(
    ("samples", "found"),
    [
        ((), ["burn.no-samples"]),
        ((Sample(1410, 1410, None, None, None),), ["burn.no-samples"]),
        ((SOUND, Sample(987, 1410, 250, 93, 0x40)), ["burn.throttled"]),
        ((SOUND, Sample(1300, 1410, 400, 70, 0x4)), ["burn.power-cap"]),
        ((SOUND, Sample(1410, 1410, 400, 70, 0x1)), []),
    ],
)
def test_clocks_heat_and_throttling(samples, found):
    (one, _) = judge(burned(report(), report(), samples=samples), {})
    assert [c.rule for c in one.checks] == found
    if found == ["burn.throttled"]:
        assert "thermal slowdown in 1 of 2 samples (93 °C, 987 MHz)" in one.checks[0].message


def test_the_last_report_of_a_log_counts_and_samples_are_by_address():
    lines = ["noise", f"burn: {json.dumps({'cycles': 1})}", f"burn: {json.dumps({'cycles': 2, 'new': 1})}", "burn: {"]
    assert read_report(lines).cycles == 2
    assert read_report(["burn: []", "x" * 100 + "burn: {}", "burn: " + " " * 20000 + "{}"]) is None
    text = "00000000:3B:00.0, 1410, 1410, 389.40, 68, 0x0000000000000001\n00000000:86:00.0, [N/A], x, , , \nshort, 1\n"
    found = samples_in(text)
    assert found["0000:3b:00.0"] == Sample(1410, 1410, 389.4, 68, 1)
    assert found["0000:86:00.0"] == Sample()


@given(st.lists(st.text(max_size=200)), st.integers(0, 300))
def test_no_log_stops_the_reader(lines, cut):
    whole = f"burn: {report().model_dump_json()}"
    read_report([*lines, *(f"{whole[:cut]}{line}{whole[cut:]}" for line in lines)])
    assert read_report([whole]) == report()
