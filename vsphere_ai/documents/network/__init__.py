"""Documents of networks: RDMA devices, network files of guests, topologies, manifests."""
