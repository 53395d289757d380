"""GPUs of hosts and of the farm: MIG layouts, and how many VMs still fit."""
