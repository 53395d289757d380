"""Copies of a process that has imported everything behave as processes of their own, whatever others have imported."""

from __future__ import annotations

import sys

import pytest
from support import prefork

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
