"""Schedule of a plan: windows, the order of steps in them, and the time they are expected to take. Pure."""
