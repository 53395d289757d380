"""Requirements on a host that is to take a VM: a module each, found by looking into this folder."""
