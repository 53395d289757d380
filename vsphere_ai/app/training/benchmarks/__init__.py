"""Benchmarks on the VMs of an environment: run, judged, kept; crossover of hosts."""
