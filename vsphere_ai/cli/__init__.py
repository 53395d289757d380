"""The command line: one file per command, which reads options and prints results."""
