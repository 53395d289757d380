"""What `resume` waits for before it reads anything: evidence where there is some, time only where there is none."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta

import pytest

from vsphere_ai import journal
from vsphere_ai.cli import resume
from vsphere_ai.debts import Debt
from vsphere_ai.state import Target

HOST, OTHER = Target("host", "esx01", "HostSystem:host-1"), Target("host", "esx02", "HostSystem:host-2")
BOOT = "2026-01-01T00:00:00+00:00"


class Deeds:
    """Remembers what it was to do."""

    def __init__(self):
        self.booted, self.waits = [], []

    def remember_boot(self, host, booted):
        self.booted.append((host, booted))

    def do(self, step, say):
        self.waits.append((step.target, step.until, dict(step.options)))


def a_run(*, sent_before=None):
    """A run that was cut off in a reboot; its command left so many seconds ago, or never."""
    step = {"target": vars(HOST), "until": "host-back", "options": {"timeout": 900}}
    book = journal.create({"what": "play.yml", "approved": {"steps": [{"target": vars(HOST)}, step]}})
    book.begin("s1", HOST, "reboot (over SSH)", (Debt("reboot", HOST, BOOT), Debt("ssh-on", HOST)))
    if sent_before is not None:
        book.sending(HOST)
        with sqlite3.connect(book.path) as db:
            at = datetime.now(UTC) - timedelta(seconds=sent_before)
            db.execute("update debt set sent = ? where sent is not null", (at.isoformat(timespec="milliseconds"),))
    return book


def test_a_command_that_never_left_is_not_waited_for():
    book, deeds = a_run(), Deeds()
    resume._await_reboots(deeds, book)
    assert deeds.waits == []
    assert [d.kind for d in book.debts()] == ["ssh-on"]


@pytest.mark.parametrize(("sent_before", "watched"), [(0, 120), (100, 20), (3600, 15), (-50, 120)])
def test_the_time_since_it_left_counts(sent_before, watched):
    book, deeds = a_run(sent_before=sent_before), Deeds()
    resume._await_reboots(deeds, book)
    ((host, until, options),) = deeds.waits
    assert (host, until, options["timeout"]) == (HOST, "host-back", 900)
    assert watched - 3 <= options["unless_never_down"] <= watched
    assert deeds.booted == [(HOST, BOOT)]
    assert [d.kind for d in book.debts()] == ["ssh-on"]


def test_what_was_settled_is_not_waited_for():
    book, deeds = a_run(sent_before=1), Deeds()
    book.settle(Debt("reboot", HOST))
    resume._await_reboots(deeds, book)
    assert deeds.waits == []


def test_a_host_the_plan_does_not_wait_for_has_half_an_hour():
    assert resume._patience(a_run(), OTHER) == 1800
