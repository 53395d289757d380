"""Requirements of devices of a VM: GPUs, passed-through devices, drives and ports."""
