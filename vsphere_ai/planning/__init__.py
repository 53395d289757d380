"""From wanted values and facts to a plan: changes, windows, order, moves, problems. Pure."""
