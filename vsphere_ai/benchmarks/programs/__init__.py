"""Training programs as benchmarks: Megatron, scaling, and the burn of GPUs. Pure."""
