"""Formats that a report is written in: a module per format, with a function of its name. Pure."""
