"""Addresses, RDMA paths, topologies and exports as text and JSON. Pure."""
