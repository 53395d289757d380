"""Answers of vCenter on their way from bytes to plain values."""
