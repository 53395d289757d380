"""Compatibility rules: each with an id, a verdict, evidence and a source. Pure."""
