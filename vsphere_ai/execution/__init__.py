"""Carries out a plan step by step, reads back, and ends a run."""
