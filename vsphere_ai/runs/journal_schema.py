"""The tables of a journal, and what makes a journal of an older format one of this."""

from __future__ import annotations

import json
import sqlite3
from datetime import datetime
from pathlib import Path
from typing import Any

from vsphere_ai.runs import checksums

FORMAT = 4
SCHEMA = """
create table run (key text primary key, value text not null) strict;
create table step (
    attempt integer not null, id text not null, target text not null, summary text not null,
    state text not null, began text not null, ended text, error text, task text, what text not null default '',
    ref text not null default '', kinds text not null default '',
    primary key (attempt, id)
) strict;
create table debt (
    kind text not null, target_kind text not null, name text not null, ref text not null, detail text not null,
    opened text not null, settled text, sent text, primary key (kind, ref)
) strict;
"""
BEGIN = "insert or replace into step values (?, ?, ?, ?, ?, ?, null, null, null, ?, ?, ?)"
# What is owed already stays owed since then, and sent: an earlier order may take effect even now.
OWE = """
insert into debt values (?, ?, ?, ?, ?, ?, null, ?) on conflict (kind, ref) do update set
    target_kind = excluded.target_kind, name = excluded.name, detail = excluded.detail, settled = null,
    opened = case when settled is null then opened else excluded.opened end,
    sent = case when settled is null then coalesce(excluded.sent, sent) else excluded.sent end
"""
OLDER = {
    1: (
        "alter table step add column task text",
        "alter table debt add column sent text",
        "update debt set sent = opened where kind = 'reboot'",  # it may have been
        checksums.TABLE,
    ),
    # reboots and readings back were told by these words, which never changed; nothing else was told apart
    2: (
        "alter table step add column what text not null default ''",
        "update step set what = 'reboot' where summary like 'reboot (%'",
        "update step set what = 'as-planned' where summary = 'read back'",
    ),
    # a name that was approved or owed for one object only is that object's
    3: (
        "alter table step add column ref text not null default ''",
        "alter table step add column kinds text not null default ''",
        """update step set ref = coalesce((
            select min(known.ref) from (
                select json_extract(each.value, '$.target.name') as name,
                       json_extract(each.value, '$.target.ref') as ref
                from run, json_each(run.value, '$.steps') as each where run.key = 'approved'
                union select name, ref from debt
            ) as known where known.name = step.target group by known.name having count(distinct known.ref) = 1
        ), '')""",
        "insert or replace into run values ('carried', 'true')",  # what its steps changed stands nowhere
    ),
}


def format_of(db: sqlite3.Connection) -> Any:
    """Return the format a journal says it has: a number, where it is one; 0 when it says nothing."""
    found = db.execute("select value from run where key = 'format'").fetchone()
    return json.loads(found[0]) if found else 0


def is_credible(db: sqlite3.Connection) -> bool:
    """Tell whether a journal can be of the older format it says it has: that is sealed too, where there are seals."""
    sealed = db.execute("select 1 from sqlite_master where name = 'seal'").fetchone()
    return not sealed or checksums.hold(db)


def carry_over(db: sqlite3.Connection) -> Any:
    """Make a journal of an older format one of this, in the caller's transaction; return the format it has then."""
    db.execute("begin immediate")  # statements that alter tables begin none; and another process may be at it
    written = format_of(db)
    while written in OLDER:
        for statement in OLDER[written]:
            db.execute(statement)
        written += 1
    db.execute("update run set value = ? where key = 'format'", (json.dumps(written),))
    checksums.checksum_all(db)
    return written


def is_time(text: str) -> bool:
    """Tell whether a text is a time as journals hold it."""
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def instead_of(path: Path) -> str:
    """Say what to do where a journal cannot be used."""
    return (
        "look for hosts in maintenance mode, VMs that are off and SSH that runs, put them right, and plan again "
        f"(vsphere-ai plan); then remove {path}"
    )
