"""Health of nodes and hosts: read, judged, learned, kept."""
