"""Plans, runs, findings and traces as text and JSON. Pure."""
