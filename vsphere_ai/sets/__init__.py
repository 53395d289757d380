"""Sets of VMs: which VMs the plays of a playbook make or destroy, laid over the facts before it is planned. Pure."""
