"""Fixtures of the tests of the whole: a farm with a set of VMs."""

from e2e.conftest import cli, sets

__all__ = ["cli", "sets"]
