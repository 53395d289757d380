"""Labs that are copies of a process that has imported what a lab needs."""

from __future__ import annotations

import os

import pytest

from support import prefork
from vsphere_ai.lab.front import process
from vsphere_ai.lab.front.starting import StartTimeout


class NoLab(Exception):
    """A lab did not start, twice. The same one is raised for every test that needs it, and shown once (`reported`)."""

    def __init__(self, why):
        super().__init__(f"a lab did not start, twice: {why}")
        self.reported = False


_gave_up = []
"""The first lab for which this process waited in vain: it does not wait for each of some hundred tests."""


def started(directory, scenario):
    """Start a lab that ends with this process, at the latest; a start that fails is tried once more."""
    if _gave_up:
        raise _gave_up[0]
    try:
        return _start(directory, scenario)
    except process.LabFailed:
        pass
    try:
        return _start(directory, scenario)
    except process.LabFailed as error:
        failure = NoLab(error)
        if isinstance(error, StartTimeout):
            _gave_up.append(failure)
        raise failure from error


def _start(directory, scenario):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "subprocess", prefork)
        return process.start(directory, scenario, exit_with=os.getpid())


def say_once(report, error):
    """Have a report of a test that failed for want of a lab say so in one line, where another one has said why."""
    if not isinstance(error, NoLab):
        return
    if error.reported:
        report.no_lab = True
        report.longrepr = str(error).partition("\n")[0]
    error.reported = True


def status(report):
    """The category, letter and word of a test that failed for want of a lab, as pytest asks for them; else None."""
    return ("without a lab", "L", "NO LAB") if getattr(report, "no_lab", False) else None
