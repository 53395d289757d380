"""Acceptance: gates, measurements, and the certificate of a farm."""
