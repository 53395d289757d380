"""VMs of sets and their addresses: destroyed, replaced, adopted, leased, reclaimed."""
