"""Checks of VMs with guest and host data: nothing on healthy VMs, and what only the host can see."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from support.healthy_vms import NOW, PCI, healthy

from vsphere_ai.health.answers import RdmaLink
from vsphere_ai.health.checks import gpu_events, judge, xid_findings
from vsphere_ai.health.profile import HealthProfile, learned
from vsphere_ai.health.witness import HostFacts
from vsphere_ai.model.finding import VERDICTS, worst


def found(observed, profile=None):
    """Problems of a VM: check, verdict and witness; information left out."""
    about = xid_findings(gpu_events(observed, NOW, 2.0), [observed.node], NOW)
    health = judge(observed, profile or HealthProfile(), about)
    return {(f.rule, f.verdict, f.source) for f in health.findings if f.verdict != "info"}


def test_a_thousand_healthy_vms_have_no_finding():
    chance = random.Random(1)
    for number in range(1000):
        observed = healthy(number, rails=chance.randint(0, 8), passthrough=chance.random() < 0.5)
        assert found(observed) == set(), observed.node
        assert found(observed, learned(observed.node, observed.guest)) == set(), "learned from itself"


HOST_ONLY = {
    "an XID in the host's log only": ({"log": ("2026-05-01T11:58:00Z NVRM: Xid (PCI:0000:3b:00): 48, DBE",)}, "xid"),
    "a GPU that fell off the bus": (
        {"log": ("2026-05-01T11:58:00Z NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.",)},
        "xid",
    ),
    "uncorrected errors": ({"ecc_uncorrected": 2}, "ecc"),
    "a row to be remapped": ({"remap_pending": True}, "remap"),
    "a row that cannot be remapped": ({"remap_failed": True}, "remap"),
    "heat": ({"throttle": 0x40}, "throttle"),
    "a power cap": ({"throttle": 0x4}, "throttle"),
    "a power brake": ({"throttle": 0x80}, "throttle"),
    "half of the lanes": ({"pcie": (4, 4, 8, 16)}, "pcie"),
    "a slow uplink": ({"uplink_speed": {"vmnic1": 25.0}}, "uplink-speed"),
    "a switch below the guest's MTU": ({"switch_mtu": {"rdma1": 1500}}, "switch-mtu"),
    "a teamed uplink": ({"teamed": {"rdma1": ("Uplink 2",)}}, "teaming"),
    "another driver branch": ({"driver": "525.147.01"}, "driver-branch"),
    "a host that does not answer": ({"failure": "SSH is stopped"}, "host-gpu"),
    "a GPU that the host has lost": ({"gpus": {}}, "host-gpu"),
}


@pytest.mark.parametrize("fault", HOST_ONLY)
def test_what_the_guest_cannot_see_is_found_by_the_host(fault):
    changed, check = HOST_ONLY[fault]
    observed = healthy()
    if set(changed) <= set(HostFacts.__dataclass_fields__):
        host = replace(observed.host, **changed)
    else:
        host = replace(observed.host, gpus={PCI: replace(observed.host.gpus[PCI], **changed)})
    rows = found(replace(observed, host=host))
    assert {row[0] for row in rows} == {check}
    assert {row[1] for row in rows} <= {"warn", "unknown", "fail"}


def test_the_owner_of_a_gpu_is_asked():
    """Of a passthrough GPU the guest knows its errors, and a host without an answer is no loss."""
    observed = healthy(passthrough=True)
    bad = replace(observed.guest.gpus[0], ecc_uncorrected=1)
    observed = replace(observed, guest=replace(observed.guest, gpus=(bad,)), host=HostFacts(failure="stopped"))
    assert found(observed) == {("ecc", "fail", "guest")}


@pytest.mark.parametrize(("why", "row"), [("SSH is stopped", "info"), ("grep ended with 2", "unknown")])
def test_why_there_is_one_witness_only_is_said(why, row):
    """A host whose shell is not asked is no loss for a whole GPU; a log that cannot be read may hide an XID."""
    observed = replace(healthy(passthrough=True), host=HostFacts(failure="SSH is stopped", log_failure=why))
    (said,) = judge(observed, HealthProfile()).findings
    assert (said.rule, said.verdict, why in said.message) == ("host-log", row, True)
    assert found(replace(observed, host=HostFacts(failure="nvidia-smi ended with 127"))) == set(), "its log was read"


def test_a_card_that_is_no_rail_and_has_fewer_ports_is_named():
    observed = healthy(rails=2)
    free = [RdmaLink(f"mlx5_{n}", 1, state, "") for n, state in enumerate(("ACTIVE", "DOWN", "DOWN"))]
    guest = replace(observed.guest, links=(*observed.guest.links, *free))
    cards = {f"mlx5_{n}": f"0000:0{n // 2}:00.{n % 2}" for n in range(3)}
    (said,) = judge(replace(observed, guest=guest, cards=cards), HealthProfile()).findings
    assert (said.rule, said.verdict, said.target.part) == ("uncabled", "warn", "RDMA NIC 0000:01:00 in the guest")
    down = replace(observed.guest, links=tuple(replace(link, state="DOWN") for link in observed.guest.links[:1]))
    assert {row[0] for row in found(replace(observed, guest=down))} == {"rdma-link"}, "a rail is named once"


def test_what_to_do_about_a_log_that_is_flooded():
    observed = healthy()
    guest = replace(observed.guest, failures={"kernel": "it wrote more than is read, and was ended"})
    (said,) = judge(replace(observed, guest=guest), HealthProfile()).findings
    assert "dmesg --clear" in said.remedy


def test_unknown_ranks_above_a_warning_and_a_time_out_is_a_failure():
    assert VERDICTS.index("unknown") > VERDICTS.index("warn")
    observed = healthy()
    late = replace(observed.guest, gpus=(), failures={"nvidia-smi": "`nvidia-smi`: it did not end in time (20 s)"})
    assert ("gpu-driver", "fail", "guest") in found(replace(observed, guest=late))
    denied = replace(observed.guest, failures={"kernel": "`dmesg` ended with 1: Operation not permitted"})
    rows = judge(replace(observed, guest=denied), HealthProfile()).findings
    assert worst(rows) == "unknown"
    assert found(replace(observed, error="no address")) >= {("ssh", "unknown", "guest")}
    assert found(replace(observed, guest=denied), HealthProfile(skip=("kernel-log",))) == set()
