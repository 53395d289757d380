"""Guests as vCenter shows them: images, faults, readiness."""
