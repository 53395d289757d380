"""Guests that run jobs: real processes of this machine in names of guests, within bounds, and none left."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import Client
from hypothesis import given
from hypothesis import strategies as st
from support.gates import LONG, until
from support.guest_farm import guest_farm

from vsphere_ai import app
from vsphere_ai.connect.secure_shell.guest_ssh import GuestSsh
from vsphere_ai.errors import UsageError
from vsphere_ai.lab.front import process
from vsphere_ai.lab.jobs.answers import ModelServer
from vsphere_ai.lab.jobs.folders import processes_of
from vsphere_ai.lab.jobs.names import GuestNames, LoopbackNetwork
from vsphere_ai.lab.jobs.processes import JobMachine
from vsphere_ai.lab.scenario import Guests
from vsphere_ai.lab.shell.result import ShellResult
from vsphere_ai.language.inventories.inventory import load_inventory

BOUNDS = "guests: {{run_jobs: true, processes: {processes}, memory_mb: {memory}, minutes: {minutes}}}\n"


class JobGuests:
    """Guests of a lab, over SSH."""

    def __init__(self, lab):
        self.lab, self.shells = lab, {}
        self.settings = app.guest_settings(load_inventory(lab.directory / "connection.yml"))

    def __call__(self, number):
        vm = f"trn-0{number}"
        if vm not in self.shells:
            self.shells[vm] = GuestSsh("10.0.0.1", self.settings, vm)
        return self.shells[vm]

    def run(self, number, *argv, **more):
        done = self(number).run(argv, **more)
        assert done.code == 0, done
        return done.out

    def detached(self, number, command="exec sleep 600"):
        """Start a process that keeps nothing of what it was started by; return its number."""
        line = f"env -i setsid sh -c 'echo $$; exec >&- 2>&-; {command}' & sleep 0.2"
        return int(self.run(number, "sh", "-c", line))

    @property
    def processes(self):
        return processes_of(self.lab.directory)

    def close(self):
        for shell in self.shells.values():
            shell.close()


@pytest.fixture
def jobs(make_lab):
    made = []

    def make(processes=256, memory=8192, minutes=60.0, count=2):
        bounds = BOUNDS.format(processes=processes, memory=memory, minutes=minutes)
        made.append(JobGuests(make_lab(guest_farm(count) + bounds)))
        return made[-1]

    yield make
    for each in made:
        each.close()


def runs(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_a_command_is_a_process_of_this_machine_in_a_home_of_its_guest(jobs):
    guests = jobs()
    line = "echo $$ > pid; cat; echo $HOME; pwd; echo wrong >&2; exit 3"
    first, second = (guests(n).run(["sh", "-c", line], stdin=b"given\n") for n in (1, 2))
    assert first.code == second.code == 3
    assert first.err == "wrong\n"
    given, home, folder = first.out.splitlines()
    assert given == "given"
    assert home == folder != second.out.splitlines()[1]
    assert Path(home, "pid").read_text().strip().isdigit()
    assert Path(home).parent.parent == guests.lab.directory / "guests"
    assert guests(1).run(["sh", "-c", "kill -TERM $$"]).code == 128 + signal.SIGTERM
    assert guests(1).run(["no-such-program"]).code == 127


def test_input_and_output_pass_whole(jobs):
    given = b"".join(b"%d some words\n" % n for n in range(100_000)) + b"and no end of line"
    assert jobs().run(1, "cat", stdin=given, timeout=60).encode() == given


def test_hardware_is_that_of_the_model_also_within_a_process(jobs):
    guests = jobs()
    for argv in (["nvidia-smi", "-L"], ["rdma", "link"], ["ibv_devinfo"], ["ip", "-j", "addr"], ["hostname"]):
        direct = guests.run(1, *argv)
        assert guests.run(1, "sh", "-c", f"cd /; {' '.join(argv)}; true") == direct
    assert "trn-02" in guests.run(2, "sh", "-c", "echo $(hostname)")
    guests.lab.set_defects({"kind": "gpu-missing", "vm": "trn-01"})
    assert guests(1).run(["sh", "-c", "nvidia-smi -L; exit $?"]).code == 6
    assert guests(2).run(["sh", "-c", "nvidia-smi -L; exit $?"]).code == 0


SERVER = """
import socket, sys
with socket.create_server((sys.argv[1], 4321)) as server:
    print("listens", flush=True)
    link, peer = server.accept()
    link.sendall(f"this is {link.getsockname()[0]}".encode())
    link.close()
"""


def test_addresses_of_guests_lead_to_their_processes(jobs):
    guests = jobs()
    client = Client(guests.lab)
    address = str(client.until(lambda: client.vm("trn-01").guest.ipAddress))
    client.close()
    answer = []
    serving = threading.Thread(target=lambda: answer.append(guests(1).run(["python3", "-c", SERVER, address])))
    serving.start()
    line = "import socket,sys,time\ndef joined():\n    try: return socket.create_connection((sys.argv[1], 4321))\n"
    line += "    except OSError: return None\nlink = None\nwhile link is None: link = joined() or time.sleep(0.05)\n"
    line += "text = link.recv(99).decode(); print(text); print(text[::-1])"
    told, backwards = guests.run(2, "python3", "-c", line, address, timeout=LONG).splitlines()
    serving.join(LONG)
    assert told == f"this is {address}"
    assert backwards.split()[0].endswith(".721"), "on this machine it is an address of 127.0.0.0/8"
    assert answer[0].out == "listens\n"


def test_folders_that_guests_have_at_one_place_are_their_own_and_one_is_shared(jobs):
    guests = jobs()
    for number in (1, 2):
        made = guests.run(
            number, "sh", "-c", f"mkdir /var/tmp/vsphere-ai; cd /var/tmp/vsphere-ai; echo {number} > n; pwd"
        )
        assert made == "/var/tmp/vsphere-ai\n"
        guests.run(number, "sh", "-c", f"echo {number} >> /shared/all")
    assert [guests.run(n, "cat", "/var/tmp/vsphere-ai/n") for n in (1, 2)] == ["1\n", "2\n"]
    assert (guests.lab.directory / "shared" / "all").read_text() == "1\n2\n"
    assert guests.run(1, "sh", "-c", "VSPHERE_AI_RUN=a env | grep AI_RUN_") == "VSPHERE_AI_RUN=a\n"


def test_power_off_ends_all_that_runs_and_files_stay(jobs):
    guests = jobs()
    pids, other = [guests.detached(1), guests.detached(1)], guests.detached(2)
    guests.run(1, "sh", "-c", "echo kept > file")
    client = Client(guests.lab)
    client.wait(client.vm("trn-01").PowerOffVM_Task())
    until(lambda: not any(map(runs, pids)))
    assert runs(other)
    client.wait(client.vm("trn-01").PowerOnVM_Task())
    client.close()
    guests.close()
    guests.shells.clear()
    assert guests.run(1, "cat", "file") == "kept\n"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_runs_when_the_lab_is_gone(jobs, how):
    guests = jobs()
    pids = [guests.detached(1), guests.detached(2, "sh -c 'sleep 600 & sleep 600'")]
    lab = guests.lab
    assert guests.processes
    guests.close()
    os.kill(lab.pid, how)
    until(lambda: not any(map(runs, pids)) and not guests.processes)
    process.stop(lab.directory)
    assert not (lab.directory / "guests").exists()
    assert not (lab.directory / "shared").exists()


def test_lab_down_ends_what_a_killed_init_process_has_left(jobs):
    guests = jobs()
    guests.run(1, "sh", "-c", "setsid sleep 601 >/dev/null 2>&1 &")
    until(lambda: len(guests.processes) == 2)
    (init,) = (p for p in guests.processes if b"init_process.py" in Path(f"/proc/{p}/cmdline").read_bytes())
    (sleeping,) = set(guests.processes) - {init}
    waiting = threading.Thread(target=lambda: guests(1).run(["sleep", "600"], timeout=LONG))
    waiting.start()
    until(lambda: len(guests.processes) >= 4)
    os.kill(init, signal.SIGKILL)
    waiting.join(LONG)
    assert not waiting.is_alive(), "who waited for a command of it is told"
    assert guests.run(1, "echo", "goes on") == "goes on\n"
    assert runs(sleeping)
    guests.close()
    assert process.stop(guests.lab.directory)
    until(lambda: not runs(sleeping) and not guests.processes)


def test_a_process_takes_no_more_memory_than_it_may(jobs):
    guests = jobs(memory=128)
    done = guests(1).run(["python3", "-c", "x = bytearray(400 << 20)"])
    assert done.code == 1
    assert "MemoryError" in done.err
    guests.run(1, "python3", "-c", "x = bytearray(40 << 20)")


def test_a_guest_has_no_more_processes_than_it_may(jobs):
    guests = jobs(processes=12)
    guests.run(1, "sh", "-c", "for n in $(seq 40); do setsid sleep 600 >/dev/null 2>&1 & done", timeout=LONG)
    until(lambda: len(guests.processes) <= 13)  # with the init process
    assert guests.run(1, "echo", "goes on") == "goes on\n"


def test_a_process_runs_no_longer_than_it_may(jobs):
    guests = jobs(minutes=0.02)
    assert guests(1).run(["sleep", "600"], timeout=LONG).code == 128 + signal.SIGKILL


def test_a_gpu_that_is_lost_takes_its_processes_with_it(jobs):
    guests = jobs()
    others = [guests.detached(1), guests.detached(2, "LOCAL_RANK=0 exec sleep 600")]
    lost = guests.detached(1, "LOCAL_RANK=0 exec sleep 600")
    guests.lab.set_defects({"kind": "xid", "vm": "trn-01", "number": 13})
    guests.lab.set_defects({"kind": "xid", "host": "esx01*", "gpu": "0000:3b:00.0", "number": 79, "seen": "host"})
    until(lambda: not runs(lost))
    with pytest.raises(AssertionError, match="code=134"):  # 128 + SIGABRT: the GPU stays lost
        guests.run(1, "sh", "-c", "LOCAL_RANK=0 exec sleep 600", timeout=LONG)
    guests.lab.set_defects()
    guests.run(1, "sh", "-c", "LOCAL_RANK=0 exec sleep 2")
    assert all(map(runs, others)), "13 is an error of a program; another guest has another GPU"


def test_a_lab_without_it_runs_nothing(make_lab):
    guests = JobGuests(make_lab(guest_farm(2)))
    assert guests(1).run(["sh", "-c", "touch /tmp/never"]).code == 127
    assert not (guests.lab.directory / "guests").exists()
    assert not guests.processes
    guests.close()


def test_a_folder_whose_name_a_shell_would_read_is_refused(tmp_path):
    folder = tmp_path / "it's"
    folder.mkdir()
    with pytest.raises(UsageError, match="guests run no jobs in"):
        JobMachine(folder, Guests(run_jobs=True))


def test_the_model_answers_guests_only():
    server = ModelServer("127.0.0.1")
    place = server.add(lambda argv: ShellResult(0, " ".join(argv)))
    try:
        asked = f'{{"token": "{place["token"]}", "argv": ["nvidia-smi", "-L"]}}'
        assert server.answer(asked.encode()).stdout == "nvidia-smi -L"
        for wrong in (b"", b"[]", b'{"token": "", "argv": []}', asked.replace(place["token"], "x").encode()):
            assert server.answer(wrong).status == 2
            assert not server.answer(wrong).stdout
    finally:
        server.close()


@pytest.fixture(scope="module")
def names():
    network = LoopbackNetwork()
    network.learn(["10.20.0.1", "10.20.0.11", "172.16.1.1", "fd00::1"])
    yield GuestNames(network, {"/shared": "/lab/shared", "/var/tmp/vsphere-ai": "/lab/g/runs", "MARK": "MARK_1"})
    network.close()


ADDRESS = st.sampled_from(["10.20.0.1", "10.20.0.11", "172.16.1.1", "10.20.0.111", "1.10.20.0.1", "10.20.0.1.5"])
WORD = st.one_of(
    ADDRESS,
    st.sampled_from(["/shared", "/shared/a", "/sharedness", "x/shared", "MARK", "MARK=a", "MARKED", "/var/tmp"]),
)


@given(words=st.lists(st.tuples(WORD, st.sampled_from([" ", '"', ":", ",", "=", "\n", "'"])), max_size=12))
def test_what_goes_in_comes_out_as_it_was(names, words):
    text = "".join(word + after for word, after in words).encode()
    assert names.outward(names.inward(text)) == text


def test_only_whole_names_are_rewritten(names):
    text = b"10.20.0.1 10.20.0.111 1.10.20.0.1 /shared/a /sharedness x/shared MARK=1 MARKED [10.20.0.11]:29500"
    first, *same, shared, other, third, mark, marked, last = names.inward(text).split()
    assert first.startswith(b"127.")
    assert same == [b"10.20.0.111", b"1.10.20.0.1"]
    assert (shared, other, third, mark, marked) == (
        b"/lab/shared/a",
        b"/sharedness",
        b"x/shared",
        b"MARK_1=1",
        b"MARKED",
    )
    assert last.startswith(b"[127.")
    assert last.endswith(b"]:29500")


def test_two_labs_have_two_networks():
    made = [LoopbackNetwork() for _ in range(20)]
    assert len({each.lab for each in made}) == 20
    for each in made:
        each.close()
