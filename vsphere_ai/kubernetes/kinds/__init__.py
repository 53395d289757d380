"""Kinds of objects by operator: their fields, and the rules that one object of them keeps."""
