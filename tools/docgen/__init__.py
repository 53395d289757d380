"""Generators of documentation pages; not part of the installed package."""
