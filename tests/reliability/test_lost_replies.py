"""T-04, T-20, T-23: replies that get lost and sessions that end; and a tool that sends again is found out."""

from __future__ import annotations

import time

import pytest
from reliability.harness import TUNE, Spec
from support.gates import LONG, busy
from support.seeds import cases, chance

from vsphere_ai.planning import privileges

METHODS = ("ShutdownGuest", "EnterMaintenanceMode_Task", "UpdateGraphicsConfig", "UpdateOptions", "EnableRuleset",
           "ssh: nvidia-smi -i \\S+ -mig", "ssh: esxcli system shutdown reboot", "StartService",
           "ExitMaintenanceMode_Task", "UpgradeVM_Task", "ReconfigVM_Task", "PowerOnVM_Task", "RebootHost_Task",
           "ssh: nvidia-smi mig .*-cgi", "StopService", "RefreshGraphicsManager")  # fmt: skip
ONLY_ONCE = ("RebootHost_Task", "ssh: nvidia-smi mig .*-cgi")  # on one host of the farm
NETWORK = {"CreateDVS_Task": 2, "AddDVPortgroup_Task": 2, "ReconfigureDVPortgroup_Task": 1, "AddVirtualNic": 3,
           "EnableNetworkResourceManagement": 2, "UpdateVirtualNic": 3, "ReconfigureDvs_Task": 1, "UpdateOptions": 3,
           "EnableRuleset": 3, "UpdatePassthruConfig": 3, "UpdateModuleOptionString": 2, "UpgradeVM_Task": 2,
           "ReconfigVM_Task": 2}  # fmt: skip
"""Methods of the playbook of every kind, and how often each is called."""
RARE = {"PerformDvsProductSpecOperation_Task": 1, "DvsReconfigureVmVnicNetworkResourcePool_Task": 1,
        "DisableRuleset": 2, "UpdatePhysicalNicLinkSpeed": 2, "SelectVnicForNicType": 2, "DeselectVnicForNicType": 2,
        "PowerOffVM_Task": 2, "UpdateDateTimeConfig": 2, "UpdateServicePolicy": 2,
        "ConfigurePowerPolicy": 2, "UpdateLockdownExceptions": 1, "ChangeLockdownMode": 1}  # fmt: skip
"""Methods that only a third playbook needs."""
LOCKS = {"CreateFolder", "Destroy_Task"}
"""Sent to hold the lock in vCenter, which has tests of its own."""
MOVES = {"MigrateVM_Task"}
"""Loses its reply in tests/e2e/test_vgpu_vmotion.py, which has the farm for it."""
READS = ("RetrievePropertiesEx", "ContinueRetrievePropertiesEx", "WaitForUpdatesEx", "CreateContainerView",
         "QueryOptions", "fetchSoftwarePackages", "RetrieveServiceContent")  # fmt: skip


def fired(lab):
    return lab.get("/lab/faults")["fired"]


def lose_and_kill(mission, method, nth, delay, spec=None):
    """Lose the reply of a call, and kill the tool as long after; return how it ended."""
    mission.lab.set_faults([{"on": method, "nth": nth, "do": "lost-reply"}])
    going = mission.start(spec)
    end = time.monotonic() + LONG
    while not fired(mission.lab) and time.monotonic() < end:
        time.sleep(0.02)
    ended = going.kill_after(delay)
    assert fired(mission.lab), f"the fault was never met\n{ended.text}"
    mission.lab.clear_faults()
    return ended


@pytest.mark.parametrize("number", cases(len(METHODS), 100))
def test_killed_after_a_lost_reply(mission, number):
    random = chance("lost", number)
    method = METHODS[number % len(METHODS)]
    nth = 1 if method in ONLY_ONCE else random.randint(1, 2)
    delay = random.choice((0.0, random.uniform(0.0, 1.5)))
    print(f"{method} no. {nth}, killed {delay:.3f} s later")
    ended = lose_and_kill(mission, method, nth, delay)
    mission.converged() if ended.code else mission.judge(ended.text)


@pytest.mark.parametrize("number", cases(2, len(NETWORK), 60))
def test_a_lost_reply_about_networks_and_devices(network_mission, number):
    lose_one_of(network_mission, NETWORK, number)


@pytest.mark.parametrize("number", cases(2, 2 * len(RARE), 6 * len(RARE)))
def test_a_lost_reply_to_a_call_that_is_rare(rare_mission, number):
    lose_one_of(rare_mission, RARE, number)


def lose_one_of(mission, counts, number):
    """Killed thereafter, or not: then the run itself finds out what happened."""
    random = chance("lost-one", len(counts), number)
    method = list(counts)[number % len(counts)]
    nth = random.randint(1, counts[method])
    delay = random.choice((60.0, 60.0, random.uniform(0.0, 1.5)))
    print(f"{method} no. {nth}, killed {delay:.3f} s later")
    ended = lose_and_kill(mission, method, nth, delay)
    assert ended.code == 0 or delay < 60, ended.text
    mission.converged() if ended.code else mission.judge(ended.text)


LEASES = {"AddCustomFieldDef", "SetField"}
"""Their replies are lost in ``tests/connect/test_address_ledger.py``, one by one."""

SETS = {"setCustomValue"}
"""Loses its reply in tests/e2e/test_vm_set_details.py; calls that make VMs do in test_vm_set_faults.py."""


def test_every_call_that_changes_something_loses_its_reply_by_name():
    sent = {m for duty in privileges.ROLE for m in duty.methods}
    reads = {m for m in sent if m.lower().startswith(("query", "fetch", "has", "current", "createcontainerview"))}
    assert sent - reads - LOCKS - MOVES - LEASES - SETS <= {*METHODS, *NETWORK, *RARE}


@pytest.mark.parametrize(
    ("method", "spoil"),
    [("UpgradeVM_Task", ("resend",)), ("ReconfigVM_Task", ("resend", "no-change-version"))],
    ids=["upgrade", "device"],
)
def test_a_tool_that_sends_again_is_found_out(mission, method, spoil):
    """The proof that the test above can fail: what pyVmomi's own session stub does makes it fail."""
    spec = Spec(spoil=spoil, tune={**TUNE, "READ_BACK_VM": 3})
    ended = lose_and_kill(mission, method, 1, 60.0, spec)
    with pytest.raises(AssertionError, match=r"too much|duplicates"):
        mission.converged() if ended.code else mission.judge(ended.text)


@pytest.mark.parametrize("number", cases(3, 100))
def test_sessions_that_end(mission, number):
    random = chance("expire", number)
    nths = sorted(random.sample(range(5, int(mission.calls * 0.8)), k=random.choice((1, 1, 2))))
    print("the session ends at calls", nths)
    mission.lab.set_faults([{"on": "any", "nth": n, "do": "expire-session"} for n in nths])
    ended = mission.apply()
    logins, met = mission.lab.get("/lab/farm")["logins"], len(fired(mission.lab))
    mission.lab.clear_faults()
    mission.judge(ended.text, sessions=True, code=ended.code)
    assert met, "no session ended"
    assert logins <= met + 1, f"{logins} logins, {met} sessions ended"


@pytest.mark.parametrize("number", cases(2, 10, 20))
def test_a_vcenter_that_is_overloaded(mission, number):
    overload(mission, "overload", number)


@pytest.mark.parametrize("number", cases(0, 1, 4))
def test_a_large_farm_whose_vcenter_is_overloaded(large_mission, number):
    """Sixteen hosts of eight GPUs, 64 VMs; it takes at most twice as long as on a day when nothing happens."""
    seconds = overload(large_mission, "overload-large", number)
    print(f"{seconds:.1f} s, undisturbed {large_mission.seconds:.1f} s")
    assert seconds <= 2 * large_mission.seconds + 4 * TUNE["LOST_CALL"] * busy()


def overload(mission, *about):
    """A tenth of the reads is answered 503, and every twentieth reply to a change is lost; return the seconds."""
    rules = [{"on": r, "probability": 0.1, "do": 503} for r in READS]
    rules.append({"on": "any-mutation", "probability": 0.05, "do": "lost-reply"})
    seed = chance(*about).randrange(1 << 30)
    print(f"faults with seed {seed}")
    mission.lab.set_faults(rules, seed=seed)
    ended = mission.apply()
    met = fired(mission.lab)
    mission.lab.clear_faults()
    assert met
    seconds = ended.seconds
    if ended.code:
        seconds += mission.converged(tries=2, stopped=1).seconds
    else:
        mission.judge(ended.text)
    return seconds
