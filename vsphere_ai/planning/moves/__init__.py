"""Moves of VMs: where those go that leave a host, together and window by window. Pure."""
