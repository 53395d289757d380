"""Playbooks: plays, variables, outputs, and what each target is wanted to be. Pure."""
