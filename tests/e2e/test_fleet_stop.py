"""A fleet that is stopped, halted, cut off from a vCenter or from its disk: by the ledgers of its labs."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace

import pytest
from support import fleets
from support.fleets import SITES, effects
from support.gates import LONG
from support.processes import Process
from support.small_disk import KIB, SmallDisk

from vsphere_ai.connect import vcenter

pytestmark = pytest.mark.lab
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


@pytest.fixture
def labs(make_lab):
    made = {site: make_lab(fleets.scenario(site)) for site in SITES}
    yield made
    for lab in made.values():
        lab.clear_faults()


@pytest.fixture
def given(cli, labs):
    """What a fleet of both labs is begun with; one VM of each at a time."""
    both = cli.file(fleets.inventory(labs), "both.yml")
    return ("fleet", "apply", cli.file(fleets.playbook()), "-i", both, "--yes", "--parallel", "1")


@pytest.fixture
def process(labs):
    """Starts `vsphere-ai ARGS` as a process of its own."""
    begun = []

    def start(*arguments):
        begun.append(Process(labs["berlin"], *arguments))
        return begun[-1]

    yield start
    for lab in labs.values():
        lab.clear_faults()
    for each in begun:
        if each.process.poll() is None:
            each.process.kill()


def shards(cli, *fleet):
    """Each shard of the latest fleet by `fleet status`, which asks no vCenter."""
    assert cli("fleet", "status", *fleet, "-o", "json") == 0, cli.err
    return {s["vcenter"]: s for s in json.loads(cli.out)["fleets"][-1]["shards"]}


def states(cli, *fleet):
    return {name: shard["state"] for name, shard in shards(cli, *fleet).items()}


def stopping(process):
    return sum("stopping" in line for line in process.out) >= len(SITES)


@pytest.mark.parametrize("number", list(CODES))
def test_the_first_signal_finishes_what_is_in_flight_in_each_vcenter(cli, labs, given, process, number):
    for lab in labs.values():
        fleets.hold(lab, nth=2)
    running = process(*given)
    fleets.struck(*labs.values())
    assert states(cli) == dict.fromkeys(SITES, "unfinished"), "it still works"
    running.send(number)
    running.until(lambda _: stopping(running))
    assert stopping(running), running.said
    for lab in labs.values():
        lab.clear_faults()
    assert running.wait() == CODES[number], running.said
    assert {site: sum(effects(lab).values()) for site, lab in labs.items()} == dict.fromkeys(SITES, 2), running.said
    assert "vsphere-ai fleet resume" in running.said
    assert not any(fleets.open_sessions(lab) for lab in labs.values())
    assert states(cli) == dict.fromkeys(SITES, "stopped")
    assert cli("fleet", "resume") == 0, cli.out + cli.err
    fleets.all_once(labs)
    assert states(cli) == dict.fromkeys(SITES, "done")


def test_a_signal_before_the_first_step_starts_nothing(cli, labs, given, process):
    """Both vCenters are being read when it comes: one signal is enough, and there is no run."""
    for lab in labs.values():
        lab.set_faults([{"on": "RetrievePropertiesEx", "nth": 1, "do": "hold"}])
    running = process(*given)
    fleets.struck(*labs.values())
    running.send(signal.SIGTERM)
    for lab in labs.values():
        lab.clear_faults()
    assert running.wait() == 143, running.said
    assert not any(effects(lab) for lab in labs.values())
    assert not any(fleets.open_sessions(lab) for lab in labs.values())
    assert cli("fleet", "status") == 0
    assert "no fleet was run here yet" in cli.out


def test_the_second_signal_leaves_at_once(cli, labs, given, process):
    for lab in labs.values():
        fleets.hold(lab, nth=2)
    running = process(*given)
    fleets.struck(*labs.values())
    running.send(signal.SIGINT)
    running.until(lambda _: stopping(running))
    running.send(signal.SIGINT)
    assert running.wait(LONG) == 130, running.said
    assert "Traceback" not in running.said
    (fleet,) = fleets_here()
    assert f"vsphere-ai fleet resume {fleet}" in running.said, "not one run of it, but all"
    assert not any(fleets.open_sessions(lab) for lab in labs.values()), "logged out also in haste"
    for lab in labs.values():
        lab.clear_faults()
    assert cli("fleet", "resume") == 0, cli.out + cli.err
    fleets.all_once(labs)


def fleets_here():
    from vsphere_ai.fleet.run import list_fleets

    return [each.fleet for each in list_fleets()]


FAILS = [{"on": "UpgradeVM_Task", "nth": 1, "do": {"task-fails": "InvalidState"}}]


@pytest.mark.parametrize("halt", [True, False])
def test_a_failure_in_one_vcenter_stops_the_others_only_where_that_is_asked_for(cli, labs, given, process, halt):
    fleets.hold(labs["berlin"], nth=1)
    fleets.hold(labs["munich"], nth=2)
    running = process(*given, *(["--halt-on-failure"] if halt else []))
    fleets.struck(*labs.values())
    labs["berlin"].set_faults(FAILS)  # the next one
    if halt:
        running.until(lambda out: any("munich" in line and "stopping" in line for line in out))
    else:
        fleets.until(lambda: states(cli)["berlin"] == "failed")
    labs["munich"].clear_faults()
    assert running.wait() == 1, "the code of the failure: no one sent a signal\n" + running.said
    assert effects(labs["berlin"])["berlin-02"] == 0
    assert sum(effects(labs["munich"]).values()) == (2 if halt else 4)
    assert states(cli) == {"berlin": "failed", "munich": "stopped" if halt else "done"}
    assert "143" not in running.said
    why = "stopped because berlin failed (--halt-on-failure)"
    assert (why in running.said, "the operator" in running.said) == (halt, False), running.said
    munich = shards(cli)["munich"]
    assert munich["message"] == (why if halt else "")
    assert cli("run", "show", munich["run"]) == 0
    assert (f", {why}" in cli.out, "signal" in cli.out) == (halt, False), cli.out
    labs["berlin"].clear_faults()
    assert cli("fleet", "resume") == 0, cli.out + cli.err
    fleets.all_once(labs)


def test_a_vcenter_that_is_not_reached_when_it_is_planned_refuses_the_fleet(cli, labs, given, monkeypatch):
    short = replace(vcenter.DEFAULTS, patience=0.5, run_patience=0.5, backoff=0.1, longest_pause=0.2)
    monkeypatch.setattr(vcenter, "DEFAULTS", short)
    labs["munich"].set_faults([{"on": "connect", "do": "reset"}])
    assert cli(*given) == 5, cli.out + cli.err
    assert "munich: " in cli.err
    assert "berlin: " not in cli.err
    assert not any(effects(lab) for lab in labs.values())
    assert not fleets_here(), "there is nothing to resume"


def test_a_vcenter_that_goes_away_in_the_middle_is_resumed_later(cli, labs, given, monkeypatch):
    patient = replace(vcenter.DEFAULTS, run_patience=2.0, backoff=0.1, longest_pause=0.5)
    monkeypatch.setattr(vcenter, "DEFAULTS", patient)
    labs["munich"].set_faults([{"on": "UpgradeVM_Task", "nth": 2, "when": "after", "do": {"restart": "8s"}}])
    assert cli(*given) == 5, cli.out + cli.err
    assert "vsphere-ai fleet resume" in cli.err
    assert effects(labs["berlin"]) == fleets.once("berlin"), "the others go on"
    assert states(cli) == {"berlin": "done", "munich": "failed"}
    assert sum(effects(labs["munich"]).values()) < 4
    fleets.until(lambda: listens(labs["munich"].port))
    assert cli("fleet", "resume") == 0, cli.out + cli.err
    fleets.all_once(labs)


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_two_fleets_do_not_work_on_one_vcenter_at_once(cli, labs, given, process):
    fleets.hold(labs["munich"], nth=2)
    running = process(*given)
    fleets.struck(labs["munich"])
    fleets.until(lambda: states(cli)["berlin"] == "done")
    extra = "tuning: {extra_config: {sched.cpu.halt: '0'}}"
    other = cli.file("".join(f"- vms: {s}-04\n  {extra}\n" for s in SITES), "other.yml")
    before = labs["berlin"].get("/lab/ledger")["entries"]
    assert cli("fleet", "apply", other, *given[3:]) == 7, cli.out + cli.err
    assert cli.error == "lock.held"
    assert "munich: " in cli.err
    assert labs["berlin"].get("/lab/ledger")["entries"] == before, "nothing in the one that is free either"
    assert len(fleets_here()) == 1
    assert cli("fleet", "resume", fleets_here()[0]) == 7, "it still runs"
    assert cli.error == "run.under-way"
    labs["munich"].clear_faults()
    assert running.wait() == 0, running.said
    fleets.all_once(labs)


def test_a_vcenter_that_has_two_names_is_planned_once(cli, labs):
    """Both shards would do the same, and wait for each other's lock."""
    twice = cli.file(fleets.inventory({"berlin": labs["berlin"], "capital": labs["berlin"]}), "twice.yml")
    given = (cli.file(fleets.playbook(["berlin"])), "-i", twice)
    assert cli("fleet", "plan", *given) == 64, cli.out + cli.err
    assert "berlin and capital are the same vCenter" in cli.err
    assert cli("fleet", "plan", *given, "--vcenter", "capital") == 0, cli.err


def test_a_vcenter_that_is_not_as_planned_when_its_run_begins_is_refused_alone(cli, labs, given):
    """Changed between the comparison of all and its own run."""
    from vsphere_ai import app

    estate = app.EstateRequest(given[4], parallel=1)
    plan = app.plan_fleet(app.FleetPlanRequest(given[2], estate), lambda _: app.events.ignore)
    fleet = app.begin_fleet(plan, app.FleetOptions(estate)).fleet
    assert states(cli) == dict.fromkeys(SITES, "not started")
    alone = cli.file("- vms: munich-01\n  hardware: {version: 19}\n", "alone.yml")
    assert cli("apply", alone, "-i", given[4], "--vcenter", "munich", "--yes") == 0, cli.err
    assert cli("fleet", "resume") == 3, cli.out + cli.err
    assert "refused" in cli.out
    assert "stale" in cli.out
    assert "plan it again" in cli.err, "resuming it again would lead nowhere"
    assert states(cli, fleet) == {"berlin": "done", "munich": "refused"}
    refused = shards(cli, fleet)["munich"]
    assert refused["rule"] == "plan.stale"
    assert "munich-01: upgrade to hardware version 19" in refused["message"]
    assert cli("fleet", "status", fleet) == 0
    assert f"munich: fleet {fleet} is stale" in cli.out
    assert cli("fleet", "resume", fleet) == 3, "it is asked for again, and refused again"
    assert {site: effects(lab) for site, lab in labs.items()} == {
        "berlin": fleets.once("berlin"),
        "munich": {"munich-01": 1},
    }
    assert cli("fleet", "apply", *given[2:]) == 0, cli.out + cli.err
    fleets.all_once(labs)


@pytest.fixture
def small_disk(tmp_path, monkeypatch):
    """The state folder on a disk of its own; `run(*arguments)` runs the command line there."""
    disk = SmallDisk(tmp_path / "disk")
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(disk.folder))

    def run(*arguments):
        argv = [*disk.within, sys.executable, "-m", "vsphere_ai", *map(str, arguments)]
        return subprocess.run(argv, capture_output=True, text=True, env={**os.environ, "COLUMNS": "160"}, timeout=LONG)

    disk.run = run
    yield disk
    disk.close()


@pytest.mark.parametrize("leave", [0, 24, 64, 128, 200])
def test_a_full_disk_ends_what_was_noted_and_sends_nothing_more(cli, labs, given, small_disk, leave):
    """Record of the fleet, journals, their logs: whichever comes first does not fit."""
    small_disk.fill(leave * KIB)
    ended = small_disk.run(*given)
    said = f"{leave} KiB were free\n{ended.stdout}\n{ended.stderr}"
    assert ended.returncode == 8, said
    assert "Traceback" not in said
    begun = list((small_disk.seen / "fleets").glob("*.json"))
    assert not list((small_disk.seen / "fleets").glob("*.new")), "half a record is left"
    assert begun or not any(effects(lab) for lab in labs.values()), said
    assert not any(fleets.open_sessions(lab) for lab in labs.values())
    small_disk.clear()
    small_disk.remount("size=16m")
    again = small_disk.run("fleet", "resume") if begun else small_disk.run(*given)
    assert again.returncode == 0, f"{said}\n{again.stdout}\n{again.stderr}"
    fleets.all_once(labs)
