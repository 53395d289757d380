"""Guests of simulated VMs: SSH servers and the programs in them, computed from the farm and from planted defects."""
