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


def told(book, target, seconds):
    """Note that a target was told to go down so many seconds ago; None = never."""
    if seconds is not None:
        book.sending(target)
        with sqlite3.connect(book.path) as db:
            at = datetime.now(UTC) - timedelta(seconds=seconds)
            db.execute("update debt set sent = ? where sent is not null", (at.isoformat(timespec="milliseconds"),))
    return book


def a_run(*, sent_before=None, timeout=900):
    """A run that was cut off in a reboot; its command left so many seconds ago, or never."""
    step = {"target": vars(HOST), "until": "host-back", "options": {"timeout": timeout}}
    book = journal.create({"what": "play.yml", "approved": {"steps": [{"target": vars(HOST)}, step]}})
    book.begin("s1", act(HOST, "reboot", "reboot (over SSH)"), (Debt("reboot", HOST, BOOT), Debt("ssh-on", HOST)))
    return told(book, HOST, sent_before)


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


VM = Target("vm", "train-01", "VirtualMachine:vm-1")


class Guest:
    """Says of a VM that it runs, so many times, then that it is off."""

    def __init__(self, times):
        self.times, self.looks = times, 0

    def read(self, target, path):
        assert (target, path) == (VM, "runtime.powerState")
        self.looks += 1
        return {path: "poweredOn" if self.looks <= self.times else "poweredOff"}


def a_shutdown(*, sent_before=None, timeout=300):
    """A run that was cut off while a guest shut down; it was told to so many seconds ago, or never."""
    steps = [{"target": vars(VM), "argv": []},
             {"target": vars(VM), "action": "power-off", "options": {"shutdown_timeout": timeout}}]  # fmt: skip
    book = journal.create({"what": "play.yml", "approved": {"steps": steps}})
    book.begin("s1", act(VM, "power-off", "shut down"), (Debt("off", VM),))
    return told(book, VM, sent_before)


def test_a_guest_that_was_told_to_shut_down_is_waited_for(capsys):
    guest, book = Guest(2), a_shutdown(sent_before=0)
    resume._await_guests(guest, book)
    assert guest.looks == 3
    assert capsys.readouterr().err == f"train-01: waiting for its guest, which run {book.id} told to shut down\n"


@pytest.mark.parametrize(
    ("sent_before", "timeout", "most"), [(None, 300, 0), (400, 300, 0), (0, 0.3, 4), (700, 900, 0)]
)
def test_a_guest_is_waited_for_as_long_as_it_was_given(sent_before, timeout, most):
    guest = Guest(1000)
    resume._await_guests(guest, a_shutdown(sent_before=sent_before, timeout=timeout))
    assert (guest.looks > 0, guest.looks <= most) == (most > 0, True)
