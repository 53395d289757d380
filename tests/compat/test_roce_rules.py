"""Rules about RoCE where a host has NICs of several drivers, or a plan says something of its switch or its NICs."""

from types import SimpleNamespace

import pytest

from vsphere_ai.compat import gate
from vsphere_ai.fabric.nic_settings import Pause

RULES = {r.id: r for r in gate.rules()}
SWITCH, CLUSTER, DATACENTER = (
    "VmwareDistributedVirtualSwitch:dvs-1",
    "ClusterComputeResource:domain-c1",
    "Datacenter:dc",
)
WASTED = ("warn", "RDMA MTU below what fits: vmrdma0 uses 1024, its switch has room for 4096")
UP = {"connectionInfo": {"state": "active", "mtu": 4096}, "capability": {"roceV2Capable": True}}


def findings(world, rule, host=None, *, planned=None, switches=None, mtu=9000):
    """Run a rule on the host; `planned` are its own states, `switches` those planned of the datacenter."""
    changes = {
        world.host.ref: host or {},
        SWITCH: {"config.maxMtu": mtu},
        CLUSTER: {"parent": DATACENTER},
        DATACENTER: {"name": "DC0"},
    }
    states = {(world.host.ref, kind): fields for kind, fields in (planned or {}).items()}
    if switches is not None:
        states[(DATACENTER, "switches")] = {"switches": switches}
    return [(f.verdict, f.message) for f in RULES[rule].check(world.host, world.view(changes, planned=states))]


def to_be(mtu):
    return {"dvs-ai": SimpleNamespace(mtu=mtu)}


def device(mtu):
    return {"config.network.rdmaDevice": (
        {"device": "vmrdma0", **UP, "connectionInfo": {"state": "active", "mtu": mtu},
         "backing": {"pairedUplink": "key-vmnic4"}},
    )}  # fmt: skip


@pytest.mark.parametrize(
    ("uses", "mtu", "switches", "expected"),
    [
        (4096, 1500, to_be(1500), ("warn", "RDMA MTU below 4096: vmrdma0 1024, 4096 before this plan")),
        (1024, 9000, to_be(9000), ("pass", "RDMA MTU 4096 on vmrdma0, now or after this plan")),
        (1024, 1500, to_be(1500), ("warn", "RDMA MTU below 4096: vmrdma0 1024")),
        # the plan is about something else of that switch, or about another switch
        (1024, 9000, to_be(None), WASTED),
        (1024, 9000, {"dvs-lan": SimpleNamespace(mtu=9000)}, WASTED),
        (4096, 9000, None, ("pass", "RDMA MTU 4096 on vmrdma0, now or after this plan")),
    ],
)
def test_the_rdma_mtu_is_what_it_will_be(world, uses, mtu, switches, expected):
    assert findings(world, "host.rdma-mtu", device(uses), switches=switches, mtu=mtu) == [expected]


# -- lossless Ethernet

MELLANOX = {"key": "key-vmnic4", "device": "vmnic4", "driver": "nmlx5_core"}
BROADCOM = {"key": "key-vmnic6", "device": "vmnic6", "driver": "bnxtnet"}
PFC = "pfctx=0x08 pfcrx=0x08"
AT_WORK = " Enabled: true\n PFC Enabled: true\n PFC Configuration: 0 0 0 1 0 0 0 0\n"
NOT_AT_WORK = " Enabled: true\n PFC Enabled: false\n PFC Configuration: 0 0 0 0 0 0 0 0\n"
TITLES = "NIC     Pause Params Supported  Pause RX  Pause TX\n------  ----------------------  --------  --------\n"


def paused(**nics):
    return {"probe:pause-params": TITLES + "".join(f"{n}  true  {rx}  {tx}\n" for n, (rx, tx) in nics.items())}


def two(**more):
    devices = ({"device": "vmrdma0", **UP, "backing": {"pairedUplink": "key-vmnic4"}},
               {"device": "vmrdma1", **UP, "backing": {"pairedUplink": "key-vmnic6"}})  # fmt: skip
    return {"config.network.rdmaDevice": devices, "config.network.pnic": (MELLANOX, BROADCOM), **more}


def one(**more):
    return {"config.network.pnic": (MELLANOX,), "query:nmlx5_core": "", **more}


def nic(pause=None):
    return SimpleNamespace(pause=pause)


@pytest.mark.parametrize(
    "planned",
    [{}, {"nics": {"nics": {"vmnic1": nic()}}}, {"nics": {"nics": {"vmnic4": nic()}}}],
    ids=["no plan", "another NIC", "something else of it"],
)
def test_a_pause_that_was_read_counts_whatever_else_is_planned(world, planned):
    off, on = (one(**paused(vmnic4=(state, state))) for state in ("false", "true"))
    assert findings(world, "host.roce-lossless", off, planned=planned) == [
        ("warn", "neither PFC nor global pause on vmnic4: RoCE loses frames under load")
    ]
    assert findings(world, "host.roce-lossless", on, planned=planned) == [("pass", "global pause is on for vmnic4")]


def test_what_is_planned_of_the_pause_goes_before_what_was_read(world):
    planned = {"nics": {"nics": {"vmnic4": nic(Pause(rx=True, tx=True))}}}
    off = one(**paused(vmnic4=("false", "false")))
    assert findings(world, "host.roce-lossless", off, planned=planned) == [("pass", "global pause is on for vmnic4")]


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({}, ("unknown", "whether vmnic6 has PFC or global pause is not known")),
        ({"probe:dcb:vmnic6": NOT_AT_WORK, **paused(vmnic6=("false", "false"))},
         ("warn", "neither PFC nor global pause on vmnic6: RoCE loses frames under load")),
        (paused(vmnic6=("true", "true")), ("pass", "PFC is configured on vmnic4; global pause is on for vmnic6")),
        ({"probe:dcb:vmnic6": AT_WORK}, ("pass", "PFC is configured on vmnic4; PFC is at work on vmnic6")),
    ],
)  # fmt: skip
def test_options_of_a_driver_make_no_other_nic_lossless(world, answers, expected):
    host = two(**{"query:nmlx5_core": PFC, **answers})
    assert findings(world, "host.roce-lossless", host) == [expected]


def test_planned_priorities_are_those_of_the_driver_s_own_nics(world):
    host = two(**{"query:nmlx5_core": "", **paused(vmnic4=("false", "false"), vmnic6=("false", "false"))})
    found = findings(world, "host.roce-lossless", host, planned={"roce": {"pfc_priority": 3}})
    assert found == [("warn", "neither PFC nor global pause on vmnic6: RoCE loses frames under load")]


@pytest.mark.parametrize("answer", [NOT_AT_WORK, AT_WORK, None])
def test_options_of_a_driver_are_not_asked_of_another_one(world, answer):
    host = two(**{"query:nmlx5_core": PFC, "probe:dcb:vmnic6": answer if answer else world.absent})
    assert findings(world, "host.roce-dcb", host) == [("pass", "PFC is at work on vmnic4")]


def test_the_driver_s_own_nic_is_still_asked(world):
    host = two(**{"query:nmlx5_core": PFC, "probe:dcb:vmnic4": NOT_AT_WORK})
    ((verdict, said),) = findings(world, "host.roce-dcb", host)
    assert (verdict, said.partition("at work: ")[2]) == ("warn", "vmnic4: DCB on, no PFC")
