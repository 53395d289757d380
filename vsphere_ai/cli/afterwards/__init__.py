"""Commands for what comes after a run: its list, report, end, way back and locks."""
