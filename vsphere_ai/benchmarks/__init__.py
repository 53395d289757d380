"""Benchmarks of a farm: results of nccl-tests, perftest and Megatron, baselines, search for a slow part. Pure."""
