"""Listings that contradict each other are refused; every real one agrees with itself."""

from __future__ import annotations

import pytest
from gpu_transcripts import FILES, calls
from support.estates import ESX1, OFF, ON, PCI, host, smi

from vsphere_ai.gpu.smi import live
from vsphere_ai.gpu.smi.listing_checks import check
from vsphere_ai.gpu.smi.listings import (
    GpuStatus,
    UnreadableOutput,
    parse_compute_instances,
    parse_instances,
    parse_profiles,
)
from vsphere_ai.model.facts import CommandOutput

FIRST, SECOND = PCI
CUT = [(0, "3g.20gb", 9, 2, "4:4"), (1, "1g.5gb", 19, 7, "0:1"), (0, "1g.5gb", 19, 8, "1:1")]


def refused(probes):
    with pytest.raises(UnreadableOutput) as error:
        live.live(host(ESX1, probes=probes))
    assert live.readable(host(ESX1, probes=probes)).gpus == ()
    assert "plan again" in error.value.remedy
    assert error.value.message.startswith("nvidia-smi contradicts itself: ")
    return error.value.message.removeprefix("nvidia-smi contradicts itself: ")


def both(*instances):
    return smi(dict.fromkeys(PCI, ON), [*CUT, *instances])


def changed(probe, *edits):
    probes = both()
    text = probes[probe.name].stdout
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    return {**probes, probe.name: CommandOutput(0, text)}


def with_profiles(free):
    row = f"|   0  MIG 3g.20gb        9     {free}/2        19.50      No     42     2     0   |\n"
    more = "|                                                          3     0     0   |\n"
    return {**both(), live.PROFILES.name: CommandOutput(0, f"| GPU instance profiles: |\n|====|\n{row}{more}+---+\n")}


def test_what_agrees_is_read():
    assert live.live(host(ESX1, probes=both())) is not None
    assert live.live(host(ESX1, probes=with_profiles(1))) is not None


@pytest.mark.parametrize(
    ("probes", "message"),
    [
        (both(CUT[1]), "GPU instance 7 of GPU 1 is listed twice"),
        (both((0, "1g.5gb", 19, 9, "5:1")), "GPU instance 2 and GPU instance 9 of GPU 0 stand on the same slice 5"),
        (
            changed(live.COMPUTE, ("|  0  2  MIG", "|  0  5  MIG")),
            "compute instance 0 of GPU 0 is in GPU instance 5, which is not listed",
        ),
        (
            changed(live.COMPUTE, ("|  0  8  MIG", "|  0  2  MIG")),
            "compute instance 0 of GPU instance 2 of GPU 0 is listed twice",
        ),
        (
            changed(live.COMPUTE, ("|  0  8  MIG 1g.5gb  0  0", "|  0  2  MIG 1g.5gb  0  1")),
            "compute instance 0 and compute instance 1 of GPU instance 2 of GPU 0 stand on the same slice 0",
        ),
        (changed(live.GPUS, (f"1, 0000{SECOND}", "0, 00000000:86:00.0")), "GPU 0 is listed twice"),
        (changed(live.GPUS, (f"1, 0000{SECOND}", f"1, 0000{FIRST}")), f"GPU at {FIRST} is listed twice"),
        (smi({FIRST: OFF, SECOND: ON}, CUT), "it lists GPU instances of GPU 0, whose MIG mode is off"),
        (with_profiles(2), "GPU 0 holds 1 of 3g.20gb with room for 2 more, of 2 in all"),
    ],
)
def test_what_one_driver_cannot_mean(probes, message):
    assert message in refused(probes)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_real_listings_agree_with_themselves(path):
    """In the order of a session: the last listing of each kind belongs together until something changes."""
    seen = {"-lgi": (), "-lci": (), "-lgip": ()}
    readers = {"-lgi": parse_instances, "-lci": parse_compute_instances, "-lgip": parse_profiles}
    for call in calls(path):
        words = call.argv.split()
        verb = next((w for w in words if w in readers), None)
        if verb is None or any(w in words for w in ("-cgi", "-dgi", "-cci", "-dci", "-i")):
            seen = {"-lgi": (), "-lci": (), "-lgip": ()}  # it changed something, or shows a part only
            continue
        try:
            seen[verb] = readers[verb](call.status, call.stdout)
        except UnreadableOutput:
            continue
        if verb == "-lgi":
            seen["-lgip"] = seen["-lci"] = ()  # an excerpt may leave out what changed since
        gpus = {one.gpu for listed in seen.values() for one in listed}
        status = [GpuStatus(n, f"0000:{n:02x}:00.0", "A100", f"GPU-{n}", True, True, None, "550") for n in gpus]
        check(status, seen["-lgi"], seen["-lci"] if seen["-lgi"] else (), seen["-lgip"] if seen["-lgi"] else ())
