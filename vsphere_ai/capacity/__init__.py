"""Placement of vGPUs on the GPUs of hosts: what fits where, in which order, and what a spare host leaves. Pure."""
