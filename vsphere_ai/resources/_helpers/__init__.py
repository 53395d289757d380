"""Helpers that several kinds share."""
