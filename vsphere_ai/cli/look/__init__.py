"""Commands that look at an estate and compare it."""
