"""Actions: one module for each way to carry out or verify a step."""
