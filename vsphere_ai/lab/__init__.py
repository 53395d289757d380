"""The embedded simulated farm: a vCenter and its ESXi hosts on loopback. Never imports planner code."""
