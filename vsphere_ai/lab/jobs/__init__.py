"""Processes of guests on this machine: an init process per guest starts and ends them, within bounds."""
