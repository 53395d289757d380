"""Plans, runs and drift as text and JSON. Pure."""
