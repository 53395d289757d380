"""Journals of runs for tests, also of a format that this version does not read."""

from __future__ import annotations

import contextlib
import sqlite3

from support.acting import lifecycle
from vsphere_ai.model.records.run_record import RunDocuments, RunRecord
from vsphere_ai.runs import journal


def act(target, action, summary):
    """A step of a target's life, as the schedule makes it."""
    return lifecycle(action, target, summary)


def create(about=None, pending=()):
    """Begin the journal of a run; `about` are facts and documents of it."""
    values = {"what": "play.yml", **(about or {})}
    documents = {k: values.pop(k) for k in RunDocuments.model_fields if k in values}
    return journal.create(RunRecord.model_validate(values), RunDocuments.model_validate(documents), pending)


def of_another_format(path):
    """Make a journal one of a format that no version has written yet."""
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("update run set value = '99' where key = 'format'")
        db.execute("update run set value = '\"9.0\"' where key = 'vsphere_ai'")
