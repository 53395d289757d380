"""Adapters to vCenter (SOAP) and to ESXi (SSH): sessions, TLS, bulk reads, tasks, outages; they know no kind."""
