"""Commands that change an estate, and plan, which shows what they would do."""
