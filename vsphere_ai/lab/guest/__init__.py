"""Guests of simulated VMs: SSH servers and the programs in them, computed from the model and from planted defects."""
