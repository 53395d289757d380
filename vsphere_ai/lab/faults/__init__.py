"""Faults of the lab: the rules, when they fire, and what each does."""
