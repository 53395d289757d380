"""Values that every room uses: targets, facts, steps, problems, versions, text. Pure."""
