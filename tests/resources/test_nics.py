"""Physical NICs: flow control over SSH and speed through vCenter, of the NICs that are named."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from support.estates import ESX1, estate, host, state_of, view
from support.judging import judge, plan_one, rules, steps_of
from support.plays import ONE

from vsphere_ai.fabric.nic_settings import PAUSE, Pause, Rings, pauses_in
from vsphere_ai.model.facts import CommandOutput, Facts, ProbeFailure
from vsphere_ai.resources.nics import HostNics, NicSettings
from vsphere_ai.resources.roce import Roce

ALONE = f"{ONE}  nics: {{vmnic4: {{pause: {{rx: true, tx: false}}}}}}\n"

# VMware ESXi 7.0 prints these columns
LISTING = """\
NIC     Pause Params Supported  Pause RX  Pause TX  Auto Negotiation  Auto Negotiation Resolution Avail  RX Auto Negotiation Resolution  TX Auto Negotiation Resolution
------  ----------------------  --------  --------  ----------------  ---------------------------------  ------------------------------  ------------------------------
vmnic4                    true      true     false             false                              false                           false                           false
vmnic5                   false     false     false             false                              false                           false                           false
"""  # noqa: E501
SPEEDS = tuple({"speedMb": s, "duplex": d} for s in (1000, 10000) for d in (True, False))


def pnic(name, **more):
    return {"key": f"key-{name}", "device": name, "driver": "nmlx5_core", "spec": {}, "validLinkSpecification": SPEEDS,
            **more}  # fmt: skip


def esx(*nics, listing=LISTING, **more):
    facts = host(ESX1, config__network__pnic=nics or (pnic("vmnic4", rdmaDevice="key-vmrdma0"), pnic("vmnic5")), **more)
    answer = CommandOutput(0, listing) if isinstance(listing, str) else listing
    probes = {**facts.probes, **({PAUSE.name: answer} if answer else {})}
    return Facts(facts.ref, facts.properties, {}, probes)


def wanted(name="vmnic4", **fields):
    return HostNics(nics={name: NicSettings(**fields)})


def pause(**ways):
    return wanted(pause=Pause(**ways))


def test_the_listing_is_read():
    assert pauses_in(LISTING) == {"vmnic4": Pause(rx=True, tx=False)}
    for text in ("", "no such command\n", "---\n"):
        assert pauses_in(text) == {}


@pytest.mark.parametrize(
    ("ways", "flags"),
    [
        ({"rx": True, "tx": True}, ("-r", "true", "-t", "true")),
        ({"tx": True}, ("-r", "true", "-t", "true")),  # the way that is left out stays as it is
        ({"rx": False, "tx": False}, ("-r", "false", "-t", "false")),
        ({"rx": True, "tx": False}, None),
        ({"rx": True}, None),
    ],
)
def test_pause(ways, flags):
    judged = judge(pause(**ways), ESX1, estate(esx()))
    assert not judged.problems
    command = ("esxcli", "network", "nic", "pauseParams", "set", "-n", "vmnic4")
    assert [s.argv for s in judged.steps] == ([(*command, *flags)] if flags else [])
    assert all(s.needs_maintenance and not s.after_reboot for s in judged.steps)


def test_after_a_restart_by_this_plan_it_is_set_again():
    facts = esx(config__network__rdmaDevice=(ROCE_DEVICE,), **{"query:nmlx5_core": "", "query:nmlx5_rdma": ""})
    plan = plan_one(estate(facts), ESX1, Roce(trust="dscp"), pause(rx=True, tx=False))
    (step,) = [s for s in steps_of(plan, ESX1) if hasattr(s, "argv")]
    order = [getattr(s, "action", getattr(s, "until", "")) or s for s in steps_of(plan, ESX1)]
    assert step.after_reboot
    assert order.index(step) > order.index("host-back")


ROCE_DEVICE = {"device": "vmrdma0", "driver": "nmlx5_rdma", "backing": {"pairedUplink": "key-vmnic4"},
               "connectionInfo": {"state": "active", "mtu": 4096, "speedInMbps": 100000},
               "capability": {"roceV1Capable": True, "roceV2Capable": True}}  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "speed", "args"),
    [
        ({}, "auto", None),
        ({}, 10000, {"speedMb": 10000, "duplex": True, "_typeName": "PhysicalNicLinkInfo"}),
        ({"linkSpeed": {"speedMb": 10000, "duplex": True}}, 10000, None),
        ({"linkSpeed": {"speedMb": 10000, "duplex": True}}, "auto", "unset"),
    ],
)
def test_speed(spec, speed, args):
    judged = judge(wanted(speed=speed), ESX1, estate(esx(pnic("vmnic4", spec=spec))))
    if args is None:
        assert judged.steps == ()
        return
    step = judged.step
    assert (step.path, step.method, step.needs_maintenance) == (
        "configManager.networkSystem", "UpdatePhysicalNicLinkSpeed", True,
    )  # fmt: skip
    assert step.args == {"device": "vmnic4", **({} if args == "unset" else {"linkSpeed": args})}


DENIED = ProbeFailure("ssh.stopped", "SSH is stopped", "use --start-ssh")


@pytest.mark.parametrize(
    ("facts", "state", "rule"),
    [
        (esx(), wanted("vmnic9", speed="auto"), "nics.missing"),
        (esx(), wanted(speed=40000), "nics.speed"),
        (esx(pnic("vmnic4", autoNegotiateSupported=False)), wanted(speed="auto"), "nics.speed"),
        (esx(), wanted("vmnic5", pause=Pause(rx=True)), "nics.pause"),
        (esx(listing=DENIED), pause(rx=False), "ssh.stopped"),
        (esx(listing=CommandOutput(1, "Error: Unknown command\n")), pause(rx=False), "nics.unreadable"),
        (esx(listing=None), pause(rx=False), "nics.unreadable"),
        (esx(**{"config__network__rdmaDevice": (ROCE_DEVICE,), "query:nmlx5_core": "pfctx=0x08 pfcrx=0x08"}),
         pause(tx=True), "nics.pfc"),
    ],
)  # fmt: skip
def test_problems(facts, state, rule):
    assert set(judge(state, ESX1, estate(facts)).problems) == {rule}


def test_speed_needs_no_ssh():
    assert not judge(wanted(speed=1000), ESX1, estate(esx(listing=DENIED))).problems


def test_pause_off_goes_well_with_pfc():
    facts = esx(config__network__rdmaDevice=(ROCE_DEVICE,), **{"query:nmlx5_core": "pfctx=8 pfcrx=8"})
    assert rules(plan_one(estate(facts), ESX1, pause(rx=False, tx=False))) == set()


def test_the_switch_has_to_do_alike():
    assert "vmnic4 need flow control on" in judge(pause(rx=True), ESX1, estate(esx())).notes[0]
    assert judge(pause(rx=False, tx=False), ESX1, estate(esx())).notes == ()


def test_show_states_speed_and_what_was_read_of_pause():
    forced = pnic("vmnic5", spec={"linkSpeed": {"speedMb": 1000, "duplex": True}})
    seen = view(estate(esx(pnic("vmnic4"), forced)))
    state = seen.state(ESX1.ref, "nics").export(ESX1, seen, "playbook").state
    assert state.nics == {
        "vmnic4": NicSettings(pause=Pause(rx=True, tx=False), speed="auto"),
        "vmnic5": NicSettings(speed=1000),
    }
    assert not judge(state, ESX1, seen.estate).fields
    assert state_of(HostNics, Facts("HostSystem:host-9")) is None


@pytest.mark.parametrize("name", ["vmnic", "vmk4", "vmnic4; reboot", "vmnic4\n", "-n", "VMNIC4", "vmnic12345"])
def test_nothing_but_a_nic_gets_into_a_command(name):
    with pytest.raises(ValidationError):
        wanted(name, speed="auto")


@pytest.mark.parametrize("fields", [{"speed": 0}, {"speed": "fast"}, {"pause": {"rx": "yes"}}, {"mtu": 9000}])
def test_values_that_do_not_exist(fields):
    with pytest.raises(ValidationError):
        NicSettings(**fields)


def test_what_is_left_out_of_rings_is_not_told():
    assert [str(r) for r in (Rings(rx=4096), Rings(tx=512), Rings(rx=1, tx=2))] == ["rx 4096", "tx 512", "rx 1, tx 2"]
