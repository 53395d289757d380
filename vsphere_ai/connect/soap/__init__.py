"""Session with a vCenter: requests, bulk reads, cursors, tasks, outages."""
