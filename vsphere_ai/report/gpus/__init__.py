"""Capacity, MIG layouts and vGPU types as text and JSON. Pure."""
