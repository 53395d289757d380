"""Search for a slow VM, host, rail or link by trials in groups. Pure."""
