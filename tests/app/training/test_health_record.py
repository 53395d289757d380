"""Last check of health: read from the file that `health` writes; what a VM had, and when."""

from __future__ import annotations

import json
from datetime import date

import pytest

from vsphere_ai.app.training.health.history import last_checks
from vsphere_ai.model.records.assessment import HealthChecked


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    (tmp_path / "health").mkdir()
    return tmp_path / "health" / "vc-1.json"


def test_a_check_has_its_day_and_the_xids_of_the_vm(kept):
    taken = "2026-11-23T10:00:00+00:00"
    of = {"vm": "train-01", "gpu": "esx01 0000:3b:00.0", "uuid": "", "boot": 1, "kind": "xid", "place": "", "text": ""}
    xids = [{**of, "number": n, "time": taken} for n in (79, 31, 31)]
    counters = {vm: {"taken": taken, "values": {}} for vm in ("train-01", "train-02")}
    kept.write_text(json.dumps({"counters": counters, "use": {}, "xids": xids}))
    day = date(2026, 11, 23)
    assert last_checks("vc-1") == {"train-01": HealthChecked(day, (31, 79), (79,)), "train-02": HealthChecked(day)}
    assert last_checks("vc-2") == {}


def test_an_xid_that_the_last_check_did_not_see_any_more_is_history(kept):
    """A VM was replaced on another host: what its former GPU had is not said of it."""
    taken = "2026-11-23T10:00:00+00:00"
    of = {"vm": "train-01", "gpu": "esx01 0000:3b:00.0", "uuid": "", "boot": 1, "kind": "xid", "place": "", "text": ""}
    for seen, xids in (([], ()), ([79], (79,))):
        counters = {"train-01": {"taken": taken, "values": {}, "xids": seen}}
        kept.write_text(json.dumps({"counters": counters, "use": {}, "xids": [{**of, "number": 79, "time": taken}]}))
        assert last_checks("vc-1") == {"train-01": HealthChecked(date(2026, 11, 23), xids, xids)}
