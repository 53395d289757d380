"""Lockdown mode of hosts: where it is read, and whom it keeps from logging in."""

from __future__ import annotations

from vsphere_ai.model.facts import Facts

MODE, UNLOCKED = "config.lockdownMode", "lockdownDisabled"
ACCESS_MANAGER, EXCEPTIONS_METHOD = "configManager.hostAccessManager", "QueryLockdownExceptions"
EXCEPTIONS = "lockdown-exceptions"
"""Name of the query for the exception users."""
EXCEPTIONS_FACT = f"query:{EXCEPTIONS}"
"""Its answer among the facts of a host."""


def is_locked(host: Facts) -> bool:
    """Return whether a host is in lockdown mode, normal or strict."""
    return bool(host.get(MODE, UNLOCKED) != UNLOCKED)
