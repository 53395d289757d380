"""Copies of a process that has imported everything behave as processes of their own, whatever others have imported."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import prefork
from support.places import ROOT

COPIED = """
import copy
from pyVmomi import vim
assert copy.copy(vim.fault.NoDiskSpace(datastore="nfs1")).datastore == "nfs1"
"""


def test_a_lab_copies_faults_as_before_after_a_fleet_was_started():
    pytest.importorskip("distributed")
    fleet = prefork.run([sys.executable, "-m", "vsphere_ai", "fleet", "--help"], capture_output=True, timeout=300)
    assert fleet.returncode == 0
    copied = prefork.run([sys.executable, "-c", COPIED], capture_output=True, text=True, timeout=300)
    assert copied.returncode == 0, copied.stderr


COPIED_BY = """
import os
with open(f"/proc/{os.getppid()}/stat") as keeper:
    print(keeper.read().rpartition(")")[2].split()[1])
"""
"""Print the number of the server: the parent of the copy's keeper."""
WORKER = f"""
import sys
sys.path.insert(0, sys.argv[1])
from support import prefork
print(prefork.run([sys.executable, "-c", {COPIED_BY!r}], capture_output=True, text=True).stdout)
"""
SHARES = f"""
import subprocess, sys
sys.path.insert(0, sys.argv[1])
from support import prefork
prefork.share(sys.argv[2])
argv = [sys.executable, "-c", {WORKER!r}, sys.argv[1]]
workers = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(2)]
print(*[worker.communicate()[0].strip() for worker in workers])
"""


def test_processes_that_share_a_server_have_one_that_ends_with_the_first_of_them(tmp_path):
    argv = [sys.executable, "-c", SHARES, str(ROOT / "tests"), str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=True)
    one, another = done.stdout.split()
    assert one == another, "each of them has a server"
    deadline = time.monotonic() + 60
    while Path(f"/proc/{one}/cmdline").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{one}/cmdline").exists()
