"""Acceptance: gates, measurements, and the certificate of an environment."""
