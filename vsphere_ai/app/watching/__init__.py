"""The environment over time: readings, drift, notifications, files of reports."""
