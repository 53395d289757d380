"""Objects of Kubernetes operators that give addresses and RDMA to pods: their fields, and the rules they keep."""
