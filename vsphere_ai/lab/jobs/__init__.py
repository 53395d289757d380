"""Processes of guests on this machine: one keeper per guest starts and ends them, within bounds."""
