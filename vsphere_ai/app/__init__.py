"""The Python interface: open a session, read, plan, apply, resume, roll back; what the command line calls."""
