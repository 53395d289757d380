"""Admission: whether a VM may run on a host, with every reason; one module per requirement. Pure."""
