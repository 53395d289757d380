"""Health of nodes: checks with evidence from guest and host, XIDs and their actions, rates of counters. Pure."""
