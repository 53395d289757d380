"""Benchmarks on the VMs of a farm: run, judged, kept; crossover of hosts."""
