"""Network facts: switches, port groups, adapters, PCI trees, and the links that RDMA traffic takes. Pure."""
