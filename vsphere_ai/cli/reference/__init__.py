"""Commands that look things up and need no connection."""
