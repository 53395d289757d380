"""XIDs: every known form of a line, the action of each with its source, and what repeats on one physical GPU."""

from datetime import UTC, datetime, timedelta
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsphere_ai.health.kernel import kernel_log
from vsphere_ai.health.kernel.kernel_log import KernelEvent, events, normal, nvlink_code, unfamiliar
from vsphere_ai.health.kernel.xid_rules import GpuEvent, judged
from vsphere_ai.health.kernel.xids import LADDER, RECOVERY_XID, known, recovery_action, table, table_of

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
XID_79 = "[  812.1] NVRM: Xid (PCI:0000:05:00): 79, pid=1234, name=python, GPU has fallen off the bus."
NVLINK = "kern: NVRM: Xid (PCI:0000:18:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000)"
NVSWITCH = "nvidia-nvswitch2: SXid (PCI:0000:85:00.0): 12028, Non-fatal, Link 33 egress non-posted PRIV error"
LINES = [
    (XID_79, "xid", "0000:05:00", 79),
    ("NVRM: Xid (0000:05:00): 13, Graphics Exception on (GPC 0, TPC 1, SM 0): Out Of Range", "xid", "0000:05:00", 13),
    (NVLINK, "xid", "0000:18:00", 149),
    ("NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.", "off_the_bus", "0000:18:00.0", 79),
    (NVSWITCH, "sxid", "0000:85:00.0", 12028),
    ("nvidia-nvswitch0: SXid (PCI:0000:85:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", "sxid", "0000:85:00.0", 20034),
    ("NVRM: GPU 0000:18:00.0: RmInitAdapter failed! (0x26:0x56:1474)", "init", "0000:18:00.0", 0),
    ("NVRM: RmInitAdapter failed! (0x24:0xffff:1248)", "init", "", 0),
    ("pcieport 0000:00:1c.0: AER: Uncorrected (Fatal) error received: 0000:3b:00.0", "pcie", "0000:00:1c.0", 0),
    ("pcieport 0000:00:1c.0: AER: Correctable error message received from 0000:3b:00.0", "pcie", "0000:00:1c.0", 0),
    ("pcieport 0000:00:1c.0: pciehp: Slot(28): Link Down", "pcie", "0000:00:1c.0", 0),
    ("mlx5_core 0000:3b:00.0: device's health compromised - reached miss count", "nic", "0000:3b:00.0", 0),
    ("pci 0000:3b:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link", "pcie", "", 0),
]  # fmt: skip
THREE_LINES = ["NVRM: The NVIDIA GPU 0000:41:00.0", "NVRM: (PCI ID: 10de:20b2) installed in this system has",
               "NVRM: fallen off the bus and is not responding to commands."]  # fmt: skip
NOISE = [
    "mlx5_core 0000:3b:00.0: mlx5_cmd_out_err: ACCESS_REG(0x805) op_mod(0x1) failed, status bad parameter",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.90.07",
    "usb 1-1: new high-speed USB device",
    "",
]


@pytest.mark.parametrize(("line", "kind", "device", "number"), LINES)
def test_every_form_of_a_line_is_read(line, kind, device, number):
    (found,) = events([line])
    assert (found.kind, found.device, found.number) == (kind, device, number)


def test_a_message_over_three_lines_is_one_event():
    (found,) = events(THREE_LINES)
    assert (found.kind, found.number) == ("off_the_bus", 79)


def test_noise_is_no_event():
    assert list(events(NOISE)) == []


def test_places_codes_and_severities_are_read():
    found = [next(events([line])) for line, *_ in LINES]
    assert found[1].place == "GPC 0, TPC 1"
    assert nvlink_code(found[2].text) == 0x004505C6 >> 20 & 0x3F
    assert [each.fatal for each in found[4:12]] == [False, True, True, True, True, False, True, True]


@pytest.mark.parametrize(
    ("start", "time"),
    [
        ("2026-11-23T11:59:00.5+00:00 esx vmkernel: ", datetime(2026, 11, 23, 11, 59, 0, 500000, UTC)),
        ("2026-11-23T11:59:00.500Z In(182) vmkernel: ", datetime(2026, 11, 23, 11, 59, 0, 500000, UTC)),
        ("[Mon Nov 23 11:59:00 2026] ", datetime(2026, 11, 23, 11, 59, tzinfo=UTC)),
        ("[   60.000] ", NOW - timedelta(hours=1) + timedelta(minutes=1)),
        ("", None),
        ("[a b c] ", None),
        ("2026-99-99T00:00:00Z ", None),
    ],
)
def test_times_of_all_forms(start, time):
    (found,) = events([start + XID_79[10:]], boot=NOW - timedelta(hours=1))
    assert found.time == time


def test_only_events_in_the_window_count_and_those_without_a_time():
    lines = [f"2026-11-23T{hour:02}:00:00Z {XID_79[10:]}" for hour in range(12)] + [XID_79[10:]]
    assert len(list(events(lines, since=NOW - timedelta(hours=3)))) == 4


@given(st.lists(st.text(max_size=200) | st.sampled_from([line for line, *_ in LINES] + THREE_LINES), max_size=30))
def test_any_log_is_read(lines):
    found = list(events(lines, boot=NOW))
    assert all(isinstance(e, KernelEvent) for e in found)
    list(unfamiliar(lines, frozenset()))


def test_a_flood_is_bounded():
    lines = (XID_79 + "x" * 10_000 for _ in range(20_000))
    found = list(events(lines))
    assert len(found) == kernel_log.MOST_EVENTS
    assert len(found[0].text) < kernel_log.LONGEST_LINE


def test_logs_of_like_vms_are_alike_and_what_is_new_is_shown_once():
    first = ["[    1.0] nvidia 0000:03:00.0: enabling device", "[    2.5] eth0: 00:50:56:00:00:01 at 0xdeadbeef irq 31"]
    second = [
        "[   11.7] nvidia 0000:0b:00.0: enabling device",
        "[   12.5] eth1: 00:50:56:00:00:99 at 0xfeedface irq 77",
    ]
    learned = frozenset(map(normal, first))
    assert list(unfamiliar(second, learned)) == []
    assert list(unfamiliar([*second, XID_79, XID_79], learned)) == [XID_79]


# -- the table


def test_the_table_has_the_actions_of_nvidias_catalogue():
    by_action = {
        "reset_gpu": {46, 48, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158, 159},
        "restart_host": {79},
        "restart_vm": {151},
        "update": {78},
    }
    # 63 has no action of its own: the row is remapped, and the GPU goes on until its next reset
    assert {a: {x.number for x in table().xids.values() if x.action == a} for a in by_action} == by_action
    assert {43, 45, 63, 92, 121, 137, 160} <= {x.number for x in table().xids.values() if x.action == "none"}
    assert {13, 31, 68, 69, 94} <= {x.number for x in table().xids.values() if x.action == "restart_app"}
    assert len(table().xids) + 1 == 172, "the catalogue has 172, of which 154 names the action in its text"
    assert not any(x.fatal for x in table().xids.values() if x.action in ("none", "restart_app"))
    assert table().xids[64].others == {"aws": "isolate"}
    assert table().xids[94].others == {"gcm": "isolate", "gpud": "none"}
    assert known(999).action == "inspect"
    assert {x.action for x in table().xids.values()} <= set(LADDER)


def test_each_entry_has_a_source_that_is_listed_and_of_use():
    shipped = table()
    used = {x.source for x in shipped.xids.values()} | {t for x in shipped.xids.values() for t in x.others}
    used |= {each.source for each in shipped.recovery}
    assert used <= set(shipped.sources)
    assert all("/" in text for text in shipped.sources.values())
    assert RECOVERY_XID not in shipped.xids, "it has no action of its own: its text says it"


@pytest.mark.parametrize(
    "change",
    [
        ("action: restart_host", "action: reboot"),
        ("source: nvidia", "source: hearsay"),
        ("{dcgm: isolate}", "{hearsay: isolate}"),
        ("number: 31", "number: 13"),
        ("number: 31", "number: '31'"),
        ("number: 31", "code: 31"),
    ],
)
def test_a_table_that_is_not_as_it_has_to_be_is_refused(change):
    text = (resources.files("vsphere_ai.health") / "xids.yaml").read_text("utf-8")
    assert table_of(text) == table()
    with pytest.raises(ValueError, match=r"."):
        table_of(text.replace(*change))


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", "none"),
        ("Node Reboot Required", "restart_host"),
        ("GPU Reset Required", "reset_gpu"),
        ("Drain and Reset", "reset_gpu"),
        ("Drain P2P", "inspect"),
        ("(None)", "none"),
        ("something new", None),
    ],
)
def test_what_the_driver_itself_asks_for(text, action):
    if "changed from" in text:
        action = "restart_host"
    assert recovery_action(text) == action


@pytest.mark.parametrize("number", sorted(n for n, x in table().xids.items() if x.action in ("none", "restart_app")))
def test_what_asks_for_no_more_than_a_restart_of_the_program_never_fails_a_vm(number):
    assert verdicts(of("A", number)).get("A", ("pass", ""))[0] != "fail"


# -- what repeats


NONFATAL = "RLW_RXPIPE Nonfatal XC0 i0 Link 11 (0x0409a0c2 0x00000008 0x00000001 0x00000000)"
LINK_DOWN = "NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x020005c6 0x00000000)"


def of(gpu, *numbers, every=timedelta(minutes=10), place="", vm="train-01", boots=False, text=""):
    start = NOW - every * len(numbers)
    return [
        GpuEvent(gpu, KernelEvent("xid", text, number=n, time=start + every * at, place=place), vm, at if boots else 0)
        for at, n in enumerate(numbers)
    ]


REGISTERS = "NVLink: fatal error detected on link 6({}, 0x0, {}, {}, 0x0, 0x0, 0x0)"


def switch(number, *, fatal=False):
    return [GpuEvent("A", KernelEvent("sxid", "Link 3", number=number, fatal=fatal))]


def verdicts(*found):
    return {v.gpu: (v.finding.verdict, v.action) for v in judged([e for own in found for e in own], NOW)}


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (of("A", 79), ("fail", "restart_host")),
        (of("A", 43, 63, 92), ("info", "none")),
        (of("A", 13), ("info", "none")),
        (of("A", 94), ("warn", "restart_app")),
        (of("A", 78), ("warn", "update")),
        (of("A", *[119] * 4), ("fail", "reset_gpu")),
        (of("A", *[119] * 5), ("fail", "isolate")),
        (of("A", *[119] * 50, every=timedelta(minutes=1)), ("fail", "reset_gpu")),
        (of("A", *[119] * 5, every=timedelta(hours=12)), ("fail", "reset_gpu")),
        (of("A", 31, 31, place="GPC 0, TPC 1"), ("fail", "isolate")),
        (of("A", 31, place="GPC 0, TPC 1") + of("A", 31, place="GPC 0, TPC 2"), ("info", "none")),
        (of("A", 95, 95, boots=True), ("fail", "reset_gpu")),
        (of("A", 95, 95, 95, boots=True), ("fail", "isolate")),
        (of("A", 999), ("warn", "inspect")),
        (of("A", 74), ("warn", "inspect")),
        (of("A", 74, text=REGISTERS.format("0x800000", "0x0", "0x0")), ("info", "none")),
        (of("A", 74, text=REGISTERS.format("0x800100", "0x0", "0x0")), ("warn", "inspect")),
        (of("A", 74, text=REGISTERS.format("0x1", "0x0", "0x40000")), ("fail", "reset_gpu")),
        (
            of("A", 154, text="GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"),
            ("info", "none"),
        ),
        (of("A", 154, text="GPU recovery action changed from 0x0 (None) to 0x1 (PF FLR)"), ("fail", "reset_gpu")),
        (of("A", 154, text="GPU recovery action changed from 0x0 (None) to 0x2 (OS Reboot)"), ("fail", "restart_host")),
        (
            of("A", 145, text="RLW_REMAP Fatal XC0 i0 Link 08 (0x00000000 0x1)"),
            ("warn", "restart_app"),
        ),
        (of("A", *[45] * 50) + of("A", 13), ("info", "none")),
        (of("A", 45, 79), ("fail", "restart_host")),
        (switch(20034, fatal=True), ("fail", "restart_vm")),
        (switch(22003, fatal=True), ("fail", "restart_host")),
        (switch(11012), ("info", "none")),
        (switch(12028), ("warn", "restart_vm")),
        (switch(10003), ("fail", "restart_host")),
        (switch(99999), ("info", "none")),
        (switch(99999, fatal=True), ("fail", "restart_vm")),
        ([GpuEvent("A", KernelEvent("init", "RmInitAdapter failed!", fatal=True))], ("fail", "restart_vm")),
        (of("A", 45), ("info", "none")),
        (of("A", 45, 45, 45, 45, 45), ("info", "none")),
        (of("A", 94, 45), ("warn", "restart_app")),
        (of("A", 48, 94), ("warn", "restart_app")),
        (of("A", 48), ("fail", "reset_gpu")),
        (of("A", 145, text=NONFATAL), ("info", "none")),
        (of("A", *[145] * 6, text=NONFATAL), ("info", "none")),
        (of("A", 149, text=LINK_DOWN), ("fail", "reset_gpu")),
        (of("A", 149, text="UNIT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000)"), ("fail", "reset_gpu")),
        (of("A", 145, text="RLW_RXPIPE Nonfatal XC0 i0 Link 11 (0x000004c2 0x00000001)"), ("warn", "reset_gpu")),
    ],
)
def test_one_gpu(found, verdict):
    assert verdicts(found) == {"A": verdict}


def test_the_same_program_error_on_several_gpus_is_the_program():
    assert verdicts(of("A", 31), of("B", 31)) == {"A": ("warn", "restart_app"), "B": ("warn", "restart_app")}


def test_one_physical_gpu_is_found_under_different_vms():
    found = of("A", 31, place="GPC 3, TPC 0", vm="train-01") + of("A", 31, place="GPC 3, TPC 0", vm="train-07")
    found[1] = GpuEvent("A", KernelEvent("xid", "", number=31, time=NOW, place="GPC 3, TPC 0"), "train-07")
    (verdict,) = judged(found, NOW)
    assert verdict.action == "isolate"
    assert verdict.vms == ("train-01", "train-07")
    assert "hardware" in verdict.finding.message


def test_what_the_driver_asks_for_counts():
    asked = GpuEvent("A", KernelEvent("xid", "GPU recovery action: Node Reboot Required", number=154, time=NOW))
    assert verdicts([asked]) == {"A": ("fail", "restart_host")}
    nothing = GpuEvent("A", KernelEvent("xid", "GPU recovery action: (None)", number=154, time=NOW))
    assert verdicts([nothing]) == {"A": ("info", "none")}


@given(
    st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 170), st.integers(0, 200_000)), max_size=20), st.randoms()
)
def test_the_order_of_lines_does_not_matter_and_more_is_never_better(drawn, random):
    found = [
        GpuEvent(g, KernelEvent("xid", "", number=n, time=NOW - timedelta(seconds=s))) for g, n, s in drawn if n != 154
    ]
    usual = verdicts(found)
    shuffled = random.sample(found, len(found))
    assert verdicts(shuffled) == usual
    worse = verdicts(found, of("A", 79))
    assert LADDER.index(worse["A"][1]) >= LADDER.index(usual.get("A", ("", "none"))[1])


MLX5 = "mlx5_core 0000:1b:00.0: mlx5_pcie_event:299:(pid 4711): {}"


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("Detected insufficient power on the PCIe slot (27W).", "warn"),
        ("PCIe slot advertised sufficient power (75W).", ""),
        ("PCIe slot power capability was not advertised.", ""),
        ("Port module event[error]: module 0, Cable error, Power budget exceeded", "fail"),
        ("Port module event: module 0, Cable unplugged", "warn"),
        ("Port module event: module 0, Cable plugged", ""),
        ("High temperature on sensors with bit set 0 1", "fail"),
        ("device's health compromised - reached miss count", "fail"),
        ("synd 0x1: firmware internal error", "fail"),
        ("health recovery flow aborted, PCI reads still not working", "fail"),
        ("starting health recovery flow", "warn"),
        ("ACCESS_REG(0x805) op_mod(0x1) failed, status bad resource(0x5)", ""),
    ],
)
def test_texts_of_mlx5_as_the_driver_prints_them(text, level):
    found = list(events([MLX5.format(text)]))
    assert [("fail" if e.fatal else "warn" if e.is_warning else "info") for e in found] == ([level] if level else [])
    assert all(e.device == "0000:1b:00.0" for e in found)


def test_what_the_driver_asks_for_outranks_what_came_with_it():
    gone = GpuEvent("A", KernelEvent("xid", "", number=79, time=NOW - timedelta(seconds=20)))
    asked = GpuEvent(
        "A", KernelEvent("xid", "changed from 0x0 (None) to 0x1 (GPU Reset Required)", number=154, time=NOW)
    )
    assert verdicts([gone, asked]) == {"A": ("fail", "reset_gpu")}
    before = GpuEvent("A", KernelEvent("xid", "", number=79, time=NOW - timedelta(minutes=5)))
    assert verdicts([before, asked]) == {"A": ("fail", "restart_host")}


def recovery(minutes, before, after):
    text = f"GPU recovery action changed from {before} (x) to {after} (y)"
    return GpuEvent("A", KernelEvent("xid", text, number=154, time=NOW - timedelta(minutes=minutes)))


def at(minutes, number):
    return GpuEvent("A", KernelEvent("xid", "", number=number, time=NOW - timedelta(minutes=minutes)))


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ([at(60, 95), recovery(60, "0x0", "0x1"), recovery(30, "0x1", "0x0")], ("info", "none")),
        ([at(60, 79), recovery(59, "0x2", "0x0")], ("info", "none")),
        ([recovery(60, "0x0", "0x1"), recovery(30, "0x1", "0x0"), at(5, 95)], ("fail", "reset_gpu")),
        ([recovery(60, "0x0", "0x2"), recovery(30, "0x2", "0x1")], ("fail", "reset_gpu")),
        ([recovery(60, "0x0", "0x0"), at(70, 95)], ("fail", "reset_gpu")),
        ([recovery(5, "0x0", "0x3")], ("warn", "inspect")),
        ([recovery(6, "0x0", "0x3"), recovery(5, "0x3", "0x1")], ("fail", "reset_gpu")),
        ([recovery(5, "0x0", "0x9")], ("warn", "inspect")),
    ],
)
def test_the_last_judgement_of_the_driver_counts_and_a_recovered_gpu_is_well(found, verdict):
    assert verdicts(found) == {"A": verdict}
    assert verdicts(list(reversed(found))) == {"A": verdict}
