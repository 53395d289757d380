"""Labs that are copies of a process that has imported what a lab needs."""

from __future__ import annotations

import os

import pytest

from support import prefork


def started(directory, scenario):
    """Start a lab that ends with this process, at the latest."""
    from vsphere_ai.lab import process

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "subprocess", prefork)
        return process.start(directory, scenario, exit_with=os.getpid())
