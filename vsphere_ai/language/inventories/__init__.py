"""Inventories, and the patterns and selectors by which hosts and VMs are chosen. Pure."""
