"""Pre-flight of a job on real OpenSSH servers with networks of their own: ports, files, programs, hostile guests."""
# ruff: noqa: F811 - the fixture is imported

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from app.training.test_launch_run import Jobs
from support.gates import busy
from support.guest_sshd import keygen
from support.training_guests import ALL_REDUCE, gone, networked  # noqa: F401

from vsphere_ai.app.training.launch.job import LaunchRequest
from vsphere_ai.app.training.launch.run import run_logs, start_job, stop_run, watch_run
from vsphere_ai.errors import Refused, VsphereAiError


@pytest.fixture
def two(networked):
    for vm in ("trn-01", "trn-02"):
        networked.start(vm)
    return networked


def checked(job):
    job.run = start_job(LaunchRequest(job.path, job.mode, job.estate)).run
    return job


def refusals(job):
    with pytest.raises(Refused) as caught:
        checked(job)
    assert caught.value.rule == "launch.preflight"
    return caught.value.message.splitlines()


def of_script(guests, path):
    job = Jobs(guests, "")
    job.path.write_text(job.path.read_text().replace(str(guests.folder / "train.py"), path))
    return job


def inside(guests, vm, *argv):
    return ["nsenter", "-t", str(guests.servers[vm].process.pid), "-n", *argv]


def test_the_ports_of_a_job_are_free_again_after_they_were_tried(two):
    job = checked(Jobs(two, ALL_REDUCE))
    assert job.wait().head.outcome == "done"
    assert gone(job.run)


def test_a_port_that_is_in_use(two):
    job = Jobs(two, ALL_REDUCE, control_port=29777)
    listen = "import socket, time; s = socket.create_server(('0.0.0.0', 29777)); print(1, flush=True); time.sleep(600)"
    with subprocess.Popen(inside(two, "trn-01", "python3", "-c", listen), stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        (line,) = refusals(job)
        process.kill()
    assert line.startswith("trn-01: port 29777, on which the job listens, cannot be had: address already in use")


def test_a_node_without_a_way_to_the_first(two):
    job = Jobs(two, ALL_REDUCE)
    subprocess.run(
        inside(two, "trn-02", "ip", "route", "add", "unreachable", f"{two.address('trn-01')}/32"), check=True
    )
    (line,) = refusals(job)
    assert line.startswith("trn-02: it does not reach trn-01")
    assert "no route to host" in line


def test_scripts_that_differ_and_programs_that_are_missing(two):
    for vm in two.servers:
        path = Path(f"/proc/{two.servers[vm].process.pid}/root/var/tmp/train.py")
        path.write_text(f"# {vm}\n")
    (line,) = refusals(of_script(two, "/var/tmp/train.py"))
    assert line.startswith("trn-02: /var/tmp/train.py is another file")
    lines = refusals(of_script(two, "/no/train.py"))
    assert [line.partition(";")[0] for line in lines] == [
        f"{vm}: /no/train.py: no such file or directory" for vm in two.servers
    ]
    lines = refusals(Jobs(two, "", python="/opt/nope/bin/python", workdir="/no/where"))
    assert ["there is no /opt/nope/bin/python" in line or "/no/where is not there" in line for line in lines] == [
        True
    ] * 4


SSH = """#!/bin/sh
exec /usr/bin/ssh -p 2222 -i {key} -o IdentitiesOnly=yes -o StrictHostKeyChecking=no \\
  -o UserKnownHostsFile=/dev/null "$@"
"""


def test_a_launcher_over_ssh_needs_logins_from_the_first_node(two):
    job = Jobs(two, ALL_REDUCE, "mpi")
    (line,) = refusals(job)
    assert line.startswith("trn-02: trn-01, which starts the processes, cannot log in: ssh: connect to host")
    path = two.folder / "trn-01" / "bin" / "ssh"
    for key, right in (("other", False), ("id", True)):
        if not right:
            keygen(two.folder / key)
        path.write_text(SSH.format(key=two.folder / key))
        path.chmod(0o755)
        if right:
            assert checked(job).wait().is_over
            assert gone(job.run)
        else:
            assert "Permission denied" in refusals(job)[0]


FLOOD = "#!/bin/sh\nexec head -c 1100000000 /dev/zero\n"
TEXT = "#!/bin/sh\nprintf '\\033[2J\\033]0;title\\007{\"state\": 5'\n"
HANGS = "#!/bin/sh\nexec sleep 600\n"


@pytest.mark.parametrize(("python", "words"), [(FLOOD, "more than is read"), (TEXT, "cannot be read"), (HANGS, "")])
def test_a_hostile_python_of_a_guest_is_bounded_and_named(two, monkeypatch, python, words):
    from vsphere_ai.app.training.launch import control as launch_control

    job = checked(Jobs(two, "import time\ntime.sleep(600)\n"))
    monkeypatch.setattr(launch_control, "_ASK", 2.0)
    path = two.folder / "trn-02" / "bin" / "python3"
    path.write_text(python)
    path.chmod(0o755)
    begun = time.monotonic()
    for found in (watch_run(job.request, gap=0.1).found, run_logs(job.request).logs):
        error = found["trn-02"]
        assert isinstance(error, VsphereAiError)
        assert error.message.startswith("trn-02: ")
        assert words in error.message
        assert "\x1b" not in error.message
    assert time.monotonic() - begun < 30 * busy()
    path.unlink()
    assert job.status().exit_code == 0
    stop_run(job.request)
    assert gone(job.run)
