"""Documents of runs: their list, their record, locks, and drift between readings."""
