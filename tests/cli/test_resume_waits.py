"""What `resume` waits for before it reads anything: evidence where there is some, time only where there is none."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta

import pytest
from support.journals import act

from vsphere_ai import journal
from vsphere_ai.cli import resume
from vsphere_ai.debts import Debt
from vsphere_ai.state import Target

HOST, OTHER = Target("host", "esx01", "HostSystem:host-1"), Target("host", "esx02", "HostSystem:host-2")
BOOT = "2026-01-01T00:00:00+00:00"


class Deeds:
    """Remembers what it was to do. `rebooted`: every host it waits for has been down."""

    def __init__(self, *, rebooted=False):
        self.booted, self.waits, self.rebooted = [], [], rebooted

    def remember_boot(self, host, booted, sent):
        self.booted.append((host, booted, sent))

    def has_rebooted(self, host):
        return self.rebooted and host in [h for h, _, _ in self.waits]

    def do(self, step, say):
        self.waits.append((step.target, step.until, dict(step.options)))


def a_run(*, sent_before=None, timeout=900):
    """A run that was cut off in a reboot; its command left so many seconds ago, or never."""
    step = {"target": vars(HOST), "until": "host-back", "options": {"timeout": timeout}}
    book = journal.create({"what": "play.yml", "approved": {"steps": [{"target": vars(HOST)}, step]}})
    book.begin("s1", act(HOST, "reboot", "reboot (over SSH)"), (Debt("reboot", HOST, BOOT), Debt("ssh-on", HOST)))
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
    (left,) = (o.sent for o in book.owed() if o.sent)
    resume._await_reboots(deeds, book)
    ((host, until, options),) = deeds.waits
    assert (host, until, options["timeout"]) == (HOST, "host-back", 900)
    assert watched - 3 <= options["unless_never_down"] <= watched
    assert deeds.booted == [(HOST, BOOT, left)]
    assert [d.kind for d in book.debts()] == ["ssh-on"]


@pytest.mark.parametrize(("sent_before", "timeout"), [(0, 60), (110, 1), (3600, 5)])
def test_a_host_is_not_given_up_before_it_is_known_whether_it_went_down(sent_before, timeout):
    book, deeds = a_run(sent_before=sent_before, timeout=timeout), Deeds()
    resume._await_reboots(deeds, book)
    ((_, _, options),) = deeds.waits
    assert options["timeout"] >= options["unless_never_down"] + 10


def test_what_was_settled_is_not_waited_for():
    book, deeds = a_run(sent_before=1), Deeds()
    book.settle(Debt("reboot", HOST))
    resume._await_reboots(deeds, book)
    assert deeds.waits == []


@pytest.mark.parametrize("ended", ["begun", "unknown", "failed"])
@pytest.mark.parametrize("rebooted", [True, False])
def test_a_reboot_that_is_seen_is_written_down_as_done(ended, rebooted):
    book = a_run(sent_before=1)
    if ended != "begun":
        book.end("s1", ended, "it broke off")
    resume._await_reboots(Deeds(rebooted=rebooted), book)
    (step,) = book.steps()
    assert (step.state, bool(step.ended)) == (("done", True) if rebooted else (ended, ended != "begun"))
    assert bool(step.error) == (ended != "begun" and not rebooted)


def test_a_step_of_another_kind_or_host_stays_as_it_ended():
    book = a_run(sent_before=1)
    book.begin("s2", act(HOST, "enter-maintenance", "enter maintenance mode"), ())
    book.begin("s3", act(OTHER, "reboot", "reboot (over SSH)"), ())
    resume._await_reboots(Deeds(rebooted=True), book)
    assert [s.state for s in book.steps()] == ["done", "begun", "begun"]


def test_a_host_the_plan_does_not_wait_for_has_half_an_hour():
    assert resume._patience(a_run(), OTHER) == 1800
