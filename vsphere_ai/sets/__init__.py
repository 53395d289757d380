"""Sets of VMs: which VMs the plays of a playbook make or destroy, laid over an estate before it is planned. Pure."""
