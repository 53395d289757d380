"""Tables of a journal, and its one format."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from pathlib import Path

from pydantic import JsonValue

from vsphere_ai.documents.rows import value_of
from vsphere_ai.runs import checksums

FORMAT = 1
SCHEMA = """
create table run (key text primary key, value text not null) strict;
create table step (
    attempt integer not null, id text not null, target text not null, ref text not null, summary text not null,
    what text not null, kinds text not null, state text not null, began text not null, ended text, error text,
    task text, primary key (attempt, id)
) strict;
create table pending (
    kind text not null, target_kind text not null, name text not null, ref text not null, detail text not null,
    opened text not null, sent text, closed text, primary key (kind, ref)
) strict;
"""
SET = "insert into run values (?, ?) on conflict (key) do update set value = excluded.value"
BEGIN = """
insert or replace into step (attempt, id, target, ref, summary, what, kinds, state, began)
values (?, ?, ?, ?, ?, ?, ?, 'begun', ?)
"""
END = "update step set state = ?, ended = ?, error = ? where attempt = ? and id = ?"
SUBMITTED = "update step set task = ? where attempt = ? and id = ?"
SENDING = "update pending set sent = ? where kind in ('reboot', 'off') and ref = ?"
RESOLVE = "update pending set closed = ? where kind = ? and ref = ?"
REBOOTED = """
update step set state = ?, ended = ?, error = ?
where ref = ? and what = 'reboot' and state <> 'skipped' and (state = 'done') <> ?
"""
# What is pending already stays pending since then, and sent: an earlier order may take effect even now.
ADD = """
insert into pending values (?, ?, ?, ?, ?, ?, ?, null) on conflict (kind, ref) do update set
    target_kind = excluded.target_kind, name = excluded.name, detail = excluded.detail, closed = null,
    opened = case when closed is null then opened else excluded.opened end,
    sent = case when closed is null then coalesce(excluded.sent, sent) else excluded.sent end
"""

STATEMENTS = {
    "set": SET, "begin": BEGIN, "end": END, "submitted": SUBMITTED, "sending": SENDING, "resolve": RESOLVE,
    "rebooted": REBOOTED, "add": ADD, "checksum": checksums.STORE,
}  # fmt: skip
"""Every statement that writes into a journal after its beginning, by a name that does not change."""


def stored(db: sqlite3.Connection, key: str) -> JsonValue:
    """Return a stored value of the run, whatever the format of the journal is; None where there is none."""
    found = db.execute("select value from run where key = ?", (key,)).fetchone()
    return value_of(found[0]) if found else None


def is_time(text: str) -> bool:
    """Return whether a text is a time as journals hold it."""
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def instead_of(path: Path) -> str:
    """Return the remedy where a journal cannot be used."""
    return (
        f"put back what the run has out of service: vsphere-ai resume --from-vcenter {path.stem} (vsphere-ai doctor "
        f"names it); then remove {path}, and plan again"
    )
