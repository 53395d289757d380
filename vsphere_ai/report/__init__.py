"""Plan and Run as text and JSON. Pure."""
