"""VMs as nodes: found, trusted, checked before a launch, exported."""
