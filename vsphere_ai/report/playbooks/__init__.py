"""Playbooks and inventories written as a person would write them. Pure."""
