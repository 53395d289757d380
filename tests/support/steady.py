"""What differs from run to run in what the tool prints, and what stands for it: one list for pages and screens."""

from __future__ import annotations

import getpass
import re
import socket

VOLATILE = (
    (re.compile(r"\bPlan [0-9a-f]{8}\b"), "Plan 0123abcd"),
    (re.compile(r"\b\d{8}-\d{6}-[0-9a-f]{4}\b"), "20260101-120000-0123"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?=[T ]\d\d:\d\d|$| to )", re.MULTILINE), "2026-01-01"),
    (re.compile(r"(?<= to )\d{4}-\d\d-\d\d$", re.MULTILINE), "2027-01-01"),
    (re.compile(r"as of \d{4}-\d\d-\d\d, \d+ days? old"), "as of 2026-01-01, 9 days old"),
    (re.compile(r"\d+ more days, until \d{4}-\d\d-\d\d"), "365 more days, until 2027-01-01"),
    (re.compile(r"(?<![\d:])\d\d:\d\d:\d\d(?![\d:])(?:\.\d{3})?"), "12:00:00"),
    (re.compile(r"\babout (?:\d+h\d\dm|\d+m\d\ds|\d+m|\d+s)\b"), "about 3s"),
    (re.compile(r"\((?:partly estimated, )?by \d+ runs? here\)"), "(by 2 runs here)"),
    (re.compile(r"\bin (?:\d+m)?\d+s\b"), "in 8s"),
    (re.compile(r" \((?:\d+m)?\d+s\)"), " (3s)"),
    (re.compile(r"(?<=127\.0\.0\.1:)\d+"), "40443"),
    (re.compile(r"(?m)^still working, \d+ s.*\n"), ""),
    (re.compile(r"(?<=clock is )\d\.\d s (?:ahead of|behind)"), "0.0 s ahead of"),
    (re.compile(r"(?m)^(  pass    doctor\.software        (?:Python|[A-Za-z][\w-]*)) \d+(?:\.\d+)+"), r"\1 1.2.3"),
    (re.compile(r"00:50:56:[89ab][0-9a-f](:[0-9a-f]{2}){2}"), "00:50:56:00:00:01"),  # vCenter's own range
    (re.compile(r"(?m)(?<= \()[0-9a-f]{8}(?=\)$)"), "01234567"),  # what a guest is given, with MAC addresses
    (re.compile(r"SHA256:[\w+/]{43}"), "SHA256:0123"),
    (re.compile(r"\btask-\d+"), "task-1"),
    (re.compile(r"(?<=process )\d+"), "1234"),
    # a run that takes longer renews its lock, which is a change too
    (re.compile(r"(?m)^4\d(?= changes after change \d+$)"), "40"),
)
"""Patterns and what stands for them: digests, runs, clocks, durations, the port and the processes of the lab."""
OF_SETS = re.compile(r"00:50:56:(?!00:00)[0-3][0-9a-f](:[0-9a-f]{2}){2}")
"""MAC addresses of sets, which follow from the vCenter: the first one in a text is 1, and so on."""


def steady(text, folders=()):
    """Return a text without what differs from run to run; `folders` are pairs of a path and what stands for it."""
    for path, stands_for in folders:
        text = text.replace(str(path), stands_for)
    text = re.sub(rf"{re.escape(getpass.getuser())}(@| on ){re.escape(socket.gethostname())}", r"ops\1admin-01", text)
    for pattern, stands_for in VOLATILE:
        text = pattern.sub(stands_for, text)
    numbers: dict[str, int] = {}
    text = OF_SETS.sub(lambda mac: f"00:50:56:10:00:{numbers.setdefault(mac[0], len(numbers) + 1):02x}", text)
    return [line.rstrip() for line in text.splitlines()]
