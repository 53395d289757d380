"""Rings, interrupt coalescing and DCB of NICs: as esxcli prints them, and what the kind `nics` makes of them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from support.estates import ESX1, estate, host, view
from support.judging import judge

from vsphere_ai.connect.probing import Prober
from vsphere_ai.fabric import nic_settings
from vsphere_ai.fabric.nic_settings import COALESCE, DCB, MOST, RINGS, Coalesce, Dcb, Rings, coalescing_in
from vsphere_ai.model.facts import CommandOutput, Facts, ProbeFailure
from vsphere_ai.model.steps import Probe
from vsphere_ai.resources.nics import HostNics, NicSettings

# the columns of ESXi; a driver without the setting says N/A
LISTING = """\
NIC     RX microseconds  RX maximum frames  TX microseconds  TX Maximum frames  Adaptive RX  Adaptive TX  Sample interval seconds
------  ---------------  -----------------  ---------------  -----------------  -----------  -----------  -----------------------
vmnic0  N/A              N/A                N/A              N/A                N/A          N/A          N/A
vmnic4  3                15                 0                1                  Off          On           0
vmnic5  8                N/A                8                N/A                N/A          N/A          N/A
"""  # noqa: E501
# constructed from the reference of esxcli; users publish the two lines that count
BLOCK = "   RX: 1024\n   RX Mini: 0\n   RX Jumbo: 0\n   TX: 512\n"
LARGEST = "   Max RX: 8192\n   Max RX Mini: 0\n   Max RX Jumbo: 0\n   Max TX: 4096\n"
UNSUPPORTED = CommandOutput(1, "Unable to complete Sysinfo operation.\n: Sysinfo error: Not supported\n")
STOPPED = ProbeFailure("ssh.stopped", "SSH is stopped")
# constructed: what VMware's documentation shows of it, and a part below that has labels of the same name
STATUS = """\
   Nic Name: vmnic4
   Mode: 3 - IEEE Mode
   Enabled: true
   Capabilities:
         Priority Group: true
   PFC Enabled: true
   PFC Configuration: 0 0 0 1 0 1 0 0
   IEEE PFC Configuration:
         PFC Configuration: 1 1 1 1 1 1 1 1
"""
HERE = Coalesce(rx_usecs=3, tx_usecs=0, rx_frames=15, tx_frames=1, adaptive_rx=False, adaptive_tx=True)


def pnic(name, rdma=True):
    made = {"key": f"key-{name}", "device": name, "driver": "nmlx5_core", "spec": {}, "validLinkSpecification": ()}
    return {**made, "rdmaDevice": "key-vmrdma0"} if rdma else made


def esx(rings=BLOCK, most=LARGEST, listing=LISTING):
    facts = host(ESX1, config__network__pnic=(pnic("vmnic0", rdma=False), pnic("vmnic4"), pnic("vmnic5")))
    answers = {f"{RINGS.name}:vmnic4": rings, f"{MOST.name}:vmnic4": most, COALESCE.name: listing}
    probes = {n: CommandOutput(0, a) if isinstance(a, str) else a for n, a in answers.items() if a is not None}
    return Facts(facts.ref, facts.properties, {}, {**facts.probes, **probes})


def judged(facts=None, name="vmnic4", **fields):
    return judge(HostNics.model_validate({"nics": {name: fields}}), ESX1, estate(facts or esx()))


def test_listings_are_read():
    assert coalescing_in(LISTING) == {"vmnic4": HERE, "vmnic5": Coalesce(rx_usecs=8, tx_usecs=8)}
    assert coalescing_in("Error: Unknown command or namespace\n") == {}
    assert nic_settings.rings(esx(), "vmnic4") == Rings(rx=1024, tx=512)
    assert nic_settings.rings(esx(), "vmnic4", MOST) == Rings(rx=8192, tx=4096)
    assert nic_settings.rings(esx(most=BLOCK), "vmnic4", MOST) == Rings(rx=1024, tx=512)
    assert nic_settings.rings(esx(), "vmnic0") is nic_settings.rings(esx(rings=UNSUPPORTED), "vmnic4") is None


@pytest.mark.parametrize(
    ("text", "dcb"),
    [
        (STATUS, Dcb(enabled=True, priorities=(3, 5))),
        (STATUS.replace("PFC Enabled: true", "PFC Enabled: false"), Dcb(enabled=True, priorities=())),
        ("   Enabled: false\n", Dcb(enabled=False, priorities=())),
        ("Error: Not supported\n", None),
        ("", None),
    ],
)
def test_dcb_is_read(text, dcb):
    assert (
        nic_settings.dcb(Facts("HostSystem:host-1", {}, {}, {f"{DCB.name}:vmnic4": CommandOutput(0, text)}), "vmnic4")
        == dcb
    )


def test_what_is_there_is_observed_and_forgotten_by_a_restart():
    seen = view(estate(esx()))
    state = seen.state(ESX1.ref, "nics")
    assert state.nics["vmnic4"] == NicSettings(speed="auto", rings=Rings(rx=1024, tx=512), coalesce=HERE)
    assert state.nics["vmnic0"] == NicSettings(speed="auto")
    assert state.project(ESX1, seen, "reboot").state.nics["vmnic4"] == NicSettings(speed="auto")
    assert not judge(state.export(ESX1, seen, "playbook").state, ESX1, seen.estate).fields


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"rings": {"rx": 4096}}, ["ring", "current", "set", "-n", "vmnic4", "-r", "4096", "-t", "512"]),
        ({"rings": {"tx": 512}}, None),
        ({"coalesce": {"rx_usecs": 5}}, ["coalesce", "set", "-n", "vmnic4", "--rx-usecs=5"]),
        ({"coalesce": {"adaptive_rx": True, "adaptive_tx": False}},
         ["coalesce", "set", "-n", "vmnic4", "--adaptive-rx=true", "--adaptive-tx=false"]),
        ({"coalesce": {"rx_frames": 1, "tx_frames": 2, "tx_usecs": 9}},
         ["coalesce", "set", "-n", "vmnic4", "--tx-usecs=9", "--rx-max-frames=1", "--tx-max-frames=2"]),
        ({"coalesce": {"tx_usecs": 0, "adaptive_rx": False}}, None),
    ],
)  # fmt: skip
def test_only_what_differs_is_set(fields, words):
    found = judged(**fields)
    assert found.problems == {}
    assert [list(s.argv[3:]) for s in found.steps] == ([words] if words else [])
    assert [s.needs_maintenance for s in found.steps] == (["rings" in fields] if words else [])


def test_the_link_may_go_down_and_that_is_said_as_unverified():
    (note,) = judged(rings={"rx": 2048}).notes
    assert "vmnic4" in note
    assert "unverified" in note
    assert judged(rings={"rx": 1024}).notes == ()


@pytest.mark.parametrize(
    ("facts", "name", "fields", "rule", "said"),
    [
        (esx(), "vmnic4", {"rings": {"rx": 8193, "tx": 4096}}, "nics.rings", "rx 8193 entries"),
        (esx(), "vmnic4", {"rings": {"rx": 8193, "tx": 4097}}, "nics.rings", "rx 8193, tx 4097 entries"),
        (esx(), "vmnic0", {"rings": {"rx": 1}}, "nics.rings", "no RDMA device"),
        (esx(rings=UNSUPPORTED), "vmnic4", {"rings": {"rx": 1}}, "nics.rings", "Not supported"),
        (
            esx(rings=ProbeFailure("ssh.stopped", "SSH is stopped")),
            "vmnic4",
            {"rings": {"rx": 1}},
            "ssh.stopped",
            "SSH",
        ),
        (esx(), "vmnic0", {"coalesce": {"rx_usecs": 1}}, "nics.coalesce", "rx_usecs"),
        (esx(), "vmnic5", {"coalesce": {"rx_usecs": 1, "tx_frames": 1}}, "nics.coalesce", "nothing of tx_frames"),
        (esx(listing=UNSUPPORTED), "vmnic4", {"coalesce": {"rx_usecs": 1}}, "nics.unreadable", "coalescing"),
        (esx(listing=None), "vmnic4", {"coalesce": {"rx_usecs": 1}}, "nics.unreadable", "not asked"),
    ],
)
def test_problems(facts, name, fields, rule, said):
    found = judged(facts, name, **fields)
    assert list(found.problems) == [rule]
    assert said in found.problems[rule].message


@pytest.mark.parametrize(
    "fields",
    [{"rings": {"rx": 0}}, {"rings": {"rx": "many"}}, {"coalesce": {"rx_usecs": -1}}, {"coalesce": {"adaptive_rx": 1}}],
)
def test_values_that_do_not_exist(fields):
    with pytest.raises(ValidationError):
        HostNics.model_validate({"nics": {"vmnic4": fields}})


def test_a_probe_of_each_rdma_nic_asks_those_only():
    """And nothing that is not the name of a NIC gets into a command."""
    asked = []

    class Shell:
        def __enter__(self):
            return self

        def __exit__(self, *error):
            return None

        def connect(self):
            return None

        def run(self, argv, deadline):
            asked.append(argv)
            return CommandOutput(0, argv[-1])

    running = {"config.service.service": ({"key": "TSM-SSH", "running": True},), "runtime.connectionState": "connected"}
    nics = (pnic("vmnic0", rdma=False), pnic("vmnic4"), pnic("vmnic5; reboot"))
    facts = host(ESX1, config__network__pnic=nics)
    facts = Facts(facts.ref, {**facts.properties, **running})
    prober = Prober(None, lambda target: Shell(), may_start=False, deadline_s=1.0, note=lambda *a: None)
    answers = prober.probe(facts, (Probe("plain", ("uptime",)), RINGS))
    assert asked == [("uptime",), (*RINGS.argv, "vmnic4")]
    assert {n: a.stdout for n, a in answers.items()} == {"plain": "uptime", "rings:vmnic4": "vmnic4"}
