"""Requirements that devices of a VM have: GPUs, passed-through devices, drives and ports."""
