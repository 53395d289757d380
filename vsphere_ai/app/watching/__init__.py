"""The farm over time: readings, drift, notifications, files of reports."""
