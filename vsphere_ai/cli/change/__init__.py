"""Commands that change an environment, and plan, which shows what they would do."""
