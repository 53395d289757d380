"""The embedded simulated environment: a vCenter and its ESXi hosts on loopback; it never imports planner code."""
