"""Distributed switches, port groups, ports, and plain networks."""
