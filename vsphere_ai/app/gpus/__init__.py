"""GPUs of hosts and of the environment: MIG layouts, and how many VMs still fit."""
