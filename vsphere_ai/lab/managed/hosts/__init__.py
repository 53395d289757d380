"""Hosts, and the managers each has."""
