"""Clusters: their configuration, rules, HA and resource pools."""
