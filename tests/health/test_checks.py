"""Checks of VMs with two witnesses: nothing on healthy VMs, and what only the host can see."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from support.healthy_vms import NOW, PCI, healthy

from vsphere_ai.health.checks import gpu_events, judge, xid_findings
from vsphere_ai.health.finding import VERDICTS, worst
from vsphere_ai.health.profile import Profile, learned
from vsphere_ai.health.witness import HostFacts


def found(observed, profile=None):
    """What stands against a VM: check, verdict and witness; information left out."""
    about = xid_findings(gpu_events(observed, NOW, 2.0), [observed.node], NOW)
    health = judge(observed, profile or Profile(), about)
    return {(f.check, f.verdict, f.witness) for f in health.findings if f.verdict != "info"}


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


def test_unknown_ranks_above_a_warning_and_a_time_out_is_a_failure():
    assert VERDICTS.index("unknown") > VERDICTS.index("warn")
    observed = healthy()
    late = replace(observed.guest, gpus=(), failures={"nvidia-smi": "`nvidia-smi`: it did not end in time (20 s)"})
    assert ("gpu-driver", "fail", "guest") in found(replace(observed, guest=late))
    denied = replace(observed.guest, failures={"kernel": "`dmesg` ended with 1: Operation not permitted"})
    rows = judge(replace(observed, guest=denied), Profile()).findings
    assert worst(rows) == "unknown"
    assert found(replace(observed, error="no address")) >= {("ssh", "unknown", "guest")}
    assert found(replace(observed, guest=denied), Profile(skip=("kernel-log",))) == set()
