"""Tasks on virtual machines: power, reconfiguration, clones, snapshots, moves, checks."""
