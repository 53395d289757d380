"""T-02, T-03, T-05: killed or stopped at any time, also while it is being resumed, a run comes to its end."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import time
from datetime import UTC, datetime

import pytest
from reliability.harness import Spec, effects, journals
from support.gates import LONG
from support.seeds import FULL, cases, chance


@pytest.mark.parametrize("number", cases(5, 200))
def test_killed_at_any_time(mission, number):
    after = chance("kill", number).uniform(0.1, 1.05) * mission.seconds
    print(f"killed after {after:.3f} s")
    ended = mission.start().kill_after(after)
    assert ended.code in (-signal.SIGKILL, 0), ended.text
    mission.converged() if ended.code else mission.judge(ended.text)


def test_a_killed_run_goes_on_within_three_seconds(mission):
    """From the command to its first step; it may try three times, because other tests run beside it."""
    begun = [p for p in mission.points if p.startswith("after begin")]
    took = []
    while len(took) < 3 and min(took, default=60.0) > 3.0:
        took.append(seconds_to_go_on(mission, begun[len(begun) * (len(took) + 1) // 4]))
    print("first step after", ", ".join(f"{t:.2f} s" for t in took))
    assert min(took) <= 3.0


def fresh(mission):
    """Begin with the farm as it was, and without journals."""
    mission.lab.post("/lab/reset")
    for path in journals():
        for file in path.parent.glob(f"{path.name}*"):  # what a killed run leaves beside it, too
            file.unlink()


def seconds_to_go_on(mission, point):
    """Let a run die there, let it go on to its end, and return how long that took to its first step."""
    fresh(mission)
    assert mission.apply(Spec(at=point)).code == 137
    (path,) = journals()
    began = datetime.now(UTC)
    mission.converged()
    with contextlib.closing(sqlite3.connect(path)) as db:
        ((first,),) = db.execute("select min(began) from step where attempt = 2")
    return (datetime.fromisoformat(first) - began).total_seconds()


@pytest.mark.parametrize("number", cases(2, 50))
def test_killed_again_while_it_is_resumed(mission, number):
    """Twice at least: a chain in which a command ended before its turn is begun anew, and its kills come sooner."""
    random = chance("chain", number)
    wanted = random.choice((2, 3, 3))
    for sooner in (1.0, 0.7, 0.5, 0.3):
        fresh(mission)
        kills = [random.uniform(0.1, 0.9 * sooner) * mission.seconds for _ in range(wanted)]
        print("killed after", ", ".join(f"{k:.3f} s" for k in kills))
        ended = mission.start().kill_after(kills[0])
        codes = [ended.code]
        while ended.code and len(codes) < wanted:
            ended = mission.start_again().kill_after(kills[len(codes)])
            codes.append(ended.code)
        assert set(codes) <= {-signal.SIGKILL, 0}, ended.text
        mission.converged() if mission.unfinished() or ended.code else mission.judge(ended.text)
        if codes.count(-signal.SIGKILL) >= 2:
            return
    raise AssertionError("no command was killed while it resumed")


@pytest.mark.parametrize("number", cases(2, 4, 10))
def test_stopped_for_a_while(mission, number):
    """The machine slept: when it goes on, vCenter has forgotten the session."""
    random = chance("stop", number)
    long = FULL and number < 2  # with the limits as they are, not as short as the lab's boots
    going = mission.start(Spec(limits={}) if long else None)
    middle, end = random.uniform(0.05, 0.85) * mission.done.total(), time.monotonic() + LONG
    while effects(mission.lab).total() < middle and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(random.uniform(0.0, 0.1))
    going.signal(signal.SIGSTOP)
    logins = mission.lab.get("/lab/farm")["logins"]
    mission.lab.post("/lab/sessions/expire")
    time.sleep(90 if long else random.uniform(0.5, 2.0))
    going.signal(signal.SIGCONT)
    ended = going.wait()
    again = mission.lab.get("/lab/farm")["logins"]
    mission.judge(ended.text, sessions=True, code=ended.code)
    assert again == logins + 1, ended.text


def test_killed_while_it_reads_over_ssh_it_started(mission):
    """SSH that was started only to read is in no journal; the next command stops it, then starts anew."""
    mission.lab.set_faults([{"on": "ssh: nvidia-smi", "target": "esx03*", "nth": 1, "do": {"delay": "30s"}}])
    going = mission.start()
    end = time.monotonic() + LONG
    while not mission.lab.get("/lab/faults")["fired"] and time.monotonic() < end:
        time.sleep(0.02)
    ended = going.kill_after(0)
    mission.lab.clear_faults()
    assert ended.code == -signal.SIGKILL, ended.text
    assert not mission.runs()
    hosts = {h["name"]: h["ssh"]["running"] for h in mission.lab.get("/lab/farm")["hosts"]}
    assert hosts["esx03.lab.local"], "SSH was not left running"
    mission.converged()
