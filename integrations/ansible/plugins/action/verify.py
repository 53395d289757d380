"""Runs the module verify on the controller, as that of apply."""

from __future__ import annotations

from ansible_collections.vsphere_ai.farm.plugins.action.apply import ActionModule

__all__ = ["ActionModule"]
