"""`nvidia-smi vgpu -q`: which VM holds which GPU instance, its licence and guest driver."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.estates import ESX1, ON, PCI, estate, gpu_info, guest, host, smi, vm
from support.raising import refused

from vsphere_ai.gpu.smi import live
from vsphere_ai.gpu.smi.listings import UnreadableOutput
from vsphere_ai.gpu.smi.running import RunningVgpu, parse_running
from vsphere_ai.model.facts import CommandOutput, ProbeFailure

CAPTURED = (Path(__file__).parent / "fixtures" / "vgpu-q-t4.txt").read_text("utf-8")
FIRST, SECOND = PCI
BOTH_ON = dict.fromkeys(PCI, ON)
CUT = [(0, "3g.20gb", 9, 2, "4:4"), (0, "1g.5gb", 19, 8, "1:1"), (1, "1g.5gb", 19, 7, "0:1")]


def listing(*vgpus, gpus=PCI):
    """Return such a listing: vGPUs as (GPU, VM, GPU instance, licence, guest driver)."""
    text = ""
    for pci in gpus:
        here = [v for v in vgpus if v[0] == pci]
        text += f"GPU 0000{pci.upper()}\n    Active vGPUs                          : {len(here)}\n"
        for number, (_, name, gi, licence, driver) in enumerate(here):
            text += f"    vGPU ID                               : {3251634327 + number}\n"
            text += f"        VM ID                             : {2103066 + number}\n"
            text += f"        VM Name                           : {name}\n"
            text += "        vGPU Name                         : GRID A100-1-5C\n"
            text += f"        Guest Driver Version              : {driver}\n"
            text += f"        License Status                    : {licence}\n"
            text += f"        GPU Instance ID                   : {gi}\n"
            text += "        FB Memory Usage\n            Total                         : 5120 MiB\n"
    return text


def answered(text, *, shown=("train-01",), gpu=FIRST, cut=CUT):
    """Return a host on which vCenter shows VMs on a GPU, with what nvidia-smi lists."""
    refs = {f"train-{n:02d}": vm(n).ref for n in range(1, 9)}
    info = tuple(gpu_info(p, "sharedDirect", vms=[refs[n] for n in shown] if p == gpu else ()) for p in PCI)
    probes = {**smi(BOTH_ON, cut), live.RUNNING.name: CommandOutput(0, text) if isinstance(text, str) else text}
    return host(ESX1, active="sharedDirect", probes=probes, config__graphicsInfo=info)


def in_use(facts, pci=FIRST):
    return {(i.profile_name, i.gi_id): i.used_by for i in live.live(facts).instances[pci] if i.in_use}


def test_the_capture():
    assert parse_running(0, CAPTURED) == (
        RunningVgpu("0000:c1:00.0", 3251634327, "2103066", "Win11SV2_View87", "GRID T4-4Q", None, "527.15",
                    "Licensed (Expiry: 2022-11-23 5:2:12 GMT)", "afdcf724-1dd2-11b2-8534-624f22674b66",
                    load=0),
    )  # fmt: skip
    (one,) = parse_running(0, CAPTURED)
    assert (one.licensed, one.expires) == (True, "2022-11-23 5:2:12 GMT")


@pytest.mark.parametrize(
    ("licence", "licensed"),
    [
        ("Licensed", True),
        ("Unlicensed", False),
        ("Unlicensed (Restricted)", False),
        ("Unlicensed (Unrestricted)", False),
        ("N/A", None),
    ],
)
def test_licence_states(licence, licensed):
    (one,) = parse_running(0, listing((FIRST, "a", "N/A", licence, "N/A"), gpus=[FIRST]))
    assert (one.licensed, one.expires, one.guest_driver, one.gi) == (licensed, "", None, None)


@pytest.mark.parametrize("text", ["No supported devices in vGPU mode\n", "No devices were found\n"])
def test_no_vgpus(text):
    assert parse_running(6 if "devices were" in text else 0, text) == ()


def test_a_gpu_without_vgpus_and_a_name_like_a_line():
    seen = parse_running(0, listing((SECOND, "odd : name", 7, "Licensed", "535.54.03")))
    assert [(v.pci, v.vm_name, v.gi) for v in seen] == [(SECOND, "odd : name", 7)]


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("Active vGPUs                          : 1", "Active vGPUs                          : 2"),
        ("Active vGPUs                          : 1", "Active vGPUs                          : many"),
        ("GPU 00000000:C1:00.0", "GPU 1"),
        ("        VM Name ", "        VM Title"),
        ("    vGPU ID                               : 3251634327\n", ""),
        (CAPTURED, ""),
        (CAPTURED, "Failed to initialize NVML: Driver Not Loaded\n"),
    ],
)
def test_nothing_is_guessed(was, becomes):
    with pytest.raises(UnreadableOutput):
        parse_running(0, CAPTURED.replace(was, becomes, 1))


def test_a_failed_command_is_not_read():
    with refused(UnreadableOutput, "host.unhealthy", " 9"):
        parse_running(9, CAPTURED)


@given(st.text(max_size=300) | st.lists(st.sampled_from(CAPTURED.splitlines()), max_size=20).map("\n".join))
def test_no_text_brings_the_parser_down(text):
    with suppress(UnreadableOutput):
        parse_running(0, text)


def row(key, value, depth=8):
    """Return a line of a listing without the blanks before it."""
    return f"{key:<{42 - depth}}: {value}"


@pytest.mark.parametrize(
    ("was", "becomes", "field", "value"),
    [
        ("        GPU Instance ID                   : N/A\n", "", "gi", None),  # R450
        (row("GPU Instance ID", "N/A"), row("GPU Instance ID", "3"), "gi", 3),
        (row("GPU Instance ID", "N/A"), row("GPU Instance ID", "first"), "gi", None),
        ("        GPU Instance", f"        {row('Placement ID', '6')}\n        GPU Instance", "placement", 6),
        ("        GPU Instance", f"        {row('Placement ID', 'N/A')}\n        GPU Instance", "placement", None),
        (row("VM ID", "2103066"), row("VM UUID", "b-1"), "vm_id", "b-1"),  # KVM
        (row("Gpu", "0 %", 12), row("GPU", "93 %", 12), "load", 93),  # R580
        (row("Gpu", "0 %", 12), row("Gpu", "N/A", 12), "load", None),
        ("        PCI\n", f"        Scheduler\n            {row('Policy', 'Fair', 12)}\n        PCI\n", "load", 0),
        ("527.15", "N/A", "guest_driver", None),
        ("Licensed (Expiry: 2022-11-23 5:2:12 GMT)", "Expired (in a week)", "licensed", None),
        ("Licensed (Expiry: 2022-11-23 5:2:12 GMT)", "Unlicensed (Restricted) (Expiry: N/A)", "licensed", False),
        ("Licensed (Expiry: 2022-11-23 5:2:12 GMT)", "Licensed (Expiry: Permanent)", "expires", "Permanent"),
        ("Licensed (Expiry: 2022-11-23 5:2:12 GMT)", "Licensed (Expiry: N/A)", "expires", ""),
        ("Licensed (Expiry: 2022-11-23 5:2:12 GMT)", "N/A (Expiry: N/A)", "licence", None),
        ("Licensed (Expiry: 2022-11-23 5:2:12 GMT)", "Unknown", "licensed", None),
    ],
)  # fmt: skip
def test_listings_of_other_drivers(was, becomes, field, value):
    assert was in CAPTURED
    (one,) = parse_running(0, CAPTURED.replace(was, becomes, 1))
    assert (one.vm_name, getattr(one, field)) == ("Win11SV2_View87", value)


def test_only_the_instance_a_vm_holds_is_in_use():
    facts = answered(listing((FIRST, "train-01", 8, "Licensed", "535.54.03")))
    assert in_use(facts) == {("1g.5gb", 8): "train-01"}
    around = estate(facts, guest(vm(1), ESX1))
    assert [(i.gi_id, i.used_by) for i in live.present(facts, around, FIRST)] == [(8, "train-01"), (2, "")]


def test_an_instance_is_in_use_by_a_vm_that_vcenter_does_not_show_yet():
    facts = answered(listing((FIRST, "train-01", 8, "Licensed", "535.54.03")), shown=())
    assert in_use(facts) == {("1g.5gb", 8): "train-01"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (listing((FIRST, "train-01", "N/A", "Licensed", "535.54.03")), ("train-01",)),  # the instance is not told
        (listing((FIRST, "train-01", 5, "Licensed", "535.54.03")), ("train-01",)),  # one that is not listed
        (listing((FIRST, "train-01", 8, "Licensed", "535.54.03")), ("train-01", "train-02")),  # a VM is missing
        (listing(), ("train-01",)),
        ("something new\n", ("train-01",)),
        (ProbeFailure("ssh.unreachable", "no answer in time"), ("train-01",)),
    ],
)
def test_where_it_is_not_told_every_instance_of_the_gpu_is_in_use(text, shown):
    facts = answered(text, shown=shown)
    assert set(in_use(facts)) == {("1g.5gb", 8), ("3g.20gb", 2)}
    assert live.live(facts).instances[SECOND][0].in_use is False


def test_why_it_is_not_listed():
    assert live.why_not_listed(answered(listing())) == ""
    assert live.why_not_listed(answered(ProbeFailure("ssh.stopped", "SSH is stopped"))) == "SSH is stopped"
    assert "something new" in live.why_not_listed(answered("something new\n"))
    assert live.why_not_listed(host(ESX1, probes={})).endswith("was not asked over SSH")


def test_the_head_that_nvidia_smi_q_prints_is_passed_over_and_is_no_answer_by_itself():
    head = "\n==============NVSMI LOG==============\n\nTimestamp : Mon May  5 10:11:12 2025\nDriver Version : 550.90\n"
    gpu = "GPU 00000000:3B:00.0\n    Active vGPUs                          : 0\n"
    assert parse_running(0, head + "Attached GPUs  : 1\n" + gpu) == ()
    with pytest.raises(UnreadableOutput):
        parse_running(0, head)
    with pytest.raises(UnreadableOutput):
        parse_running(0, head + "Something else\n" + gpu)
    section = "vGPU Driver Capability\n    Heterogenous Multi-vGPU : Supported\nSomething new : 5\n"
    assert parse_running(0, head + section + gpu) == ()


LOST = (
    "Unable to determine the device handle for GPU{}0000:AF:00.0: GPU is lost.  Reboot the system to recover this GPU\n"
)


@pytest.mark.parametrize(
    "text",
    [
        LOST.format(" ") + CAPTURED, CAPTURED + LOST.format("1: "), LOST.format("") + CAPTURED,
        "GPU 00000000:AF:00.0\n    Active vGPUs                          : N/A\n" + CAPTURED,
        "GPU 00000000:AF:00.0\n    Active vGPUs                          : [GPU is lost]\n" + CAPTURED,
    ],
)  # fmt: skip
def test_a_gpu_in_trouble_leaves_the_vgpus_of_the_others_readable(text):
    assert parse_running(15 if "device handle" in text else 0, text) == parse_running(0, CAPTURED)
    with pytest.raises(UnreadableOutput):
        parse_running(15, text.replace(CAPTURED, "") if "device handle" in text else text)
