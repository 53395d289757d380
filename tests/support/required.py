"""What a test needs beside the project: it is skipped visibly without it, and fails where everything is installed."""

import os
from importlib.util import find_spec

import pytest


def required(there, what):
    """Go on where something is there; `what` says what to install."""
    if not there:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"needs {what}")


def required_module(name, extra):
    """Go on where a module is installed that an extra of setup.cfg brings."""
    required(find_spec(name), f"{name}: pip install -e '.[{extra}]'")
