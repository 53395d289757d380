"""The ESXi Shell of a simulated host: one module per command, all reading and changing the host's hardware model."""
