"""Distributed training: jobs, the command and environment of each rank, NCCL settings, calculators, exports. Pure."""
