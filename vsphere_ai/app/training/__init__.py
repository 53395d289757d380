"""Training on the VMs: nodes, launches, benchmarks, health, acceptance."""
