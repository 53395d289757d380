"""A worker's own folder: its journals lie apart from those of this machine, and nothing of killed workers stays."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from vsphere_ai.errors import UsageError
from vsphere_ai.fleet.address import parse_address
from vsphere_ai.fleet.certificates import TlsFiles
from vsphere_ai.fleet.run import FleetStop
from vsphere_ai.fleet.worker import WorkerRequest, _own_journals, work
from vsphere_ai.model.records.run_record import RunRecord
from vsphere_ai.runs import journal, locks
from vsphere_ai.security.state_dir import own_folder


def test_journals_of_a_worker_are_its_own_and_locks_are_those_of_the_machine():
    ours = journal.create(RunRecord(what="ours"))
    with _own_journals() as folder:
        theirs = journal.create(RunRecord(what="theirs"))
        assert theirs.path.is_relative_to(folder)
        assert [path.stem for path in journal.files()] == [theirs.id]
        with locks.hold_run("x"):
            assert locks.here("run-x") is not None
            assert not [*folder.rglob("run-x*")]
        modes = {oct(path.stat().st_mode & 0o777) for path in (folder, folder / "lock", theirs.path.parent)}
        assert modes == {"0o700", "0o600"}
    assert [path.stem for path in journal.files()] == [ours.id]
    assert not folder.exists()


def test_what_a_killed_worker_left_goes_and_what_a_living_one_has_stays():
    for name in ("killed", "living"):
        (own_folder("workers") / name / "runs").mkdir(parents=True)
    living = os.open(own_folder("workers") / "living" / "lock", os.O_WRONLY | os.O_CREAT)
    fcntl.flock(living, fcntl.LOCK_EX)
    with _own_journals() as mine:
        assert sorted(path.name for path in own_folder("workers").iterdir()) == sorted(["living", mine.name])
    os.close(living)


def test_a_worker_that_cannot_serve_is_refused_before_it_connects(tmp_path):
    inventory = tmp_path / "site.yml"
    inventory.write_text(
        "vcenters:\n  berlin: {address: 192.0.2.1, username: a, password: 'env:P'}\n", encoding="utf-8"
    )
    address, tls = parse_address("tls://127.0.0.1:1"), TlsFiles()
    for request, rule, text in (
        (WorkerRequest(address, tls, inventory, ("oslo",)), "usage", "no vCenter 'oslo'"),
        (WorkerRequest(address, tls, inventory), "usage.tls", "certificate"),
        (WorkerRequest(address, tls, Path("absent.yml")), "usage.no-file", r"absent\.yml"),
    ):
        with pytest.raises(UsageError, match=text) as refused:
            work(request, FleetStop(), lambda _: None)
        assert refused.value.rule == rule
