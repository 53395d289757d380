"""Benchmarks of an environment: results of nccl-tests, perftest and Megatron, baselines, slow parts. Pure."""
