"""Thin adapters to vCenter (SOAP) and ESXi (SSH); they know no kind."""
