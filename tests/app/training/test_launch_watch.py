"""`launch status` on real OpenSSH servers with networks of their own: a hung rank is named, lost nodes are left out."""
# ruff: noqa: F811 - the fixture is imported

from __future__ import annotations

import sys
import time

import pytest
from app.training.test_launch_run import Jobs
from support.gates import LONG
from support.training_guests import gone, networked, separate  # noqa: F401

from vsphere_ai.app.training.launch.run import RunRequest, run_logs, run_status, stop_run, watch_run

# ranks that write steps, and an answer as NCCL's RAS gives it on each node; `plan` says what befalls whom
RANKS = """
import glob, json, os, socket, sys, threading, time

rank, folder, local = int(os.environ["RANK"]), sys.argv[1], int(os.environ["LOCAL_RANK"])
me = [rank, f"{sys.argv[2]}.{int(os.environ['NODE_RANK']) + 1}", os.getpid(), local]
open(f"{folder}/new-{rank}", "w").write(json.dumps(me))
os.rename(f"{folder}/new-{rank}", f"{folder}/rank-{rank}")
step = 0


def plan():
    return open(f"{folder}/plan").read().split()


def answer():
    kind, *who = plan()
    known = [json.load(open(path)) for path in sorted(glob.glob(f"{folder}/rank-*"))]
    ranks, missing = [], []
    for number, host, pid, gpu in known:
        about = {"rank": number, "host": host, "pid": pid, "cuda_dev": gpu, "nvml_dev": gpu}
        bad = str(number) in who
        count = time.monotonic_ns() // 1000 if kind == "going" else 50 - bad
        if kind == "dead" and bad:
            missing.append({**about, "status": {"unresponsive": True, "considered_dead": True}})
        else:
            counts = {"AllReduce": count if kind != "dead" else 50}
            ranks.append({**about, "status": {"init_state": 0, "async_error": 0}, "collective_counts": counts})
    one = {"hash": "0x1", "secondary_hash": "0x2:0x3", "size": 4, "ranks": ranks, "missing_ranks": missing}
    return "OK\\n" + json.dumps({"nccl_version": "2.29.1", "communicators": [one]})


def serve(server):
    while True:
        sock, _ = server.accept()
        asked = b""
        while b"verbose status\\n" not in asked:
            asked += sock.recv(1000)
        assert asked.startswith(b"set format json\\n"), asked
        if plan()[0] == "silent":
            time.sleep(600)
        if plan()[0] == "flood":
            try:
                while True:
                    sock.sendall(b"x" * 65536)
            except OSError:
                continue
        sock.sendall(answer().encode())
        sock.close()


if local == 0:
    server = socket.create_server(("127.0.0.1", 28028))
    threading.Thread(target=serve, args=(server,), daemon=True).start()
while True:
    kind, *who = plan()
    if kind == "going" or (kind == "clock" and step < (40 if str(rank) in who else 41)):
        step += 1
        sys.stdout.write(f"iteration {step}/ 500 | loss 1.0\\n")
        sys.stdout.flush()
    time.sleep(0.1)
"""


@pytest.fixture
def two(networked):
    for vm in ("trn-01", "trn-02"):
        networked.start(vm)
    return networked


def planned(guests, text, folder="watch"):
    (guests.folder / folder).mkdir(exist_ok=True)
    (guests.folder / folder / "new").write_text(text)
    (guests.folder / folder / "new").rename(guests.folder / folder / "plan")


def launched(guests, script, plan):
    planned(guests, plan)
    args = [str(guests.folder / "watch"), guests.network]
    return Jobs(guests, script, args=args, steps={"warm_up": 2, "at_least": "2s"}).start()


def watched(job, gap=0.3):
    return watch_run(job.request, gap=gap)


def until(condition, within=LONG):
    end = time.monotonic() + within
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.3)
    return found


def test_a_hung_rank_is_named_by_nccl_and_by_the_clock(two):
    job = launched(two, RANKS, "going")
    going = until(lambda: "every" in (found := watched(job)).progress.reason and found)
    assert (going.progress.verdict, going.exit_code, going.progress.suspects) == ("going", 0, ())
    until(lambda: all(len(n.steps) == 2 for n in job.status().found.values()))

    planned(two, "behind 3")
    hung = until(lambda: (found := watched(job)).progress.verdict == "hung" and found)
    (suspect,) = hung.progress.suspects
    assert (suspect.rank, suspect.vm, suspect.pid) == (3, "trn-02", job.pid_of(3))
    assert hung.exit_code == 1
    assert "1 collective fewer" in suspect.reason

    planned(two, "dead 2")
    (dead,) = watched(job).progress.suspects
    assert (dead.rank, dead.vm, dead.reason) == (2, "trn-02", "NCCL holds it for dead")

    planned(two, "flood")
    flood = watched(job)
    assert flood.exit_code == 1, "the clock alone"
    assert "no end of its answer" in flood.progress.notes[0] or "more than" in flood.progress.notes[0]
    assert stop_run(job.request).exit_code == 0
    assert gone(job.run)
    assert watched(job).progress is None


def test_without_nccl_the_logs_name_the_rank_that_is_behind(two):
    script = RANKS.split("if local == 0:")[0] + "while True:" + RANKS.rpartition("while True:")[2]
    job = launched(two, script, "clock 1")
    hung = until(lambda: (found := watched(job)).progress.verdict == "hung" and found)
    assert [(s.rank, s.vm) for s in hung.progress.suspects] == [(1, "trn-01")]
    assert "connection refused" in hung.progress.notes[0]
    assert (hung.found["trn-01"].steps["rank-1"].step, hung.found["trn-01"].steps["rank-0"].step) == (40, 41)
    stop_run(job.request)
    assert gone(job.run)


# what torchrun does, as far as a lost node is concerned: agents that meet, start workers, and end with them
TORCHRUN = """#!{python}
import os, subprocess, sys, time

options = dict(word[2:].split("=", 1) for word in sys.argv[1:] if word.startswith("--") and "=" in word)
least, most = map(int, options["nnodes"].split(":"))
assert options["rdzv-backend"] == "c10d" and options["rdzv-id"]
words = [word for word in sys.argv[1:] if not word.startswith("--")]
count = int(options["nproc-per-node"])
workers = [subprocess.Popen([sys.executable, *words], env={{**os.environ, "LOCAL_RANK": str(n)}}) for n in range(count)]
sys.exit(max(abs(worker.wait()) for worker in workers))
"""
WORKER = """
import os, sys, time
folder = sys.argv[1]
while not os.path.exists(f"{folder}/done"):
    bad = f"{folder}/fail-" + os.uname().nodename
    if os.path.exists(bad):
        sys.exit(5)
    time.sleep(0.05)
"""


@pytest.fixture
def three(separate):
    for vm in ("trn-01", "trn-02", "trn-03"):
        separate.start(vm)
    return separate


def elastic(guests):
    folder = guests.folder / "env"
    folder.mkdir()
    (folder / "python3").symlink_to(sys.executable)
    (folder / "torchrun").write_text(TORCHRUN.format(python=sys.executable))
    (folder / "torchrun").chmod(0o755)
    python = str(folder / "python3")
    args = [str(folder)]
    job = Jobs(guests, WORKER, "torchrun", args=args, python=python, torchrun={"elastic": "2:3"}, processes_per_node=2)
    return job.start(), folder


def test_an_elastic_run_goes_on_without_a_node_and_ends_well(three):
    job, folder = elastic(three)
    job.until_running(9)
    three.cut("trn-03")
    found = until(lambda: (now := job.status()).lost and now)
    assert found.lost == {2: "node 2 is gone"}
    assert (found.exit_code, found.is_over) == (0, False)
    assert len(job.rank_pids()) == 6
    (folder / "done").touch()
    done = job.wait()
    assert (done.head.outcome, done.exit_code) == ("done", 0)
    assert gone(job.run)


def test_an_elastic_run_ends_below_its_fewest_nodes(three):
    job, folder = elastic(three)
    job.until_running(9)
    (folder / "fail-trn-02").touch()
    found = until(lambda: (now := job.status()).lost and now)
    assert found.lost == {1: "node-1 on node 1 ended with 5"}
    assert not found.is_over
    (folder / "fail-trn-03").touch()
    done = job.wait()
    assert (done.head.outcome, done.head.reason) == ("failed", "node-2 on node 2 ended with 5")
    assert done.exit_code == 1
    assert gone(job.run)


def test_an_elastic_run_ends_with_the_node_that_keeps_its_rendezvous(three):
    job, folder = elastic(three)
    job.until_running(9)
    (folder / "fail-trn-01").touch()
    done = job.wait()
    assert done.head.reason == "node-0 on node 0 ended with 5"
    assert gone(job.run)


def test_nodes_that_cannot_be_reached_do_not_keep_the_others_from_being_stopped(two):
    job = Jobs(two, WORKER, args=[str(two.folder)]).start()
    job.until_running()
    two.cut("trn-02")
    found = job.status()
    assert "trn-02" in found.found["trn-02"].message
    assert found.exit_code == 1
    stopped = stop_run(job.request)
    assert stopped.found["trn-01"].state == "ended"
    assert gone(job.run)


def test_the_nodes_of_an_elastic_run_are_those_that_it_was_started_on(three):
    import yaml

    job, folder = elastic(three)
    job.until_running(9)
    (folder / "done").touch()
    job.wait()
    (folder / "done").unlink()
    whole = job.path.read_text()
    fewer = yaml.safe_load(whole)
    del fewer["nodes"][0]
    job.path.write_text(yaml.safe_dump(fewer))
    old = job.run
    job.start()
    job.until_running(6)
    job.path.write_text(whole)
    newest = run_status(RunRequest(job.path, "", job.estate))
    assert (newest.run, [node.vm for node in newest.nodes]) == (job.run, ["trn-02", "trn-03"])
    assert [node.vm for node in run_status(RunRequest(job.path, old, job.estate)).nodes] == list(three.servers)
    three.cut("trn-01")
    until(lambda: (job.status().exit_code, job.status().lost) == (0, {}))  # a slow machine may be quiet for a while
    assert list(run_logs(job.request).logs) == ["trn-02", "trn-03"]
    assert stop_run(job.request).head.outcome == "stopped"
    assert gone(job.run)
