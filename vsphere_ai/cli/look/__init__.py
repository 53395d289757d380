"""Commands that look at an environment and compare it."""
