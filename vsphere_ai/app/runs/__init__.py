"""Plans and runs: planned, approved, locked, carried out, resumed, rolled back, verified."""
