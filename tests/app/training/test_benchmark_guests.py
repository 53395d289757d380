"""Benchmarks on guests with Open MPI and OpenSSH: they meet by a key of the run, and nothing of them stays."""
# ruff: noqa: F811 - the fixture is imported

from __future__ import annotations

import os
import shutil
import signal
import threading
import time

import pytest
from support.gates import LONG, busy, until
from support.training_guests import gone, networked, processes_of  # noqa: F401

from vsphere_ai.app.events import Remark
from vsphere_ai.app.training.benchmarks.guests import benchmark_guests
from vsphere_ai.app.training.benchmarks.nccl import NcclOptions, NcclRequest, NcclTest, RoundRunner
from vsphere_ai.app.training.nodes.listed import NodesRequest, guest_settings
from vsphere_ai.benchmarks.slow_part.trials import Trial
from vsphere_ai.language.inventories.inventory import load_inventory
from vsphere_ai.model.nodes import Node, NodeGpu

MPIRUN = shutil.which("mpirun")
AS_ROOT = '#!/bin/sh\nexport OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\nexec {} --oversubscribe "$@"\n'
STUBBORN = "#!/bin/sh\ntrap '' TERM HUP INT\nwhile :; do sleep 0.2; done\n"
BOTH = Trial(("trn-01", "trn-02"))


class Bench:
    def __init__(self, guests):
        self.guests, self.said = guests, []
        for vm in ("trn-01", "trn-02"):
            guests.start(vm)
            self.program(vm, "mpirun", AS_ROOT.format(MPIRUN))
            self.program(vm, "all_reduce_perf", STUBBORN)
        guests.job("")
        self.settings = guest_settings(load_inventory(guests.folder / "vsphere-ai.yaml"))
        self.nodes = [Node(vm, guests.address(vm), gpus=(NodeGpu(0), NodeGpu(1))) for vm in guests.servers]

    def program(self, vm, name, text):
        path = self.guests.folder / vm / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def round(self, timeout, trial=BOTH, before=lambda found: None):
        request = NcclRequest(NodesRequest(("trn-*",)), NcclTest(), NcclOptions(timeout=timeout))
        with benchmark_guests("nccl", self.nodes, self.settings, self.said.append, meshed=True) as found:
            before(found)
            runner = RoundRunner(request, found, self.said.append)
            value = runner.round([trial])[trial]
            between = processes_of(found.run_name)
        return found, runner, value, between

    def interrupted(self, ready):
        """Begin a round, and interrupt it when that is true; return what was there to be measured."""
        seen = []

        def later(found):
            def interrupt():
                until(ready)
                os.kill(os.getpid(), 2)

            seen.append(found)
            threading.Thread(target=interrupt).start()

        # a shell has what it runs in the background ignore SIGINT: the round would last to its end
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                self.round(500, before=later)
        finally:
            signal.signal(signal.SIGINT, before)
        return seen[0]

    def programs(self):
        return {vm: self.guests.processes_in(vm) for vm in self.guests.servers}

    def keys(self):
        paths = [self.guests.folder / vm / "home" / ".ssh" / "authorized_keys" for vm in self.guests.servers]
        return "".join(path.read_text() for path in paths if path.exists())


@pytest.fixture
def bench(networked):
    return Bench(networked)


def is_clean(bench, run):
    until(lambda: not any(bench.programs().values()))  # sessions of SSH end a moment later
    folders = [bench.guests.folder_of(vm) / run for vm in bench.guests.servers]
    return gone(run) and bench.keys() == "" and not any(folder.exists() for folder in folders)


def test_ranks_of_both_vms_start_by_a_key_of_the_run_and_end_with_it(bench):
    for vm in bench.guests.servers:
        bench.program(vm, "all_reduce_perf", "#!/bin/sh\necho $(hostname) $OMPI_COMM_WORLD_RANK\n")
    keys = []
    found, runner, *_ = bench.round(20, before=lambda _: keys.append(bench.keys()))
    assert keys[0].count(f" vsphere-ai:{found.run_name}\n") == 2
    assert [c.rule for c in runner.failures] == ["nccl.run-failed"]  # it is no output of nccl-tests
    assert "mpirun ended" not in runner.failures[0].message
    assert found.left == ()
    assert is_clean(bench, found.run_name)


@pytest.mark.parametrize("head", ["trn-01", "trn-02"])
def test_a_time_out_leaves_no_daemon_and_no_rank_on_any_vm(bench, head):
    other = "trn-02" if head == "trn-01" else "trn-01"
    seen = {}

    def watch(found):
        def look():
            end = time.monotonic() + LONG
            while time.monotonic() < end and any(p.count("all_reduce_perf") < 2 for p in bench.programs().values()):
                time.sleep(0.05)
            seen.update(bench.programs())

        threading.Thread(target=look).start()

    found, runner, value, between = bench.round(4, Trial((head, other)), watch)
    assert "orted" in seen[other] or "prted" in seen[other], seen
    assert all(names.count("all_reduce_perf") >= 2 for names in seen.values()), seen
    assert value is None
    assert "4 s" in runner.failures[0].message
    assert between == set()  # already after the trial, and not only at the end
    assert (found.left, is_clean(bench, found.run_name)) == ((), True)


def test_an_interruption_ends_what_is_waited_for(bench):
    began = time.monotonic()
    found = bench.interrupted(lambda: all("all_reduce_perf" in names for names in bench.programs().values()))
    assert time.monotonic() - began < 60 * busy()
    assert "bench.stopped" in [e.rule for e in bench.said if isinstance(e, Remark)]
    assert is_clean(bench, found.run_name)


def test_what_a_gpu_still_lists_when_it_has_ended_is_left(bench):
    pids = bench.guests.folder / "pids"
    stubborn = STUBBORN.replace("while", f"echo $$ >> {pids}\nwhile", 1)
    bench.program("trn-02", "all_reduce_perf", stubborn)  # it is there when one looks for it before it is ended
    bench.guests.nvidia_smi("trn-02", f"cat {pids} 2>/dev/null; true\n")
    bench.guests.nvidia_smi("trn-01", "exit 255\n")
    found = bench.interrupted(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    assert [(c.rule, c.verdict) for c in found.left] == [("bench.left", "fail")] * 2
    assert "nvidia-smi does not answer" in found.left[0].message
    listed = set(pids.read_text().split())
    assert len(listed) == 2
    assert set(found.left[1].message.rpartition(": ")[2].split(", ")) == listed
    assert sum(isinstance(e, Remark) and e.rule == "bench.left" for e in bench.said) == 2
    assert gone(found.run_name)
