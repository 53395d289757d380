"""Environments: sessions with a vCenter, what is read, shown and checked there, and what is wanted of it."""
