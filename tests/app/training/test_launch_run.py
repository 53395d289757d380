"""Jobs on real OpenSSH servers: right sums, exit codes, logs, and nothing left of a run that fails or is stopped."""
# ruff: noqa: F811 - the fixture is imported

from __future__ import annotations

import os
import signal
import time

import pytest
import yaml
from support.gates import LONG
from support.raising import refused
from support.training_guests import ALL_REDUCE, gone, guests, processes_of, supervisors  # noqa: F401

from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.training.launch.job import LaunchRequest
from vsphere_ai.app.training.launch.run import RunRequest, run_logs, run_status, start_job, stop_run, wait_for_run
from vsphere_ai.errors import StepFailed, UsageError, VsphereAiError
from vsphere_ai.report.training.launch_text import run_text

RANKS = ["rank-0", "rank-1", "rank-2", "rank-3"]


@pytest.fixture
def two(guests):
    for vm in ("trn-01", "trn-02"):
        guests.start(vm)
    return guests


class Jobs:
    """A job on guests, as the tool runs it."""

    def __init__(self, guests, script=ALL_REDUCE, mode="env", **more):
        self.guests, self.mode = guests, mode
        self.path = guests.job(script, **more)
        self.estate = EstateRequest(guests.folder / "vsphere-ai.yaml")
        self.run = ""

    def start(self):
        self.run = start_job(LaunchRequest(self.path, self.mode, self.estate, preflight=False)).run
        return self

    @property
    def request(self):
        return RunRequest(self.path, self.run, self.estate)

    def status(self):
        return run_status(self.request)

    def wait(self):
        return wait_for_run(self.request, every=0.2)

    def until_running(self, count=4):
        until = time.monotonic() + LONG
        while len(self.rank_pids()) < count:
            assert time.monotonic() < until, self.status()
            time.sleep(0.05)

    def pid_of(self, rank):
        environments = ((p, open(f"/proc/{p}/environ", "rb").read().split(b"\0")) for p in self.rank_pids())  # noqa: SIM115
        return next(p for p, env in environments if f"RANK={rank}".encode() in env)

    def rank_pids(self):
        return sorted(processes_of(self.run))

    def log(self, vm, name):
        return run_logs(self.request).logs[vm][name]

    def codes(self):
        return {name: code for each in self.status().found.values() for name, code in each.processes.items()}


@pytest.mark.parametrize("start", ["together", "head_first", "head_last"])
def test_four_processes_on_two_nodes_have_the_right_sum(two, start):
    job = Jobs(two, start=start).start()
    found = job.wait()
    assert [(n.state, n.outcome, n.attempt) for n in found.found.values()] == [("ended", "done", 1)] * 2
    assert found.exit_code == 0
    assert job.codes() == dict.fromkeys(RANKS, 0)
    logs = run_logs(job.request).logs
    assert {text for own in logs.values() for name, text in own.items() if name != "supervisor.log"} == {
        f"rank {n} sum 10\n" for n in range(4)
    }
    for vm, names in (("trn-01", RANKS[:2]), ("trn-02", RANKS[2:])):
        folder = two.folder_of(vm) / job.run
        assert {p.stem: p.read_text() for p in folder.glob("*.exit")} == dict.fromkeys(names, "0\n")
    assert gone(job.run)


@pytest.mark.parametrize(
    ("start", "broken", "begun"),
    [
        ("head_first", "trn-01", []),
        ("head_first", "trn-02", ["trn-01"]),
        ("head_last", "trn-01", ["trn-02"]),
        ("head_last", "trn-02", []),
    ],
)
def test_nodes_that_come_later_start_once_the_first_ones_have(two, start, broken, begun):
    """The program is missing on one node: what comes after that node is never started, what comes before it was."""
    works = ({"trn-01", "trn-02"} - {broken}).pop()
    program = two.folder / works / "bin" / "own-program"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    job = Jobs(two, start=start, command=["own-program"], processes_per_node=1)
    document = yaml.safe_load(job.path.read_text())
    del document["script"]
    job.path.write_text(yaml.safe_dump(document))
    found = job.start().wait()
    assert found.head.outcome == "failed"
    assert "own-program" in found.head.reason
    assert [
        vm for vm in two.servers if vm != broken and list((two.folder_of(vm) / job.run).glob("rank-*.log"))
    ] == begun
    assert gone(job.run)


WAITING = "import time, os, sys\nprint(os.environ['RANK'], flush=True)\ntime.sleep(600)\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, -15)])
def test_a_rank_that_dies_stops_all_others(two, number, code):
    job = Jobs(two, WAITING).start()
    job.until_running()
    os.kill(job.pid_of(3), number)
    found = job.wait()
    assert gone(job.run)
    assert found.exit_code == 1
    assert {n.outcome for n in found.found.values()} == {"failed"}
    assert found.head.reason == f"rank-3 on node 1 ended with {code}"
    assert job.codes() == {**dict.fromkeys(RANKS, -15), "rank-3": code}


# it ignores the request to end, and has children: in its group, in a session of their own, and without its environment
STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
wait = [sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"]
children = [subprocess.Popen(wait), subprocess.Popen(wait, start_new_session=True)]
children.append(subprocess.Popen(wait, start_new_session=True, env={}))
orphan = subprocess.run([sys.executable, "-c", f"import subprocess; print(subprocess.Popen({wait!r}, env={{}}, "
    "start_new_session=True, stdout=subprocess.DEVNULL).pid)"], stdout=subprocess.PIPE, text=True)
print(*[c.pid for c in children], orphan.stdout.strip(), flush=True)
time.sleep(600)
"""


def test_nothing_is_left_of_processes_that_do_not_want_to_end(two):
    job = Jobs(two, STUBBORN, processes_per_node=1).start()
    until = time.monotonic() + LONG
    while (
        len(pids := [p for vm, n in (("trn-01", 0), ("trn-02", 1)) for p in job.log(vm, f"rank-{n}.log").split()]) < 8
    ):
        assert time.monotonic() < until
        time.sleep(0.1)
    assert all(os.path.exists(f"/proc/{pid}") for pid in pids)
    found = stop_run(job.request)
    assert [pid for pid in pids if os.path.exists(f"/proc/{pid}")] == []
    assert gone(job.run, 0)
    assert {(n.state, n.outcome, n.left) for n in found.found.values()} == {("ended", "stopped", ())}
    assert found.exit_code == 0


def test_a_node_whose_supervisor_is_killed_is_gone_for_the_others(two):
    job = Jobs(two, WAITING).start()
    job.until_running()
    state = job.status().found["trn-02"]
    assert state.alive
    assert len(state.pids) >= 2
    pid = supervisors(two, "trn-02")[0]
    os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + LONG
    while job.status().head.outcome != "failed":
        assert time.monotonic() < until
        time.sleep(0.1)
    assert job.status().head.reason == "node 1 is gone"
    found = stop_run(job.request)
    assert gone(job.run, 0)
    assert found.found["trn-02"].left == ()


def killed_supervisors(two):
    """Kill them all at once: one that is left for a moment would see that another is gone, and begin to stop."""
    pids = [pid for vm in ("trn-01", "trn-02") for pid in supervisors(two, vm)]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            os.kill(pid, number)


def test_a_run_without_supervisors_goes_on_as_long_as_its_processes_and_can_be_stopped(two):
    job = Jobs(two, WAITING).start()
    job.until_running()
    killed_supervisors(two)
    found = job.status()
    ranks = len(processes_of(job.run))  # the guests of a test see each other's processes
    assert [(n.alive, n.state, len(n.pids)) for n in found.found.values()] == [(False, "running", ranks)] * 2
    assert not found.is_over
    assert f"{ranks} processes running; its supervisor is gone" in run_text(found)
    stopped = stop_run(job.request)
    assert gone(job.run, 0)
    assert {(n.state, n.left) for n in stopped.found.values()} == {("ended", ())}
    assert "stopped" in {n.outcome for n in stopped.found.values()}  # the other may find that its processes are gone
    assert {n.state for n in job.status().found.values()} == {"ended"}


def test_a_run_without_supervisors_and_processes_has_failed(two):
    job = Jobs(two, WAITING).start()
    job.until_running()
    killed_supervisors(two)
    for pid in processes_of(job.run):
        os.kill(pid, signal.SIGKILL)
    assert gone(job.run)
    found = job.wait()
    assert {(n.state, n.outcome, n.reason) for n in found.found.values()} == {
        ("ended", "failed", "its supervisor is gone, and no process of it is left")
    }
    assert found.exit_code == 1


def test_the_first_node_ending_well_may_end_the_job(two):
    script = "import os, time\ntime.sleep(0.5 if int(os.environ['RANK']) < 2 else 600)\n"
    job = Jobs(two, script, done_when="head").start()
    assert job.wait().head.outcome == "done"
    assert job.codes() == {"rank-0": 0, "rank-1": 0, "rank-2": -15, "rank-3": -15}


CHECKPOINTS = """
import os, sys, time
folder, resumed = sys.argv[1], len(sys.argv) > 2
if os.environ["RANK"] == "0":
    old = os.listdir(folder)
    if len(old) < int(os.environ["MOST"]):
        open(os.path.join(folder, f"step-{len(old)}"), "w").close()
    elif os.environ["ENDS"] == "1":
        sys.exit(0)
    sys.exit(3)
time.sleep(600 if os.environ["ENDS"] == "0" else 1)
"""


@pytest.mark.parametrize(("ends", "outcome", "attempts"), [("1", "done", 6), ("0", "failed", 8)])
def test_a_job_goes_on_with_progress_and_is_given_up_after_three_restarts_without(two, ends, outcome, attempts):
    """Five checkpoints are written, one in each of the first five starts."""
    folder = two.folder / "checkpoints"
    folder.mkdir()
    job = Jobs(
        two,
        CHECKPOINTS,
        args=[str(folder)],
        resume_cmd=[str(two.folder / "train.py"), str(folder), "--resume"],
        checkpoint={"dir": str(folder)},
        env={"MOST": 5, "ENDS": ends},
        processes_per_node=1,
        done_when="head",
    ).start()
    found = job.wait()
    assert (found.head.outcome, found.head.attempt) == (outcome, attempts), found
    assert gone(job.run)


# the memory of its GPU is in use at the first look after a failure, and free at the second
SMI = """case "$1" in
--query-compute-apps=*) cat {folder}/pids 2>/dev/null || true ;;
*) echo look >> {folder}/looks; [ $(wc -l < {folder}/looks) -eq 1 ] && echo 20000 || echo 3 ;;
esac
"""


def test_a_job_starts_again_once_the_memory_of_the_gpus_is_free(two):
    two.nvidia_smi("trn-02", SMI.format(folder=two.folder))
    script = two.folder / "train.py"
    job = Jobs(two, "import sys\nsys.exit(len(sys.argv) < 2)\n", resume_cmd=[str(script), "--resume"]).start()
    found = job.wait()
    assert (found.head.outcome, found.head.attempt) == ("done", 2)
    assert (two.folder / "looks").read_text() == "look\nlook\n"


def test_a_process_that_a_gpu_still_lists_is_left(two):
    two.nvidia_smi("trn-02", SMI.format(folder=two.folder))
    job = Jobs(two, WAITING).start()
    job.until_running()
    own = job.pid_of(2)
    (two.folder / "pids").write_text(f"{own}\n1\n")  # the other one is not of this run
    found = stop_run(job.request)
    assert found.found["trn-02"].left == (own,)
    assert (found.exit_code, found.head.outcome) == (1, "failed")
    assert str(own) in found.head.reason
    assert gone(job.run, 0)


@pytest.mark.parametrize(("code", "unsure"), [(15, True), (255, True), (9, False), (12, False)])
def test_a_gpu_that_does_not_say_what_it_does_is_no_proof(two, code, unsure):
    two.nvidia_smi("trn-02", f"exit {code}\n")
    job = Jobs(two, WAITING).start()
    job.until_running()
    found = stop_run(job.request)
    assert found.found["trn-02"].unsure is unsure
    assert (found.exit_code, found.head.outcome) == ((1, "failed") if unsure else (0, "stopped"))
    assert ("nvidia-smi does not answer" in found.head.reason) is unsure
    assert gone(job.run, 0)


def test_a_second_run_of_the_job_finds_the_port_in_use(two):
    job = Jobs(two, WAITING).start()
    job.until_running()
    with refused(StepFailed, "launch.start", "trn-01"):
        start_job(LaunchRequest(job.path, "env", job.estate, preflight=False))
    assert len(job.rank_pids()) == 4
    stop_run(job.request)
    assert gone(job.run, 0)


def test_a_program_that_is_not_there(two):
    job = Jobs(two, WAITING, python="/no/such/python").start()
    found = job.wait()
    assert found.head.outcome == "failed"
    assert "No such file" in found.head.reason


def test_a_guest_that_is_not_reached_starts_nothing(two):
    job = Jobs(two, WAITING)
    two.servers["trn-02"].stop()
    with pytest.raises(VsphereAiError, match="trn-02"):
        job.start()
    assert not (two.folder_of("trn-01")).exists()


def test_the_newest_run_is_meant_and_a_name_of_another_job_is_refused(two):
    job = Jobs(two).start()
    job.wait()
    assert run_status(RunRequest(job.path, "", job.estate)).run == job.run
    with refused(UsageError, "usage", "other-1"):
        run_status(RunRequest(job.path, "other-1", job.estate))
