"""Damage of files in the state folder: every reader names the file and the field, and takes none for an empty one."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

import vsphere_ai.documents
from vsphere_ai.app.training.benchmarks import burn, history
from vsphere_ai.app.training.health.history import HealthHistory, last_checks
from vsphere_ai.cli.main import main
from vsphere_ai.documents.benchmark_history import BenchmarkResult, BurnDigests
from vsphere_ai.documents.fleets import FleetRun, RefusedShards, Shard, ShardOutcome
from vsphere_ai.documents.health_history import HealthHistoryDocument, KeptCounters, KeptUse
from vsphere_ai.documents.leases import LeaseRecord
from vsphere_ai.documents.locks import LockNote
from vsphere_ai.documents.stored import DamagedDocument, StoredDocument
from vsphere_ai.fleet.run import fleet_outcomes, list_fleets, open_fleet
from vsphere_ai.runs import lease_record, locks, process_id

RUN = "20261124-120000-0001"
FLEET = "20261124-120000-ffff"
NOW = datetime.now(UTC)
SHARD = Shard(fleet=FLEET, vcenter="berlin", run=RUN, plan={"steps": []})
WHOLE_FLEET = FleetRun(fleet=FLEET, started="2026-11-24T12:00:00Z", playbook="x.yml", shards=(SHARD,))
REFUSED = ShardOutcome(fleet=FLEET, vcenter="berlin", run=RUN, state="refused", exit_code=3)
COUNTERS = {"train-01": KeptCounters(taken=NOW, values={"a": 1})}


def take_lock():
    with locks.hold_here("vc", RUN):
        pass


# model -> where such a file lies, one that is whole, a field with a number instead of its value, and who reads it
STATE = {
    HealthHistoryDocument: (
        "health/vc.json",
        HealthHistoryDocument(counters=COUNTERS, use={"train-01": KeptUse(idle_since=NOW)}, xids=()),
        "counters",
        {"health": lambda: HealthHistory("vc"), "assess": lambda: last_checks("vc")},
    ),
    BenchmarkResult: (
        "benchmarks/vc.jsonl",
        BenchmarkResult(at=1.0, set="train", benchmark="nccl", operation="all_reduce", ranks=8, size=1, value=2.0),
        "operation",
        {
            "bench": lambda: history.require_readable("vc"),
            "bench history": history.history,
            "assess": lambda: history.newest("vc"),
        },
    ),
    BurnDigests: ("benchmarks/burn.json", BurnDigests(digests={"a": {"b": 2}}), "digests", {"burn": burn._earlier}),
    LeaseRecord: (
        f"leases/{RUN}.json",
        LeaseRecord(run=RUN, epoch=3, sessions=((3, "key"),)),
        "sessions",
        {"fleet resume": lambda: lease_record.read(RUN), "resume": lambda: lease_record.require_free(RUN)},
    ),
    LockNote: (
        "locks/vc.json",
        LockNote(user="a", machine="b", pid=1, born="", run=RUN, since="", advisory=("folder-7",)),
        "advisory",
        {"apply": take_lock},
    ),
    FleetRun: (
        f"fleets/{FLEET}.json",
        WHOLE_FLEET,
        "shards",
        {"fleet status": list_fleets, "fleet resume": lambda: open_fleet(FLEET)},
    ),
    RefusedShards: (
        f"fleets/{FLEET}.refused",
        RefusedShards(shards=(REFUSED,)),
        "shards",
        {"fleet status": lambda: fleet_outcomes(WHOLE_FLEET)},
    ),
}
DAMAGE = {
    "truncated": lambda text, field: text[: len(text) // 2],
    "wrong type": lambda text, field: text.replace(f'"{field}":', f'"{field}": 7, "was":', 1),
    "unknown version": lambda text, field: text.replace('"format":1', '"format":99', 1),
    "empty": lambda text, field: "",
    "zeros": lambda text, field: "\x00" * len(text),
    "another document": lambda text, field: "[]",
}
SHOWN = {"wrong type": "{field}: it should be ", "unknown version": "format: it was written by another version"}


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))

    def place(model, text):
        path = tmp_path / STATE[model][0]
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_bytes(text.encode())
        return path

    return place


def test_every_stored_document_has_its_damage_tried():
    for module in iter_modules(vsphere_ai.documents.__path__):
        import_module(f"vsphere_ai.documents.{module.name}")
    assert set(StoredDocument.__subclasses__()) >= set(STATE)
    own = {model for model in StoredDocument.__subclasses__() if model.__module__.startswith("vsphere_ai.")}
    assert own == set(STATE)


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("model", STATE, ids=lambda model: model.__name__)
def test_who_reads_a_damaged_file_names_it(state, model, damage):
    _, whole, field, readers = STATE[model]
    path = state(model, DAMAGE[damage](whole.as_text(), field))
    before = path.read_bytes()
    for command, read in readers.items():
        with pytest.raises(DamagedDocument) as damaged:
            read()
        error = damaged.value
        assert error.message.startswith(f"{path}:1:"), command
        assert SHOWN.get(damage, "").format(field=field) in error.message
        assert error.exit_code == 8
        assert error.remedy
    assert path.read_bytes() == before, "what is damaged is not written over"


@pytest.mark.parametrize("model", STATE, ids=lambda model: model.__name__)
def test_who_reads_a_whole_file_takes_it(state, model):
    _, whole, _, readers = STATE[model]
    state(model, f"{whole.as_text()}\n")
    for read in readers.values():
        read()


def test_a_damaged_note_leaves_the_lock_free_for_who_removes_it(state):
    path = state(LockNote, "{")
    with pytest.raises(DamagedDocument):
        take_lock()
    assert locks.here("vc") is None
    path.unlink()
    take_lock()


def test_a_second_holder_is_told_that_the_note_is_damaged(state):
    with locks.hold_here("vc", RUN) as note:
        assert note.alive
        path = state(LockNote, '{"pid": 1}')
        with pytest.raises(DamagedDocument, match="user: it is missing"):
            take_lock()
        path.unlink()
        assert locks.here("vc") == locks.NOT_SAID
        note.write()
        assert str(process_id.identity()["pid"]) in str(locks.here("vc"))


def test_a_line_of_a_history_is_named_by_its_number(state):
    whole = STATE[BenchmarkResult][1].as_text()
    path = state(BenchmarkResult, f"{whole}\n{whole}\n{whole[:30]}\n{whole}\n")
    with pytest.raises(DamagedDocument, match=rf"{path}:3:30: it is not JSON"):
        history.history()
    made = STATE[BenchmarkResult][1].model_copy(update={"at": time.time()})
    with pytest.raises(DamagedDocument):
        history.keep("vc", made)
    path.write_text(f"{whole}\n{whole}\n{whole}", "utf-8")
    assert [history.keep("vc", made.model_copy(update={"at": at})).count for at in (2e9, 3e9)] == [4, 5]


@pytest.mark.parametrize(
    ("model", "command"),
    [
        (BenchmarkResult, ("bench", "history")),
        (FleetRun, ("fleet", "status")),
        (FleetRun, ("fleet", "status", "-o", "json")),
        (FleetRun, ("fleet", "resume")),
        (FleetRun, ("fleet", "report")),
        (RefusedShards, ("fleet", "status")),
    ],
)
def test_commands_name_a_damaged_file(state, capsys, model, command):
    if model is RefusedShards:
        state(FleetRun, WHOLE_FLEET.as_text())
    path = state(model, '{"format": 1}')
    assert main(list(command)) == 8
    shown = "".join(capsys.readouterr().err.split())
    assert "".join(f"{path}:1:1:".split()) in shown
    assert "itismissing" in shown
    assert Path(path).exists()
